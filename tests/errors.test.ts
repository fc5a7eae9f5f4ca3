import { expect, test } from "vitest"
import { missingPackage } from "../src/errors.ts"

test("a missing package and one without its binary are distinguished, each with what to install", () => {
  const missing = Object.assign(new Error("Cannot find package 'redis'"), { code: "ERR_MODULE_NOT_FOUND" })
  expect(missingPackage("cluster", "redis", missing).message).toBe(
    "cluster: expected redis, got none; npm install redis",
  )
  expect(missingPackage("cluster", "redis", new Error("No native build was found")).message).toBe(
    'cluster: expected redis, got "No native build was found"; npm install --include=optional redis',
  )
})
