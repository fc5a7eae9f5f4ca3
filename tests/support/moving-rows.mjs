/** A thread whose rows move all the time; each is full of 1 + its owner. */

import { parentPort } from "node:worker_threads"
import { EmbeddingTable } from "../../dist/models/embedding-table.js"

const table = new EmbeddingTable({ sizes: [2, 4, 8], deviation: 0, moments: false })
table.share()
const put = (id, step) =>
  table.guarded(() => {
    table.ensure(id)
    table.replace(id, step, new Float32Array(8).fill(id + 1), 0)
  })
for (let id = 0; id < 900; id++) put(id, id % 3)
parentPort.postMessage(table.share())
let n = 1
for (;;) {
  n = (Math.imul(n, 1664525) + 1013904223) >>> 0
  const id = n % 900
  if (n % 5 === 0 && table.has(id)) table.free(id)
  else put(id, (n >>> 8) % 3)
  // As between two events of a learner.
  for (let pause = n & 1023; pause > 0; pause--) Math.imul(pause, n)
}
