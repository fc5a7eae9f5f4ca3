/** The quick form of `npm run torture`: a recommender killed under load loses nothing and learns nothing twice. */

import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeAll, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"

beforeAll(buildCommand)

test("after kill -9 every acknowledged event is there once and the state is that of an uninterrupted run", async () => {
  const program = join(import.meta.dirname, "../../tools/torture.mjs")
  const seed = String(Date.now() % 100_000) // another moment every time; the program prints the seed when it fails
  const { stdout } = await promisify(execFile)(process.execPath, [program, "--kills", "3", "--seed", seed])
  expect(stdout).toMatch(/3 kills survived: \d+ acknowledged events once each/)
})
