/**
 * `npm run bench -- types --data <trivago folder>`: lists for a hotel search (views of pictures, deals, ratings, and
 * click-outs; `events.csv` with user_id, item_id, type, timestamp). Events are observed in order of time; before every
 * click-out a list is asked for, with everything before it observed. What was observed is waited for (`drain`) every
 * `--wait` events (500).
 *
 *   today    one weight for all, everything met is left out
 *   seen     one weight for all, nothing is left out
 *   types    click-outs weigh 1, views less, nothing is left out and people may come back
 *
 * `--cities`: an item's category is the city it was first met in, and a list is asked for in the city that is searched in.
 * `--from .5`: click-outs count from that share of the events on; `--view .2`: what anything but a click-out weighs.
 */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Recommender } from "../dist/index.js"
import { printTable } from "./report.mjs"

const COUNT = 10
const TARGET = "clickout item"
const COLUMNS = ["user_id", "item_id", "type", "timestamp", "city"]

function readEvents(folder) {
  const [header, ...lines] = readFileSync(join(folder, "events.csv"), "utf8").trim().split("\n")
  const names = header.split(",")
  const at = (name) => names.indexOf(name)
  const events = lines.map((line, place) => {
    const cells = line.match(/("[^"]*"|[^,]*)(,|$)/g).map((cell) => cell.replace(/,$/, "").replaceAll('"', ""))
    const [user, item, type, time, city] = COLUMNS.map((name) => cells[at(name)])
    return { user, item, type, timestamp: Number(time), city, place }
  })
  return events.sort((a, b) => a.timestamp - b.timestamp || a.place - b.place)
}

async function follow(events, { options, list, hasTypes, from, wait, cities }) {
  const recommender = await Recommender.open(options)
  const sums = { asked: 0, hits: 0, gain: 0, again: 0, againHits: 0, unheard: 0 }
  const [met, known] = [new Set(), new Set()]
  try {
    for (let n = 0; n < events.length; n++) {
      const { user, item, type, timestamp, city } = events[n]
      const pair = `${user} ${item}`
      if (type === TARGET && n >= from) {
        const found = await recommender.recommend(user, {
          ...{ count: COUNT, ...list },
          ...(cities && { categories: [city] }),
        })
        const place = found.findIndex((one) => one.item === item)
        sums.asked++
        if (place >= 0) {
          sums.hits++
          sums.gain += 1 / Math.log2(place + 2)
        }
        if (!known.has(item)) sums.unheard++
        if (met.has(pair)) {
          sums.again++
          if (place >= 0) sums.againHits++
        }
      }
      if (cities && !known.has(item)) await recommender.putItems({ item, categories: [city] })
      known.add(item)
      met.add(pair)
      // A second's doubles differ by a millisecond, so that all ways see the same events.
      await recommender.observe({ user, item, timestamp: timestamp + (n % 1000) / 1000, ...(hasTypes && { type }) })
      if ((n + 1) % wait === 0) await recommender.drain()
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
  if (data === undefined) throw new Error("data: expected --data <trivago folder>")
  const events = readEvents(data)
  const view = Number(flag("view", "0.2"))
  const p = {
    from: Math.floor(Number(flag("from", "0.5")) * events.length),
    wait: Number(flag("wait", "500")),
    cities: given.includes("--cities"),
  }
  const names = [...new Set(events.map(({ type }) => type))].sort()
  const types = Object.fromEntries(names.map((name) => [name, name === TARGET ? 1 : view]))
  const even = Object.fromEntries(names.map((name) => [name, 1]))
  const seed = Number(flag("seed", "1"))
  const ways = {
    today: { options: { seed }, list: {}, hasTypes: false },
    seen: { options: { seed }, list: { seen: true }, hasTypes: false },
    even: { options: { seed, types: even, leaveOut: [] }, list: {}, hasTypes: true },
    types: { options: { seed, types, leaveOut: [] }, list: {}, hasTypes: true },
  }
  const rows = []
  for (const name of flag("ways", "today,seen,even,types").split(",")) {
    const { asked, hits, gain, again, againHits, unheard } = await follow(events, { ...p, ...ways[name] })
    rows.push({
      way: name,
      asked,
      "HR@10": (hits / asked).toFixed(4),
      "NDCG@10": (gain / asked).toFixed(4),
      "of items met": (againHits / again).toFixed(4),
      "of others": ((hits - againHits) / (asked - again)).toFixed(4),
      "met before": (again / asked).toFixed(3),
      "met by nobody": (unheard / asked).toFixed(3),
    })
    console.error(JSON.stringify(rows.at(-1)))
  }
  printTable(rows)
}
