/** What the process takes for ids, against what is counted. In a process of its own: other tests' memory is not to be seen. */

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"

const BENCH = join(import.meta.dirname, "../../bench/bytes.mjs")

test.runIf(existsSync("/proc/self/status"))(
  "a million users take 120 bytes each or less, and what is counted is within 15 % of it",
  async () => {
    const args = ["--expose-gc", BENCH, "binary", "user", "1000000"]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    const { rss, counted } = JSON.parse(stdout) as { rss: number; counted: number }
    expect(rss).toBeLessThan(120)
    expect(Math.abs(counted - rss) / rss, `${counted} bytes counted, ${rss} measured`).toBeLessThan(0.15)
  },
  180_000,
)
