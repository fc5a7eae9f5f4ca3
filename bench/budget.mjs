/**
 * A stream of new users and items without end against `memoryBudget`, in process: how far the process is above the empty
 * one, at the most, and what of it is counted. Three in ten events are of a new user, one in twenty of a new item.
 */

import { residentBytes } from "../dist/engine/process-memory.js"
import { Recommender } from "../dist/index.js"
import { printTable } from "./report.mjs"

const BATCH = 1000
const MEGABYTE = 1024 * 1024

/** @param {string[]} options `--budget 64MB`, `--events n`, `--task binary|topk` */
export async function run(options = []) {
  const option = (name, otherwise) => (options.includes(name) ? options[options.indexOf(name) + 1] : otherwise)
  const events = Number(option("--events", 1_200_000))
  const recommender = await Recommender.open({
    task: option("--task", "binary"),
    memoryBudget: option("--budget", "64MB"),
  })
  const empty = residentBytes()
  const { budget } = recommender.status().memory
  const rows = []
  let most = 0
  for (let from = 0; from < events; from += BATCH) {
    await recommender.observe(Array.from({ length: BATCH }, (_, n) => eventOf(from + n)))
    most = Math.max(most, residentBytes() - empty)
    if ((from / BATCH) % 20 === 0) await recommender.drain()
    if ((from + BATCH) % 200_000 !== 0 && from + BATCH < events) continue
    rows.push(describe(recommender, { events: from + BATCH, most, budget }))
  }
  printTable(rows)
  await recommender.close()
}

function eventOf(n) {
  const share = (Math.imul(n + 1, 0x9e3779b1) >>> 0) / 2 ** 32
  const other = (Math.imul(n + 7, 0x85ebca6b) >>> 0) / 2 ** 32
  const user = Math.floor((n % 10 < 3 ? 1 : share) * 0.3 * n)
  const item = Math.floor(other ** 3 * (1000 + 0.05 * n))
  const name = (kind, id) => `${kind}-${String(id).padStart(10, "0")}`
  return { user: name("user", user), item: name("item", item), rating: 1 + (n % 5) }
}

function describe(recommender, { events, most, budget }) {
  const { users, items, memory } = recommender.status()
  const { fixed: _, ...growing } = memory.parts
  const counted = Object.values(growing).reduce((sum, bytes) => sum + bytes, 0)
  const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(0)
  return {
    events,
    users: users.held,
    items: items.held,
    "counted, MB": megabytes(counted),
    "most above empty, MB": megabytes(most),
    "1.25 × budget, MB": megabytes(1.25 * budget),
  }
}
