/** A process of its own that fills a table, frees and fills it again, and prints what it counts beside what the process holds. */

import { readFileSync } from "node:fs"
import { Random } from "../../dist/kernels/random.js"
import { EmbeddingTable } from "../../dist/models/embedding-table.js"

const measure = () => {
  globalThis.gc()
  globalThis.gc()
  return 1024 * Number(/RssAnon:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1])
}
const sizes = [2, 4, 8, 16, 64, 128]
const random = new Random("memory")
const source = new Float64Array(128)
const fill = (count) => {
  const table = new EmbeddingTable({ sizes })
  for (let id = 0; id < count; id++) {
    table.ensure(id)
    table.replace(id, random.integer(sizes.length), source, 0)
  }
  return table
}
// The code is compiled, and the heap as large as it gets, before anything is measured.
for (let n = 0; n < 20; n++) fill(1000)
const before = measure()
const table = fill(200_000)
const { heldBytes: filled, embeddingBytes } = table
const measured = measure() - before
for (let id = 0; id < 200_000; id++) if (table.size(id) > 16) table.free(id)
const freed = table.heldBytes
for (let id = 200_000; table.heldBytes < 0.95 * filled; id++) table.ensure(id)
const after = measure() - before
console.log(JSON.stringify({ filled, embeddingBytes, measured, freed, after, held: table.heldBytes }))
