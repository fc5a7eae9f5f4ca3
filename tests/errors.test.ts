import { expect, test } from "vitest"
import { missingPackage, show } from "../src/errors.ts"

test("a missing package and one without its binary are distinguished, each with what to install", () => {
  const missing = Object.assign(new Error("Cannot find package 'redis'"), { code: "ERR_MODULE_NOT_FOUND" })
  expect(missingPackage("cluster", "redis", missing).message).toBe(
    "cluster: expected redis, got none; npm install redis",
  )
  expect(missingPackage("cluster", "redis", new Error("No native build was found")).message).toBe(
    'cluster: expected redis, got "No native build was found"; npm install --include=optional redis',
  )
})

test("a value is shown as JSON, cut where it is long, however large or deep it is", () => {
  expect(show({ a: [1, Number.NaN, "x", null, undefined], b: undefined })).toBe('{"a":[1,"NaN","x",null,null]}')
  expect(show([new Map([["a", 1]]), Number])).toBe("[[object Map],null]")
  expect(show("x".repeat(200))).toBe(`"${"x".repeat(76)}…`)
  const deep = JSON.parse(`${"[".repeat(200_000)}${"]".repeat(200_000)}`)
  expect(show(deep)).toBe(`${"[".repeat(77)}…`)
  const circular: { self?: object } = {}
  circular.self = circular
  expect(show(circular)).toMatch(/^{"self":{"self":/)
  let read = 0
  const get = (target: number[], key: string | symbol) => {
    read++
    return Reflect.get(target, key)
  }
  const large = new Proxy(new Array(1_000_000).fill(7), { get })
  expect(show(large)).toMatch(/^(\[|,|7){77}…$/)
  expect(read).toBeLessThan(1000)
})
