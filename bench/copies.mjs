/**
 * `npm run bench -- copies --data <folder> [--rating-scale 0-10] [--task binary] [--limit 250000] [--copies 1,4,16]
 * [--segments 500] [--methods dess-fre,uniform-16] [--price x] [--budget bytes] [--seeds 1]`: copies of the beginning of
 * one stream, interleaved event by event, each with ids of its own. Nothing about an id changes but its neighbours, so a
 * policy that is free of scale gives it the same size.
 */

import { openData, Run, synthetic } from "../dist/index.js"
import { copyStream } from "../dist/stream/copies.js"
import { cutSegments } from "../dist/stream/segments.js"

/** @param {string[]} words */
export async function run(words = []) {
  const given = (name, otherwise) => (words.includes(name) ? words[words.indexOf(name) + 1] : otherwise)
  const numbers = (name, otherwise) => given(name, otherwise).split(",").map(Number)
  const limit = Number(given("--limit", "250000"))
  const task = given("--task", "binary")
  const [min, max] = given("--rating-scale", "").split("-").map(Number)
  const options = {
    ...(words.includes("--price") ? { price: Number(given("--price")) } : {}),
    ...(words.includes("--budget") ? { memoryBudget: Number(given("--budget")) } : {}),
  }
  const path = given("--data", "synthetic")
  const stream =
    path === "synthetic"
      ? synthetic({ interactions: limit })
      : await openData(path, max === undefined ? {} : { ratingScale: { min, max } })
  const events = await read(stream, limit)
  console.log(`${path}, ${task}, first ${events.length}, ${JSON.stringify(options)}`)
  console.log(
    "method       copies segment seed  quality          end user/item   over time       held kB   events per second of processor time",
  )
  for (const method of given("--methods", "dess-fre,uniform-16").split(","))
    for (const copies of numbers("--copies", "1,4,16"))
      for (const segment of numbers("--segments", "500"))
        for (let seed = 1; seed <= Number(given("--seeds", "1")); seed++) {
          const searching = method.startsWith("dess-") ? options : {}
          const r = await along(
            events,
            { method, task, segment, seed, ...searching },
            { copies, features: stream.features },
          )
          const quality = task === "topk" ? [r.recall, r.ndcg] : [r.accuracy, r.loss]
          const pair = ({ user, item }) => `${user.toFixed(2)}/${item.toFixed(2)}`.padEnd(15)
          console.log(
            [
              method.padEnd(12),
              String(copies).padEnd(6),
              String(segment).padEnd(7),
              String(seed).padEnd(5),
              quality.map((figure) => figure.toFixed(5)).join("/"),
              "",
              pair(r.meanSize),
              pair(r.meanSizeOverTime),
              String(Math.round(r.heldBytes / 1000)).padEnd(9),
              Math.round(r.perSecond),
            ].join(" "),
          )
        }
}

async function read(stream, limit) {
  for await (const segment of cutSegments(stream.batches(), { length: limit, limit })) return segment
}

async function along(events, options, { copies, features }) {
  const before = process.cpuUsage()
  const run = new Run(options, options.method === "dess-cv" ? features : undefined)
  for await (const segment of cutSegments(copyStream({ batches: () => [events] }, copies).batches(), {
    length: options.segment,
  }))
    run.step(segment)
  const result = run.result()
  run.close()
  const { user, system } = process.cpuUsage(before)
  return { ...result, perSecond: (1e6 * result.interactions) / (user + system) }
}
