/**
 * `npm run bench -- lists`: the scores of all items for one user with the default model, as a reader computes them from
 * packed items, beside the model's own logits, item by item; and how far the two are apart. Then the parts of an exact list
 * of many items, in milliseconds of processor time.
 */

import { best } from "../dist/engine/best.js"
import { openKernels } from "../dist/kernels/open.js"
import { Random } from "../dist/kernels/random.js"
import { PackedItems } from "../dist/models/calibrated/packed-items.js"
import { SequenceModel } from "../dist/models/calibrated/sequence.js"
import { measure, printTable, ratio } from "./report.mjs"

const SIZES = [2, 4, 8, 16, 64, 128]
const USERS = 50

/** Half of the items at the smallest size, half of the others at the next, and so on; users who have learned. */
function buildModel(items) {
  const random = new Random(1, "lists")
  const model = new SequenceModel({ sizes: SIZES, start: 0, seed: 1 })
  const draw = () => Math.min(SIZES.length - 1, Math.floor(-Math.log2(1 - random.next())))
  for (const [side, count] of Object.entries({ user: USERS, item: items }))
    for (let id = 0; id < count; id++) {
      model.meetOne(side, id)
      model.resize(side, id, { step: draw() })
    }
  const rows = Array.from({ length: 40 * USERS }, (_, r) => r)
  model.train({
    user: rows.map((r) => Math.floor(r / 4) % USERS),
    item: rows.map(() => random.integer(items)),
    label: rows.map((r) => (r % 4 === 0 ? 1 : 0)),
    logChance: rows.map(() => 0),
  })
  return model
}

function fillPacked(packed, table, items) {
  const numbers = new Float32Array(Math.max(...table.sizes))
  for (const item of items) {
    table.read(item, numbers, 0)
    packed.set(item, { step: table.step(item), numbers, at: 0 })
  }
}

/** All items of 64 numbers, in 32, 16 and 8 bits, in turns; bytes of what is scored, an item. */
function compareBits(seconds) {
  const rows = []
  for (const count of [3706, 27_000, 100_000]) {
    const items = Int32Array.from({ length: count }, (_, id) => id)
    const all = [32, 16, 8].map((bits) => {
      const model = new SequenceModel({ sizes: [64], bits: [bits], start: 0, seed: 1 })
      for (const item of items) model.meetOne("item", item)
      const random = new Random(1, "lists")
      const own = Array.from({ length: 400 }, (_, r) => r)
      const batch = {
        user: own.map((r) => r % USERS),
        item: own.map(() => random.integer(count)),
        label: own.map(() => 1),
      }
      model.train({ ...batch, logChance: own.map(() => 0) })
      const kernels = openKernels({ threads: 1, shared: true })
      const packed = new PackedItems(model, kernels)
      fillPacked(packed, model.tables.item, items)
      return { bits, packed, kernels, best: Number.POSITIVE_INFINITY }
    })
    for (let turn = 0; turn < 3; turn++)
      for (const one of all) {
        let user = 0
        const { best } = measure(() => one.packed.scores(user++ % USERS), { seconds: seconds / 3, chunk: 10 })
        one.best = Math.min(one.best, best)
      }
    for (const { bits, packed, kernels, best } of all) {
      rows.push({ items: count, bits, "best ms": best, ratio: ratio(best, all[0].best), bytes: packed.bytes / count })
      kernels.close()
    }
  }
  return rows
}

/** Items of the default's rungs, half of them at the smallest, half of the others at the next; and all at the largest. */
function measureMany(counts) {
  const [sizes, bits] = [
    [2, 4, 8, 16, 32, 64, 128],
    [8, 8, 8, 8, 8, 16, 16],
  ]
  const rows = []
  for (const [count, largest] of counts) {
    const random = new Random(1, "many items")
    const model = new SequenceModel({ sizes, bits, start: 0, seed: 1 })
    model.meetOne("user", 0)
    const kernels = openKernels({ threads: 1, shared: true })
    const packed = new PackedItems(model, kernels)
    const numbers = new Float32Array(3 + 2 * sizes.at(-1))
    for (let item = 0; item < count; item++) {
      const step = largest ? 6 : Math.min(6, Math.floor(-Math.log2(1 - random.next())))
      for (let k = 0; k < 3 + sizes[step]; k++) numbers[k] = 0.2 * random.normal()
      packed.set(item, { step, numbers, at: 0 })
    }
    const x = Float64Array.from({ length: 128 }, () => 0.5 * random.normal())
    const scores = packed.scores(0, x)
    const { maxima } = packed.sumPowers(scores)
    rows.push({
      items: count,
      numbers: largest ? "128" : "2 to 128",
      "scores ms": processorTime(() => packed.scores(0, x)),
      "chances ms": processorTime(() => packed.sumPowers(scores)),
      "best ten ms": processorTime(() => best(scores, 10, undefined, maxima)),
      MB: packed.bytes / 1e6,
    })
    kernels.close()
  }
  return rows
}

/** Milliseconds, the best of seven. */
function processorTime(work) {
  let least = Number.POSITIVE_INFINITY
  for (let turn = 0; turn < 8; turn++) {
    const before = process.cpuUsage()
    for (let n = 0; n < 3; n++) work()
    const { user, system } = process.cpuUsage(before)
    if (turn > 0) least = Math.min(least, (user + system) / 3000)
  }
  return least
}

/** @param {string[]} options `--seconds n` per measurement */
export async function run(options = []) {
  const at = options.indexOf("--seconds")
  const seconds = at < 0 ? 2 : Number(options[at + 1])
  const rows = []
  let furthest = 0
  for (const count of [2394, 27_000, 100_000]) {
    const model = buildModel(count)
    const kernels = openKernels({ threads: 1, shared: true })
    const packed = new PackedItems(model, kernels)
    const items = Int32Array.from({ length: count }, (_, id) => id)
    const { item: table } = model.tables
    fillPacked(packed, table, items)
    const logits = new Float64Array(count)
    for (let user = 0; user < USERS; user++) {
      model.logitsOf(logits, user, items)
      const scores = packed.scores(user)
      model.addNeighbours(scores, user, items)
      for (let i = 0; i < count; i++) furthest = Math.max(furthest, Math.abs(scores[i] - logits[i]))
    }
    let user = 0
    const slow = measure(() => model.logitsOf(logits, user++ % USERS, items), { seconds, chunk: USERS })
    const fast = measure(() => packed.scores(user++ % USERS), { seconds, chunk: USERS })
    rows.push({
      items: count,
      "model, best ms": slow.best,
      "packed, best ms": fast.best,
      ratio: ratio(slow.best, fast.best),
    })
    kernels.close()
  }
  printTable(rows)
  printTable(compareBits(seconds))
  printTable(
    measureMany([
      [27_000, true],
      [200_000, false],
      [200_000, true],
      [1_000_000, false],
    ]),
  )
  console.log(`largest difference between a score and the model's logit: ${furthest.toExponential(1)}`)
}
