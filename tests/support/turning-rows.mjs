/** A thread that turns the frame of its rows and moves them all the time, and learns nothing: no score changes. */

import { parentPort } from "node:worker_threads"
import { Frame, turnFrame } from "../../dist/models/calibrated/frame.js"
import { SequenceModel } from "../../dist/models/calibrated/sequence.js"

const SIZES = [2, 8]
const model = new SequenceModel({ sizes: SIZES, start: 1, seed: 3 })
const frame = new Frame(8)
const [USERS, ITEMS] = [40, 60]
const rows = Array.from({ length: 600 }, (_, r) => ({ user: r % USERS, item: (r * r + 3 * r) % ITEMS }))
for (let item = 0; item < ITEMS + 20; item++) model.meetOne("item", item)
model.train({
  user: rows.map(({ user }) => user),
  item: rows.map(({ item }) => item),
  label: rows.map(() => 1),
  logChance: rows.map(() => 0),
})
const wanted = Array.from({ length: USERS }, (_, user) => {
  const out = new Float64Array(ITEMS)
  model.logitsOf(
    out,
    user,
    Array.from({ length: ITEMS }, (_, item) => item),
  )
  return out
})
const publish = (changed) => {
  const turns = frame.turns
  const tables = { user: model.tables.user.share(), item: model.tables.item.share() }
  const arrays = { global: model.global, changed: Int32Array.from(changed), frame: frame.matrix(turns).slice() }
  parentPort.postMessage({ wanted, published: { arrays, rows: { tables, frame: frame.share(), turns } } })
}
publish(Array.from({ length: ITEMS }, (_, item) => item))
let n = 1
const step = () => {
  for (let k = 0; k < 20; k++) {
    n = (Math.imul(n, 1664525) + 1013904223) >>> 0
    turnFrame(model, (item) => 1 + ((item * n) % 7), frame)
    // Others come and go: rows move into the holes they leave.
    const other = USERS + (n % 50)
    if (model.tables.user.has(other)) model.tables.user.free(other)
    else model.meetOne("user", other)
  }
  if (n % 5 === 0) publish(Array.from({ length: ITEMS }, (_, item) => item))
  setImmediate(step)
}
step()
