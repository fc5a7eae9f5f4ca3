/** What the process takes for ids, against what is counted. In a process of its own: other tests' memory is not to be seen. */

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"

const BENCH = join(import.meta.dirname, "../../bench/bytes.mjs")
const BUDGET = join(import.meta.dirname, "../../bench/budget.mjs")

test.runIf(existsSync("/proc/self/status")).each([
  ["user", 120],
  ["item", 150],
])(
  "of a million %ss each takes %i bytes or less, and what is counted is within 15 %% of it",
  async (side, most) => {
    const args = ["--expose-gc", BENCH, "binary", side, "1000000"]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    const { rss, counted } = JSON.parse(stdout) as { rss: number; counted: number }
    expect(rss).toBeLessThan(most)
    expect(Math.abs(counted - rss) / rss, `${counted} bytes counted, ${rss} measured`).toBeLessThan(0.15)
  },
  180_000,
)

test.runIf(existsSync("/proc/self/status"))(
  "the process stays within 1.25 times its budget above the empty one, on a stream of new users and items without end",
  async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [BUDGET, "library", "binary", "64MB", "800000"])
    const { most, budget, counted, users } = JSON.parse(stdout) as Record<string, number>
    // Of 240,000 users not all have room: the budget was reached.
    expect(users).toBeLessThan(220_000)
    expect(counted).toBeGreaterThan(0.3 * budget)
    expect(most / budget, `${most} bytes above the empty process`).toBeLessThan(1.25)
  },
  120_000,
)
