/** A thread that learns segment after segment: in each, every user clicks on the item of that segment. */

import { parentPort } from "node:worker_threads"
import { Frame } from "../../dist/models/calibrated/frame.js"
import { SequenceModel } from "../../dist/models/calibrated/sequence.js"

const [USERS, ITEMS] = [60, 50]
const model = new SequenceModel({ sizes: [2, 4], start: 1, seed: 3 })
const frame = new Frame(4)
for (let user = 0; user < USERS; user++) model.meetOne("user", user)
for (let item = 0; item < ITEMS; item++) model.meetOne("item", item)
const tables = { user: model.tables.user.share(), item: model.tables.item.share() }
const changed = Int32Array.from({ length: ITEMS }, (_, item) => item)
const arrays = { global: model.global, changed, frame: frame.matrix(0).slice() }
parentPort.postMessage({ arrays, rows: { tables, frame: frame.share(), turns: 0, through: model.through } })

let segment = 0
const step = () => {
  for (let k = 0; k < 20; k++) {
    model.segment = ++segment
    const users = Array.from({ length: USERS }, (_, user) => user)
    model.train({
      user: users,
      // The same item twice in a row: a row does not tell by its items how far it has come.
      item: users.map(() => (segment >> 1) % ITEMS),
      label: users.map(() => 1),
      logChance: users.map(() => 0),
    })
  }
  setImmediate(step)
}
step()
