/** What the stream peers are given (peers/given.py reads it): events, features and, to check them, our first parameters. */

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { openKernels } from "../../dist/kernels/open.js"
import { Random } from "../../dist/kernels/random.js"
import { State } from "../../dist/kernels/state.js"
import { EmbeddingTable } from "../../dist/models/embedding-table.js"
import { Model } from "../../dist/models/paper/model.js"
import { Controller } from "../../dist/policies/controller.js"

export const SIZES = [2, 4, 8, 16, 64, 128]
export const HIDDEN = 512
export const SEGMENT = 500
const SIDES = ["user", "item"]
const FREQUENCIES = 10_001
const DRAWS = 100_000

/**
 * The first events of a stream as columns, ids numbered as they come.
 * @param {import("../../dist/index.js").Stream} stream
 * @param {{limit: number, counts?: {user: number, item: number}}} options `counts` to make tables for, where more than seen
 */
export async function takeEvents(stream, { limit, counts }) {
  const columns = { user: [], item: [], label: [] }
  let taken = 0
  for await (const batch of stream.batches()) {
    const rows = Math.min(batch.length, limit - taken)
    columns.user.push(batch.user.slice(0, rows))
    columns.item.push(batch.item.slice(0, rows))
    columns.label.push(Float32Array.from(batch.rating.subarray(0, rows), (rating) => (rating > 3.5 ? 1 : 0)))
    taken += rows
    if (taken === limit) break
  }
  const join = (parts, kind) => {
    const whole = new kind(taken)
    let at = 0
    for (const part of parts) {
      whole.set(part, at)
      at += part.length
    }
    return whole
  }
  const [user, item, label] = [
    join(columns.user, Int32Array),
    join(columns.item, Int32Array),
    join(columns.label, Float32Array),
  ]
  const most = (ids) => ids.reduce((a, b) => Math.max(a, b), -1) + 1
  return { user, item, label, counts: counts ?? { user: most(user), item: most(item) }, features: stream.features }
}

/**
 * Writes a folder for peers/given.py.
 * @param {string} folder
 * @param {Awaited<ReturnType<typeof takeEvents>>} events
 * @param {{start?: string}} [options] `start`: also our first parameters of this method
 */
export function writeGiven(folder, events, { start } = {}) {
  mkdirSync(folder, { recursive: true })
  const { user, item, label, counts, features } = events
  for (const [name, column] of Object.entries({ user, item, label })) writeFileSync(join(folder, `${name}.bin`), column)
  const width = features?.columns.length ?? 1
  const values = new Float32Array(counts.item * width)
  if (features) {
    const known = features.values.subarray(0, values.length)
    values.set(known)
    features.present.subarray(0, counts.item).forEach((there, i) => {
      if (!there) values.fill(0, i * width, (i + 1) * width)
    })
  }
  writeFileSync(join(folder, "features.bin"), values)
  const meta = {
    users: counts.user,
    items: counts.item,
    segment: SEGMENT,
    train: 0.8 * SEGMENT,
    sizes: SIZES,
    hidden: HIDDEN,
  }
  if (start !== undefined) {
    const parts = firstParameters(start, counts)
    meta.start = parts.map(({ name, shape }) => [name, shape])
    writeFileSync(join(folder, "start.bin"), Buffer.concat(parts.map(({ numbers }) => Buffer.from(numbers.buffer))))
  }
  writeFileSync(join(folder, "meta.json"), JSON.stringify(meta))
}

/** Everything our learner of a method draws, by name: what it starts from with seed 1. */
function firstParameters(method, counts) {
  const kernels = openKernels({ threads: 1 })
  const kind = method.startsWith("fixed-") ? "plain" : ["darts", "autoemb"].includes(method) ? "mixture" : "ladder"
  const sizes = kind === "plain" ? [Number(method.slice("fixed-".length))] : SIZES
  const model = new Model({ kernels, head: "ncf", input: kind, sizes, hidden: HIDDEN, seed: 1 })
  const parts = []
  const add = (name, shape, numbers) => parts.push({ name, shape, numbers: Float32Array.from(numbers) })
  for (const { name, rows, columns, value } of model.parameters.list)
    add(name, [rows, columns], kernels.floats.subarray(value, value + rows * columns))
  for (const side of SIDES) add(`${side}.rows`, ...rowsOf(model.inputs[side].table, counts[side]))
  if (method === "esapn" || method === "autoemb")
    for (const side of SIDES) {
      const [second, outputs] = method === "esapn" ? [SIZES.length, 2] : [SIZES.length, SIZES.length]
      parts.push(...firstController(`${method}.${side}`, { kernels, second, outputs, seed: `1 ${method} ${side}` }))
      const random = new Random(1, method, side)
      add(
        `${method}.${side}.draws`,
        [DRAWS],
        Array.from({ length: DRAWS }, () => random.next()),
      )
    }
  kernels.close()
  return parts
}

function firstController(name, options) {
  const state = new State()
  new Controller(options).save(state)
  const values = state.take("values", Float32Array)
  const { second, outputs, seed } = options
  const frequencies = new EmbeddingTable({ sizes: [32], seed: `${seed} frequency` })
  const [shape, numbers] = rowsOf(frequencies, FREQUENCIES)
  const parts = [{ name: `${name}.frequencies`, shape, numbers }]
  let at = 0
  const shapes = {
    "norm.gamma": [32],
    "norm.beta": [32],
    "hidden.frequency": [512, 32],
    "hidden.second": [512, second],
    "hidden.bias": [512],
    "hiddenNorm.gamma": [512],
    "hiddenNorm.beta": [512],
    "output.weight": [outputs, 512],
    "output.bias": [outputs],
  }
  for (const [part, dimensions] of Object.entries(shapes)) {
    const length = dimensions.reduce((a, b) => a * b)
    parts.push({ name: `${name}.controller.${part}`, shape: dimensions, numbers: values.slice(at, at + length) })
    at += length
  }
  if (at !== values.length) throw new Error(`controller: expected ${at} numbers, got ${values.length}`)
  return parts
}

/** Shape and numbers of the rows that ids 0 … count−1 start with. */
function rowsOf(table, count) {
  const size = table.sizes[table.start]
  const numbers = new Float32Array(count * size)
  for (let id = 0; id < count; id++) {
    table.ensure(id)
    table.read(id, numbers, id * size)
  }
  return [[count, size], numbers]
}
