/**
 * `npm run bench -- similar --data <MovieLens folder>`: the nearest films to well-known ones, after all events but the last
 * tenth of time; and how often the film a user comes to next in that tenth is among the ten nearest to the one before.
 * `--build <folder>`: of another build than dist.
 */

import { readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { readFiveCore } from "./live.mjs"
import { printTable } from "./report.mjs"

const FILMS = [1, 50, 110, 260, 296, 318, 364, 480, 541, 588, 593, 858, 912, 1097, 1206, 1258, 1270, 1721, 2571, 2858]

/** @param {string[]} given */
export async function run(given) {
  const flag = (name, otherwise) => {
    const at = given.indexOf(`--${name}`)
    return at < 0 ? otherwise : given[at + 1]
  }
  const data = flag("data", process.env.DESS_BENCH_DATA)
  const { Recommender } = await import(pathToFileURL(resolve(flag("build", "dist"), "index.js")).href)
  if (data === undefined) throw new Error("data: expected --data <MovieLens folder>")
  const lines = readFileSync(join(data, "movies.dat"), "latin1").split("\n")
  const titles = new Map(lines.map((line) => line.split("::")).map(([item, title]) => [item, title]))
  const events = readFiveCore(data)
  const cut = events[Math.floor(0.9 * events.length)].timestamp
  const past = events.filter(({ timestamp }) => timestamp <= cut)
  const recommender = await Recommender.open({ queue: 1_000_000 })
  try {
    for (let from = 0; from < past.length; from += 5000) await recommender.observe(past.slice(from, from + 5000))
    await recommender.drain()
    const near = new Map()
    const nearestTo = async (item) => {
      if (!near.has(item))
        near.set(
          item,
          (await recommender.similar(item)).map((one) => one.item),
        )
      return near.get(item)
    }
    const rows = []
    for (const film of FILMS.map(String)) {
      const nearest = (await nearestTo(film)).slice(0, 6).map((item) => titles.get(item))
      rows.push({ film: titles.get(film), nearest: nearest.join("; ") })
    }
    printTable(rows)
    let [hits, pairs, few, all] = [0, 0, 0, 0]
    const before = new Map()
    for (const { user, item } of events.slice(past.length)) {
      const last = before.get(user)
      before.set(user, item)
      if (last === undefined || !recommender.has("item", last)) continue
      pairs++
      if ((await nearestTo(last)).includes(item)) hits++
    }
    for (const item of recommender.ids("item", { count: 100_000 })) {
      if (recommender.item(item).events > 50) continue
      for (const other of await nearestTo(item)) {
        all++
        if (recommender.item(other).events < 10) few++
      }
    }
    console.log(`\nthe next film is among the ten nearest: ${(hits / pairs).toFixed(4)} of ${pairs}`)
    console.log(`neighbours of films with up to 50 events that have less than 10: ${(few / all).toFixed(4)}`)
  } finally {
    await recommender.close()
  }
}
