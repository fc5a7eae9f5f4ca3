/** The quick form of `npm run torture:cluster`: one fault of each kind on a real cluster. */

import { spawn, spawnSync } from "node:child_process"
import { join } from "node:path"
import { beforeAll, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"

const PROGRAM = join(import.meta.dirname, "../../tools/torture-cluster.mjs")
const hasRedis = spawnSync(process.env.REDIS_SERVER ?? "redis-server", ["--version"]).status === 0
if (!hasRedis) console.warn("SKIPPED: faults of a cluster – there is no redis-server (apt-get install redis-server)")

beforeAll(buildCommand)

test.skipIf(!hasRedis && process.env.CI !== "true")(
  "after kill -9 of a trainer, a pause, a cut network and kill -9 of a master every acknowledged event was applied once",
  async () => {
    const seed = String(Date.now() % 100_000) // other moments every time; the program prints the seed when it fails
    // The ten seconds of the long form, and as much again for a machine that runs other tests.
    const args = ["--rounds", "1", "--seed", seed, "--wait", "1", "--longest", "20"]
    const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (text: Buffer) => {
        output += text.toString()
      })
    const code = await new Promise((resolve) => child.once("exit", resolve))
    expect(output).toMatch(
      /4 faults survived: \d+ acknowledged events, \d+ of them to forget a user, 0 lost, 0 applied twice; at items 0 lost, 0 twice/,
    )
    expect(code, output).toBe(0)
  },
  300_000,
)
