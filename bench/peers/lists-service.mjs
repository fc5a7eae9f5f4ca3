/**
 * The serving peer: Fastify before a vector index over factors that are made beforehand and never change. It is what one
 * would put together from npm instead: no learning, nothing on disk, no checks. A user's own items are asked for on top
 * and left out. node lists-service.mjs <folder with packages> <file with the factors> <index>
 */

import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"

const [packages, file, kind] = process.argv.slice(2)
const require = createRequire(join(packages, "package.json"))
const { width, users, items, seen } = JSON.parse(readFileSync(file, "utf8"))
const itemRows = Float32Array.from(items.flat())
const userRows = new Map(Object.entries(users).map(([name, row]) => [name, Float32Array.from(row)]))
const seenOf = new Map(Object.entries(seen).map(([name, list]) => [name, new Set(list)]))
const count = items.length

/** Name → a function (vector, how many) → pairs of item and score, best first. */
const indexes = {
  "hnswlib-node, HNSW": () => {
    const { HierarchicalNSW } = require("hnswlib-node")
    const index = new HierarchicalNSW("ip", width)
    index.initIndex(count, 16, 200, 1)
    for (let i = 0; i < count; i++) index.addPoint(items[i], i)
    return (vector, k) => {
      index.setEf(Math.max(64, k))
      const { neighbors, distances } = index.searchKnn(Array.from(vector), k)
      return neighbors.map((item, n) => [item, 1 - distances[n]])
    }
  },
  "usearch, HNSW": () => {
    const { Index, MetricKind, ScalarKind } = require("usearch")
    const index = new Index({
      metric: MetricKind.IP,
      quantization: ScalarKind.F32,
      dimensions: width,
      connectivity: 16,
      expansion_add: 128,
      expansion_search: 64,
    })
    index.add(
      BigUint64Array.from({ length: count }, (_, i) => BigInt(i)),
      itemRows,
      1,
    )
    return (vector, k) => {
      const { keys, distances } = index.search(vector, k, 1)
      return Array.from(keys, (item, n) => [Number(item), 1 - distances[n]])
    }
  },
  "hnswlib-node, exact": () => {
    const { BruteforceSearch } = require("hnswlib-node")
    const index = new BruteforceSearch("ip", width)
    index.initIndex(count)
    for (let i = 0; i < count; i++) index.addPoint(items[i], i)
    return (vector, k) => {
      const { neighbors, distances } = index.searchKnn(Array.from(vector), k)
      return neighbors.map((item, n) => [item, 1 - distances[n]]).sort((a, b) => b[1] - a[1])
    }
  },
}

const search = indexes[kind]()
const app = require("fastify")()
app.get("/users/:user/recommendations", (request) => {
  const length = Number(request.query.count ?? 10)
  const own = seenOf.get(request.params.user) ?? new Set()
  const list = []
  for (const [item, score] of search(userRows.get(request.params.user), Math.min(count, length + own.size))) {
    if (own.has(item)) continue
    list.push({ item: `item ${item}`, score })
    if (list.length === length) break
  }
  return list
})
await app.listen({ port: 0, host: "127.0.0.1" })
console.log(`listening ${app.server.address().port}`)
