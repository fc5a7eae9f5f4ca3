/** A program that uses the library and does not close it. */

import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, beforeAll, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-ending-"))
beforeAll(() => {
  buildCommand()
}, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const LIBRARY = pathToFileURL(join(import.meta.dirname, "../../dist/bundle/index.js")).href
const PROGRAM = `
import { Recommender } from ${JSON.stringify(LIBRARY)}
const recommender = await Recommender.open({ directory: process.env.DIRECTORY })
await recommender.observe([{ user: "ada", item: "dune", key: "k" }, { user: "bob", item: "dune" }])
await recommender.recommend("ada")
console.log(recommender.status().events.accepted)
`

test("a program that does not call close ends, and what it was acknowledged is there the next time", () => {
  const run = () =>
    execFileSync(process.execPath, ["--input-type=module", "-e", PROGRAM], {
      env: { ...process.env, DIRECTORY: join(folder, "data") },
      encoding: "utf8",
      timeout: 30_000,
    })
  // The key is known: one event more.
  expect([run(), run()]).toEqual(["2\n", "3\n"])
}, 70_000)
