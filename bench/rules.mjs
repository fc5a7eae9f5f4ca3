/**
 * `npm run bench -- rules [--items 27000] [--rounds 1000]`: what rules add to a list. In one process, in turns: the list without rules,
 * and with each of them; the same rules again and again, and rules whose property has changed since (compiled again). Times
 * are CPU time, which is what a list takes where nothing else runs: it does not wait for anything.
 */

import { parseArgs } from "node:util"
import { Recommender } from "../dist/engine/open.js"
import { Random } from "../dist/kernels/random.js"
import { printTable } from "./report.mjs"

const USERS = 500

const RULES = {
  none: {},
  "filter: in stock, at most 20": { filter: { inStock: true, price: { lte: 20 } } },
  "any of three categories, not two brands": {
    filter: { any: [{ category: "c1" }, { category: "c2" }, { tags: "t3" }], not: { brand: { in: ["b1", "b2"] } } },
  },
  "boost of a brand and a category": {
    boost: [
      { filter: { brand: "b7" }, by: 3 },
      { filter: { category: "c5" }, by: 0.5 },
    ],
  },
  "two per category": { cap: { category: 2 } },
  "diversity .5": { diversity: 0.5 },
  "title and properties": { include: ["title", "categories", "properties"] },
  "all of it": {
    filter: { inStock: true, price: { lte: 20 } },
    boost: [{ filter: { brand: "b7" }, by: 3 }],
    cap: { category: 2 },
    diversity: 0.5,
    include: ["title"],
  },
}

async function fill(recommender, items) {
  const random = new Random(1, "rules")
  for (let from = 0; from < items; from += 5000)
    await recommender.putItems(
      Array.from({ length: Math.min(5000, items - from) }, (_, n) => ({
        item: `item ${from + n}`,
        title: `Title of item ${from + n}`,
        categories: [`c${random.integer(40)}`],
        properties: {
          price: random.integer(5000) / 100,
          inStock: random.next() < 0.8,
          brand: `b${random.integer(300)}`,
          tags: [`t${random.integer(20)}`, `t${random.integer(20)}`],
        },
      })),
    )
  for (let from = 0; from < 60_000; from += 5000) {
    const events = Array.from({ length: 5000 }, () => {
      const item = from < items ? from + random.integer(Math.min(5000, items - from)) : random.integer(items)
      return { user: `user ${random.integer(USERS)}`, item: `item ${item}` }
    })
    await recommender.observe(events)
  }
  await recommender.drain()
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]

async function compare(recommender, { title, rounds, before }) {
  const times = Object.fromEntries(Object.keys(RULES).map((name) => [name, []]))
  for (let round = 0; round < rounds; round++)
    for (const [name, rules] of Object.entries(RULES)) {
      await before(round)
      const started = process.cpuUsage()
      await recommender.recommend(`user ${round % USERS}`, rules)
      const { user, system } = process.cpuUsage(started)
      times[name].push((user + system) / 1000)
    }
  for (const all of Object.values(times)) all.sort((a, b) => a - b)
  const { none } = times
  printTable(
    Object.entries(times).map(([name, all]) => ({
      [title]: name,
      "p50 ms": at(all, 0.5).toFixed(3),
      "p99 ms": at(all, 0.99).toFixed(3),
      "p50 more": (at(all, 0.5) - at(none, 0.5)).toFixed(3),
      "p99 more": (at(all, 0.99) - at(none, 0.99)).toFixed(3),
    })),
  )
}

export async function run(args) {
  const { values } = parseArgs({
    args,
    options: { items: { type: "string", default: "27000" }, rounds: { type: "string", default: "1000" } },
  })
  const rounds = Number(values.rounds)
  const recommender = await Recommender.open({ segment: 5000 })
  try {
    await fill(recommender, Number(values.items))
    console.log(`${values.items} items, ${rounds} lists of 10 each, in turns`)
    await compare(recommender, { title: "the same rules again", rounds, before: async () => {} })
    let puts = 0
    await compare(recommender, {
      title: "a price has changed before each",
      rounds,
      before: () => {
        const put = puts++ % Number(values.items)
        return recommender.putItems({ item: `item ${put}`, properties: { price: put % 50, inStock: put % 3 > 0 } })
      },
    })
  } finally {
    await recommender.close()
  }
}
