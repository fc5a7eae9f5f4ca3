/**
 * The live recommender: time of `recommend` for many items, events accepted and learned per second, freshness.
 * `--items 27000 --users 2000 --task topk --model ncf --method dess-fre --events 40000 --rate 1000 --seconds 10`
 */

import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Recommender } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"

/** @param {string[]} given */
export async function run(given) {
  const flag = (name, otherwise) => {
    const at = given.indexOf(`--${name}`)
    return at < 0 ? otherwise : given[at + 1]
  }
  const items = Number(flag("items", 27_000))
  const users = Number(flag("users", 2000))
  const count = Number(flag("events", 40_000))
  const rate = Number(flag("rate", 1000))
  const seconds = Number(flag("seconds", 10))
  const options = {
    task: flag("task", "topk"),
    model: flag("model", "ncf"),
    method: flag("method", "dess-fre"),
    queue: 1_000_000,
  }

  const random = new Random(1, "engine bench")
  /** Users and items of very different popularity, as in life. */
  const event = () => ({
    user: `user ${Math.floor(users * random.next() ** 2)}`,
    item: `item ${Math.floor(items * random.next() ** 3)}`,
    rating: 1 + random.integer(5),
  })
  const batch = (length) => Array.from({ length }, event)
  const quantile = (values, share) =>
    [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))]
  const round = (x) => Math.round(x * 100) / 100

  const directory = mkdtempSync(join(tmpdir(), "dess-bench-"))
  try {
    let recommender = await Recommender.open({ ...options, directory, snapshotEvents: 10_000_000 })
    let start = performance.now()
    const batches = Array.from({ length: Math.ceil(count / 500) }, () => batch(500))
    for (const some of batches) await recommender.observe(some)
    console.log(
      `accepted, durable, batches of 500: ${Math.round((1000 * count) / (performance.now() - start))} events/s`,
    )
    await recommender.drain()
    console.log(`accepted and learned: ${Math.round((1000 * count) / (performance.now() - start))} events/s`)
    // Every item once, so that all are in the model.
    const all = Array.from({ length: items }, (_, i) => ({ user: `user ${i % users}`, item: `item ${i}` }))
    for (let i = 0; i < all.length; i += 5000) await recommender.observe(all.slice(i, i + 5000))
    await recommender.drain()

    const measure = async (name, action) => {
      const times = []
      for (let n = 0; n < 60; n++) {
        const before = performance.now()
        await action(n)
        times.push(performance.now() - before)
      }
      console.log(
        `${name}, ${recommender.status().items.held} items: p50 ${round(quantile(times, 0.5))} ms, p99 ${round(quantile(times, 0.99))} ms, least ${round(Math.min(...times))} ms`,
      )
    }
    await measure("recommend", (n) => recommender.recommend(`user ${n}`, { count: 10 }))
    await measure("similar", (n) => recommender.similar(`item ${n}`, { count: 10 }))

    // A crash: the journal is replayed from the beginning.
    const segments = recommender.status().segments
    const accepted = recommender.status().events.accepted
    await recommender.close()
    for (const name of readdirSync(directory)) if (name.startsWith("snapshot-")) rmSync(join(directory, name))
    start = performance.now()
    recommender = await Recommender.open({ directory, queue: 1_000_000 })
    console.log(
      `replayed: ${Math.round((1000 * accepted) / (performance.now() - start))} events/s, ${segments} segments`,
    )

    const times = []
    const begin = performance.now()
    for (let n = 0; performance.now() - begin < 1000 * seconds; n++) {
      const due = begin + (1000 * 50 * n) / rate
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())))
      await recommender.observe(batch(50))
      const before = performance.now()
      await recommender.recommend(`user ${n % users}`)
      times.push(performance.now() - before)
    }
    const { freshness, events } = recommender.status()
    console.log(
      `at ${rate} events/s: freshness p50 ${Math.round(freshness?.p50 ?? 0)} ms, p99 ${Math.round(freshness?.p99 ?? 0)} ms, queue ${events.queue}; recommend p50 ${round(quantile(times, 0.5))} ms, p99 ${round(quantile(times, 0.99))} ms`,
    )
    await recommender.close()
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
