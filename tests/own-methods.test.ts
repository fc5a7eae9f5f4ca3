/** Methods from outside: docs/lab/own-methods.md followed in a project that has nothing but the packed package. */

import { spawnSync } from "node:child_process"
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { runStream } from "../src/learning/loop.ts"
import type { RunOptions } from "../src/learning/options.ts"
import type { OwnRowModel } from "../src/models/own/row-model.ts"
import type { CreatePolicy } from "../src/policies/own.ts"
import { synthetic } from "../src/stream/synthetic/synthetic.ts"
import { modelChecks, policyChecks } from "../src/testing.ts"
import { filesOfPage, installPackage } from "./support/package.ts"

const ROOT = join(import.meta.dirname, "..")
const page = readFileSync(join(ROOT, "docs", "lab", "own-methods.md"), "utf8")
const files = filesOfPage(page)
let project = ""

beforeAll(() => {
  project = installPackage()
  for (const [name, text] of files) writeFileSync(join(project, name), text)
})
afterAll(() => rmSync(project, { recursive: true, force: true }))

function node(...words: string[]) {
  const { NODE_OPTIONS: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { cwd: project, env, encoding: "utf8" })
  return { status, stdout, stderr }
}
const dess = (...words: string[]) => node(join("node_modules", "dess", "dist", "bundle", "main.js"), ...words)

test("the policy of the page is the one of examples/, in at most 30 lines", () => {
  const example = readFileSync(join(ROOT, "examples", "grow-by-count.mjs"), "utf8")
  const code = files.get("grow-by-count.mjs") ?? ""
  expect(example.endsWith(code)).toBe(true)
  expect(code.trimEnd().split("\n").length).toBeLessThanOrEqual(30)
})

test("the contract runs under node:test on the page's policy", () => {
  const { status, stdout } = node("--test", "grow-by-count.test.mjs")
  expect({ status, passed: /(?:ℹ|#) pass (\d+)/.exec(stdout)?.[1] }).toEqual({ status: 0, passed: "8" })
})

test("dess run takes the policy and its options, and refuses others", () => {
  const run = (method: string) =>
    dess("run", "--interactions", "4000", "--plugin", "./grow-by-count.mjs", "--method", method, "--json")
  const [soon, late] = ["grow-by-count:least=2", "grow-by-count:least=1000"].map((method) =>
    JSON.parse(run(method).stdout),
  )
  expect(soon.plugin).toMatch(/^[0-9a-f]{64}$/)
  expect(soon.meanSize.user).toBeGreaterThan(1.5 * late.meanSize.user)
  expect(run("grow-by-count:lest=2")).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/expected an option of least, .*got "lest"/),
  })
  expect(run("grow-by-count:least=many").stderr).toMatch(/expected a number, got "many"/)
  expect(dess("run", "--method", "grow-by-count").stderr).toMatch(/method: expected one of .*--plugin <file>/)
})

test("dess compare runs it in processes of their own, keeps finished cells, and runs anew what changed", () => {
  const words = ["compare", "--plugin", "./grow-by-count.mjs", "--interactions", "3000", "--seeds", "2", "--json"]
  const methods = ["--methods", "grow-by-count,grow-by-count:least=40,dess-fre", "--no-controls"]
  const summary = () => {
    const { stdout, stderr } = dess(...words, ...methods)
    return { stderr, ...JSON.parse(stdout) }
  }
  expect(summary()).toMatchObject({ cells: 6, computed: 6, failed: [] })
  expect(summary()).toMatchObject({ computed: 0, kept: 6 })
  const path = join(project, "grow-by-count.mjs")
  writeFileSync(path, `${readFileSync(path, "utf8")}// another\n`)
  expect(summary()).toMatchObject({ computed: 4, kept: 2 })
}, 60_000)

test("random-grow is matched with a policy from outside, too", () => {
  const words = ["compare", "--plugin", "./grow-by-count.mjs", "--interactions", "3000", "--seeds", "1", "--json"]
  dess(...words, "--methods", "grow-by-count,dess-fre,random-grow", "--no-controls", "--out", "matched")
  const report = JSON.parse(dess("report", "matched", "--no-figures", "--json").stdout)
  const names = report.parts[0].tables[0].rows.map(({ cells }: { cells: { text: string }[] }) => cells[0].text)
  expect(names).toEqual([
    "grow-by-count",
    "dess-fre",
    "majority class",
    "random-grow = dess-fre",
    "random-grow = grow-by-count",
  ])
}, 60_000)

test.each(["my-mf", "never-grow+my-mf", "fixed-16+my-mf"])("dess run takes the page's model as %s", (method) => {
  const { stdout, stderr } = dess(
    "run",
    "--interactions",
    "4000",
    "--plugin",
    "./my-model.mjs",
    "--method",
    method,
    "--json",
  )
  expect(stderr).toBe("")
  const { accuracy, majorityAccuracy } = JSON.parse(stdout)
  expect(accuracy).toBeGreaterThan(majorityAccuracy)
})

test.each([
  ["nothing to run", "export const policy = 1", /expected export const policies .*got \["policy"\]/],
  ["a name of dess", "export const policies = { 'dess-mine': () => ({}) }", /expected a name .*got "dess-mine"/],
  ["no function", "export const policies = { mine: 3 }", /expected a function, or \{ create, options \}, got 3/],
  [
    "a policy without arms",
    "export const policies = { mine: () => ({ context: 'fre' }) }",
    /policy: expected a firstSegment/,
  ],
])("a module with %s is refused", (_, text, message) => {
  writeFileSync(join(project, "bad.mjs"), text)
  expect(dess("run", "--plugin", "bad.mjs", "--method", "mine", "--interactions", "1000").stderr).toMatch(message)
})

describe("in the library", () => {
  const last = async (options: RunOptions) => {
    const run = runStream(synthetic({ interactions: 2000, users: 80, items: 100 }), options)
    for (;;) {
      const { value, done } = await run.next()
      if (done) return value
    }
  }
  const always: CreatePolicy = () => ({
    context: "none",
    firstSegment: 1,
    learn: (_side, { length }) => new Uint8Array(length).fill(1),
    decide: (_side, { length }) => new Uint8Array(length).fill(1),
  })

  test.each(["calibrated", "paper"] as const)(
    "a policy that always grows is always-grow to the bit (%s)",
    async (recipe) => {
      const { milliseconds: _, interactionsPerSecond: __, ...own } = await last({ policy: always, recipe })
      const { milliseconds: ___, interactionsPerSecond: ____, ...named } = await last({ method: "always-grow", recipe })
      expect(own).toEqual(named)
    },
  )

  test("a policy beside a method, options without a policy and what is no policy are refused", async () => {
    await expect(last({ policy: always, method: "dess-fre" })).rejects.toThrow(/policy: expected instead of a method/)
    await expect(last({ ownOptions: {} })).rejects.toThrow(/own options: expected with a policy or model/)
    await expect(last({ policy: (() => 3) as never })).rejects.toThrow(/policy: expected an object, got 3/)
    await expect(last({ polcy: always } as RunOptions)).rejects.toThrow(/option: expected one of .*got "polcy"/)
    await expect(last({ model: () => ({}) as never })).rejects.toThrow(/model: expected the functions fill/)
  })

  test("the checks find a policy that learns when it is asked", async () => {
    const create: CreatePolicy = () => {
      let asked = 0
      return {
        context: "none",
        firstSegment: 2,
        learn: (_side, { length }) => new Uint8Array(length).fill(Math.min(1, asked)),
        decide: (_side, { length }) => {
          asked++
          return new Uint8Array(length)
        },
      }
    }
    const wrong = policyChecks(create).find(({ name }) => name.startsWith("decides without learning"))
    await expect((async () => wrong?.run())()).rejects.toThrow()
  })

  test("the checks find a model whose predictions jump when a row grows", async () => {
    const jumping: OwnRowModel = {
      head: 0,
      fill: (row, { from }) => row.fill(0.5, from),
      score: (z, user, item) => {
        z[0] = user.reduce((sum, x) => sum + x, 0) + item.reduce((sum, x) => sum + x, 0)
      },
      step: () => {},
    }
    const wrong = modelChecks(() => jumping).find(({ name }) => name.startsWith("changes no prediction"))
    await expect((async () => wrong?.run())()).rejects.toThrow(/as before/)
  })

  test("the page's model keeps the contract of models", async () => {
    const { models } = await import(join(project, "my-model.mjs"))
    for (const { run } of modelChecks(models["my-mf"])) await run()
  })
})
