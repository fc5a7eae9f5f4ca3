/**
 * Bytes of the process per id: RSS after collection, both threads, names of 15 characters, default settings. The runtime
 * is at rest before the first measurement: a few thousand ids are met again and again until its heaps have their size.
 */

import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { residentBytes } from "../dist/engine/process-memory.js"
import { Recommender } from "../dist/index.js"
import { printTable } from "./report.mjs"

const MOST = { "binary user": 120, "binary item": 150, "topk user": 500, "topk item": 900 }
const KNOWN = 20_000

async function collect() {
  for (let n = 0; n < 3; n++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

/** One task and side, in a process of its own. */
async function measure(task, side, ids) {
  const recommender = await Recommender.open({ task, queue: 10_000_000 })
  const feed = async (from, to) => {
    for (let begin = from; begin < to; begin += 1000) {
      const events = Array.from({ length: Math.min(1000, to - begin) }, (_, n) => {
        const id = begin + n
        const [many, few] = [`${side}-${String(id).padStart(10, "0")}`, `other-${id % 1000}`]
        const event = side === "user" ? { user: many, item: few } : { user: few, item: many }
        return { ...event, rating: 1 + (id % 5) }
      })
      await recommender.observe(events)
      if (begin % KNOWN === 0) await recommender.drain()
    }
    await recommender.drain()
  }
  for (let n = 0; n < (task === "topk" ? 4 : 16); n++) await feed(0, KNOWN)
  await collect()
  const [before, counted] = [residentBytes(), recommender.status().memory.parts]
  await feed(KNOWN, KNOWN + ids)
  await collect()
  const after = recommender.status().memory.parts
  const parts = Object.fromEntries(Object.keys(after).map((part) => [part, (after[part] - counted[part]) / ids]))
  const all = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)
  process.stdout.write(JSON.stringify({ rss: (residentBytes() - before) / ids, counted: all, parts }))
  process.exit(0)
}

/** @param {string[]} options `--ids n` of each kind, `--case "topk user"` for one of them */
export async function run(options = []) {
  const option = (name) => (options.includes(name) ? options[options.indexOf(name) + 1] : undefined)
  const ids = Number(option("--ids") ?? 1_000_000)
  const rows = []
  for (const [name, most] of Object.entries(MOST)) {
    if (option("--case") !== undefined && option("--case") !== name) continue
    const args = ["--expose-gc", fileURLToPath(import.meta.url), ...name.split(" "), String(ids)]
    const { stdout, status } = spawnSync(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
    if (status !== 0) throw new Error(`bytes of ${name}: expected a measurement, the process ended with ${status}`)
    const { rss, counted, parts } = JSON.parse(String(stdout))
    const shown = Object.fromEntries(Object.entries(parts).map(([part, bytes]) => [part, bytes.toFixed(1)]))
    rows.push({ of: name, "RSS, bytes": rss.toFixed(1), wanted: most, counted: counted.toFixed(1), ...shown })
  }
  printTable(rows)
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await measure(process.argv[2], process.argv[3], Number(process.argv[4]))
