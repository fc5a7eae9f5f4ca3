/** Installing on a busy machine: what fails is tried once more, what hangs is ended, and what takes long says so. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { runPatiently } from "../../tools/run-patiently.mjs"

const folder = mkdtempSync(join(tmpdir(), "dess-patiently-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs a program that notes each try in a file; what was said, and how it ended. */
async function run(program: string, options: { seconds?: number; every?: number } = {}) {
  const tries = join(mkdtempSync(join(folder, "try-")), "tries")
  const code = `const fs = require("node:fs"); fs.appendFileSync(${JSON.stringify(tries)}, "x")
    const tries = fs.readFileSync(${JSON.stringify(tries)}, "utf8").length; ${program}`
  const said: string[] = []
  const reason = await runPatiently(process.execPath, ["-e", code], {
    what: "installing",
    say: (line) => said.push(line),
    waitSeconds: 0,
    ...options,
  })
  return { reason, said, tries: readFileSync(tries, "utf8").length }
}

test("a command that ends well runs once and says nothing", async () => {
  expect(await run("")).toEqual({ reason: undefined, said: [], tries: 1 })
})

test("one that fails is tried once more, with its last line as the reason", async () => {
  const fails = 'console.error("first\\nno network"); process.exitCode = 1'
  const once = await run(`if (tries === 1) { ${fails} }`)
  expect(once).toEqual({ reason: undefined, said: ["… installing: no network; trying once more"], tries: 2 })
  expect(await run(fails)).toMatchObject({ reason: "no network", tries: 2 })
})

test("one that hangs says that it goes on and is ended at the limit, twice", async () => {
  const { reason, said, tries } = await run("setInterval(() => {}, 1000)", { seconds: 2, every: 0.5 })
  expect({ reason, tries }).toEqual({ reason: "not done in 2 s", tries: 2 })
  expect(said.join("\n")).toMatch(/^… installing, \d+ s$/m)
})

test("one that is not there says so", async () => {
  expect(await runPatiently("no-such-command", [], { what: "installing", say: () => {}, waitSeconds: 0 })).toContain(
    "ENOENT",
  )
})
