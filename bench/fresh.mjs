/**
 * `npm run bench -- fresh --data <folder of MovieLens or MovieTweetings>`: lists with and without what is known of new items. Events come in order
 * of time; an item's genres are put 2,000 events before its first one (`--ahead n`): put right before it, the item that was put
 * last would be the answer. A list is asked for before every event that is one of the first five of its item, and before every
 * 50th other (`--every n`), with everything before observed; learned every 500 events.
 *
 *   none     items have no categories
 *   kin      genres: an item with few events is scored like items of its genres
 *   fresh-n  the same, and n of 10 places are kept for new items
 *
 * `--from 40000 --limit 300000`: lists are asked for from that event on, up to that one; `--firsts 4`: of first events,
 * before every fourth; `--seed 2`: another start.
 */

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Recommender } from "../dist/index.js"
import { printTable } from "./report.mjs"

const COUNT = 10
const FIRST = 5

/** Rows of the first of some files that is there: cells by "::", or by commas under a line of names. */
function readRows(folder, ...names) {
  const name = names.find((one) => existsSync(join(folder, one)))
  if (name === undefined) throw new Error(`data: expected ${names.join(" or ")} in ${folder}`)
  const lines = readFileSync(join(folder, name), "latin1").trim().split("\n")
  return name.endsWith(".dat") ? lines.map((line) => line.split("::")) : lines.slice(1).map((line) => line.split(","))
}

function readData(folder) {
  const events = readRows(folder, "ratings.dat", "ratings.csv")
    .map(([user, item, , time], place) => ({ user, item, timestamp: Number(time), place }))
    .sort((a, b) => a.timestamp - b.timestamp || a.place - b.place)
  const movies = readRows(folder, "movies.dat", "movies.csv")
  const genres = new Map(movies.map((cells) => [cells[0], cells.at(-1).trim().split("|").filter(Boolean)]))
  return { events, genres }
}

async function follow({ events, genres }, { hasGenres, fresh, from, limit, ahead, every, firsts, seed }) {
  const recommender = await Recommender.open({ seed })
  const counts = new Map()
  const put = new Set()
  let next = 0
  const putUpTo = async (place) => {
    for (; hasGenres && next <= Math.min(place, events.length - 1); next++) {
      const { item } = events[next]
      if (put.has(item)) continue
      put.add(item)
      await recommender.putItems({ item, categories: genres.get(item) ?? [] })
    }
  }
  const sums = { first: { asked: 0, hits: 0 }, other: { asked: 0, hits: 0 } }
  try {
    for (let n = 0; n < Math.min(limit, events.length); n++) {
      const { user, item, timestamp } = events[n]
      const before = counts.get(item) ?? 0
      await putUpTo(n + ahead)
      if (n >= from && (before < FIRST ? n % firsts === 0 : n % every === 0)) {
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
  const p = { from: Number(flag("from", "40000")), limit: Number(flag("limit", "300000")) }
  const more = {
    ahead: Number(flag("ahead", "2000")),
    every: Number(flag("every", "50")),
    firsts: Number(flag("firsts", "1")),
    seed: Number(flag("seed", "1")),
  }
  const rows = []
  for (const name of flag("ways", "none,kin,fresh-1,fresh-2").split(",")) {
    const way = { hasGenres: name !== "none", fresh: Number(/^fresh-(\d+)$/.exec(name)?.[1] ?? 0) }
    const { first, other } = await follow(all, { ...p, ...more, ...way })
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
