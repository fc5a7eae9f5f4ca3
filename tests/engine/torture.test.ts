/** The quick form of `npm run torture`: a recommender killed under load on a failing disk loses nothing and learns nothing twice. */

import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeAll, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"

beforeAll(buildCommand)

/** Of this seed's cases the fourth is the service. */
const SEED = "4"

test("after kill -9 and faults of the disk every acknowledged event is there once, the state is that of an uninterrupted run and nobody erased is found", async () => {
  const program = join(import.meta.dirname, "../../tools/torture.mjs")
  const { stdout } = await promisify(execFile)(process.execPath, [program, "--kills", "5", "--seed", SEED])
  expect(stdout).toMatch(/5 kills survived: \d+ acknowledged events once each/)
}, 240_000)
