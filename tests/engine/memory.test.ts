/** What the process takes for ids, against what is counted. In a process of its own: other tests' memory is not to be seen. */

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { completeOptions } from "../../src/engine/options.ts"
import { governedBytes } from "../../src/learning/limiter.ts"

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
    expect(counted).toBeGreaterThan(0.25 * budget)
    expect(most / budget, `${most} bytes above the empty process`).toBeLessThan(1.25)
  },
  300_000,
)

test("a budget bounds idempotency keys, feedback by type and the catalogue, too, and leaves something to users", async () => {
  const budget = 8 * 1024 * 1024
  const recommender = await Recommender.open({ task: "binary", memoryBudget: budget, threads: 1, queue: 1_000_000 })
  try {
    const governed = governedBytes(budget)
    for (let from = 0; from < 6000; from += 1000)
      await recommender.observe(
        Array.from({ length: 1000 }, (_, n) => ({
          ...{ user: `user ${(from + n) % 500}`, item: `item ${(7 * (from + n)) % 499}` },
          ...{ key: `key ${from + n}`, type: "like" },
        })),
      )
    const { lookup } = recommender.status().memory.parts
    // Keys, and feedback in two orders.
    expect(lookup).toBeLessThanOrEqual((3 / 16) * governed)
    expect(lookup).toBeGreaterThan((2 / 16) * governed)
    const put = async () => {
      for (let n = 0; n < 12; n++)
        await recommender.putItems(
          Array.from({ length: 1000 }, (_, m) => ({ item: `item ${1000 * n + m}`, title: `Title ${m}` })),
        )
    }
    await expect(put()).rejects.toMatchObject({ message: expect.stringMatching(/what the memory budget leaves/) })
    const events = Array.from({ length: 2000 }, (_, n) => ({ user: `new ${n}`, item: `item ${n % 499}` }))
    await recommender.observe(events)
    await recommender.drain()
    expect(recommender.status().state).toBe("learning")
    expect(recommender.status().users.held).toBeGreaterThan(100)
  } finally {
    await recommender.close()
  }
}, 300_000)

test("without a directory, too, the bytes of names count in a budget", async () => {
  const budget = 8 * 1024 * 1024
  const recommender = await Recommender.open({ task: "binary", memoryBudget: budget, threads: 1 })
  try {
    const name = (n: number) => `${n} ${"long name ".repeat(40)}`
    for (let from = 0; from < 12_000; from += 1000) {
      await recommender.observe(
        Array.from({ length: 1000 }, (_, n) => ({ user: name(from + n), item: `item ${n % 50}` })),
      )
      await recommender.drain()
    }
    const { parts } = recommender.status().memory
    expect(parts.names).toBeGreaterThan(0.5 * governedBytes(budget))
    const counted = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)
    expect(counted).toBeLessThan(1.15 * governedBytes(budget))
  } finally {
    await recommender.close()
  }
}, 120_000)

test("with a small budget fewer events may wait, as their ids take places that are not counted yet", () => {
  const queueOf = (options: Parameters<typeof completeOptions>[0]) => completeOptions(options).queue
  expect(queueOf({})).toBe(100_000)
  expect([1, 64, 256, 1024].map((budget) => queueOf({ memoryBudget: `${budget}MB` }))).toEqual([
    ...[20_000, 20_971, 83_886, 100_000],
  ])
  expect(queueOf({ memoryBudget: "64MB", queue: 50_000 })).toBe(50_000)
})
