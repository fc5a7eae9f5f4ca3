/**
 * `npm run bench -- fresh --data <MovieLens folder>`: lists with and without what is known of new items. Events come in order
 * of time; an item's genres are put before its first event. A list is asked for before every event that is one of the first
 * five of its item, and before every 20th other, with everything before observed; learned every 500 events.
 *
 *   none     items have no categories
 *   kin      genres: an item with few events is scored like items of its genres
 *   fresh    the same, and 2 of 10 places are kept for new items (`--fresh n`)
 *
 * `--from 20000 --limit 200000`: lists are asked for from that event on, up to that one.
 */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Recommender } from "../dist/index.js"
import { printTable } from "./report.mjs"

const COUNT = 10
const FIRST = 5

function readData(folder) {
  const lines = (name) => readFileSync(join(folder, name), "latin1").trim().split("\n")
  const events = lines("ratings.dat")
    .map((line, place) => {
      const [user, item, , time] = line.split("::")
      return { user, item, timestamp: Number(time), place }
    })
    .sort((a, b) => a.timestamp - b.timestamp || a.place - b.place)
  const genres = new Map(
    lines("movies.dat").map((line) => {
      const [item, , list] = line.split("::")
      return [item, list.trim().split("|")]
    }),
  )
  return { events, genres }
}

async function follow({ events, genres }, { hasGenres, fresh, from, limit }) {
  const recommender = await Recommender.open({ seed: 1 })
  const counts = new Map()
  const sums = { first: { asked: 0, hits: 0 }, other: { asked: 0, hits: 0 } }
  try {
    for (let n = 0; n < Math.min(limit, events.length); n++) {
      const { user, item, timestamp } = events[n]
      const before = counts.get(item) ?? 0
      if (before === 0 && hasGenres) await recommender.putItems({ item, categories: genres.get(item) ?? [] })
      if (n >= from && (before < FIRST || n % 20 === 0)) {
        const list = await recommender.recommend(user, { count: COUNT, ...(fresh > 0 && { fresh }) })
        const sum = before < FIRST ? sums.first : sums.other
        sum.asked++
        if (list.some((one) => one.item === item)) sum.hits++
      }
      counts.set(item, before + 1)
      await recommender.observe({ user, item, timestamp })
      if ((n + 1) % 500 === 0) await recommender.drain()
    }
  } finally {
    await recommender.close()
  }
  return sums
}

/** @param {string[]} given */
export async function run(given) {
  const flag = (name, otherwise) => {
    const at = given.indexOf(`--${name}`)
    return at < 0 ? otherwise : given[at + 1]
  }
  const data = flag("data", process.env.DESS_BENCH_DATA)
  if (data === undefined) throw new Error("data: expected --data <MovieLens folder>")
  const all = readData(data)
  const p = { from: Number(flag("from", "20000")), limit: Number(flag("limit", "200000")) }
  const ways = {
    none: { hasGenres: false, fresh: 0 },
    kin: { hasGenres: true, fresh: 0 },
    fresh: { hasGenres: true, fresh: Number(flag("fresh", "2")) },
  }
  const rows = []
  for (const name of flag("ways", "none,kin,fresh").split(",")) {
    const { first, other } = await follow(all, { ...p, ...ways[name] })
    rows.push({
      way: name,
      "first five": first.asked,
      "HR@10 of them": (first.hits / first.asked).toFixed(4),
      others: other.asked,
      "HR@10 of others": (other.hits / other.asked).toFixed(4),
    })
    console.error(JSON.stringify(rows.at(-1)))
  }
  printTable(rows)
}
