/**
 * Speed of the kernels: GFLOP/s of the matrix products that training needs and µs of the other operations, on every
 * twin and 1 and 2 threads. `--seconds s` measures each for s seconds (default 0.5), `--only word` picks lines by name.
 */

import { openKernels } from "../dist/kernels/open.js"
import { Random } from "../dist/kernels/random.js"
import { measure, printTable, ratio } from "./report.mjs"

/** rows × inner × columns, and which side is transposed. */
const PRODUCTS = [
  { name: "500×256×512", rows: 500, inner: 256, columns: 512 },
  { name: "12×128×512 users forward", rows: 12, inner: 128, columns: 512, transposeRight: true },
  { name: "400×128×512 items forward", rows: 400, inner: 128, columns: 512, transposeRight: true },
  { name: "512×400×128 dW", rows: 512, inner: 400, columns: 128, transposeLeft: true },
  { name: "400×512×128 dX", rows: 400, inner: 512, columns: 128 },
  { name: "12×512×128 dX", rows: 12, inner: 512, columns: 128 },
  { name: "400×2×4 ladder", rows: 400, inner: 2, columns: 4, transposeRight: true },
  { name: "400×8×16 ladder", rows: 400, inner: 8, columns: 16, transposeRight: true },
  { name: "400×16×64 ladder", rows: 400, inner: 16, columns: 64, transposeRight: true },
  { name: "400×64×128 ladder", rows: 400, inner: 64, columns: 128, transposeRight: true },
]

/** @typedef {import("../dist/kernels/kernels.js").Kernels} Kernels */

/** @param {Kernels} kernels */
function fillNormal(kernels, count) {
  const random = new Random(7)
  const address = kernels.allocate(count)
  const floats = kernels.floats
  for (let i = 0; i < count; i++) floats[address + i] = random.normal()
  return address
}

/** @param {Kernels} kernels */
function fillOnes(kernels, count) {
  const address = kernels.allocate(count)
  kernels.floats.fill(1, address, address + count)
  return address
}

/** @param {Kernels} kernels */
function fillIndex(kernels, count, bound) {
  const random = new Random(8)
  const address = kernels.allocate(count)
  for (let i = 0; i < count; i++) kernels.ints[address + i] = random.integer(bound)
  return address
}

/** @param {Kernels} kernels */
function makeNorm(kernels, columns) {
  const block = () => fillNormal(kernels, columns)
  const ones = () => fillOnes(kernels, columns)
  const statistics = { mean: block(), variance: ones(), center: block(), scale: ones() }
  return { gamma: block(), beta: block(), ...statistics, epsilon: 1e-5, momentum: 0.1 }
}

/**
 * The operations of one NCF step on 500 pairs: a dozen users, 400 items, width 128, hidden 512.
 * @type {Record<string, (kernels: Kernels) => () => void>}
 */
const OPERATIONS = {
  "hiddenTrain 500×512": (kernels) => {
    const operation = { ...hidden(kernels, 500), out: kernels.allocate(500 * 512) }
    return () => kernels.hiddenTrain(operation)
  },
  "hiddenTrainBackward 500×512": (kernels) => {
    const forward = { ...hidden(kernels, 500), out: kernels.allocate(500 * 512) }
    kernels.hiddenTrain(forward)
    kernels.run()
    const operation = {
      ...forward,
      dUser: kernels.allocate(12 * 512),
      dItem: kernels.allocate(400 * 512),
      dGamma: kernels.allocate(512),
      dBeta: kernels.allocate(512),
      dLogits: fillNormal(kernels, 500),
      weight: fillNormal(kernels, 512),
      ...{ outputs: 1, users: 12, items: 400 },
    }
    return () => kernels.hiddenTrainBackward(operation)
  },
  "hiddenInfer 500×512": (kernels) => {
    const operation = {
      ...hidden(kernels, 500),
      logits: kernels.allocate(500),
      activation: 0,
      weight: fillNormal(kernels, 512),
      outputBias: fillNormal(kernels, 1),
      outputs: 1,
    }
    return () => kernels.hiddenInfer(operation)
  },
  "normalize 400×128, tanh": (kernels) => {
    const operation = {
      ...{ out: kernels.allocate(400 * 128), input: fillNormal(kernels, 400 * 128), norm: makeNorm(kernels, 128) },
      ...{ weights: fillOnes(kernels, 400), total: 400, rows: 400, columns: 128, training: true, tanh: true },
    }
    return () => kernels.normalize(operation)
  },
  "normalizeBackward 400×128, tanh": (kernels) => {
    const block = () => fillNormal(kernels, 400 * 128)
    const operation = {
      ...{ dInput: block(), dOut: block(), input: block(), out: block(), norm: makeNorm(kernels, 128) },
      ...{ dGamma: kernels.allocate(128), dBeta: kernels.allocate(128), weights: fillOnes(kernels, 400), total: 400 },
      ...{ rows: 400, columns: 128, tanh: true },
    }
    return () => kernels.normalizeBackward(operation)
  },
  "project 500×512→1": (kernels) => {
    const operation = {
      ...{ out: kernels.allocate(500), input: fillNormal(kernels, 500 * 512), weight: fillNormal(kernels, 512) },
      ...{ bias: fillNormal(kernels, 1), rows: 500, columns: 512, outputs: 1 },
    }
    return () => kernels.project(operation)
  },
  "loss squared 500": (kernels) => {
    const blocks = { losses: kernels.allocate(500), dLogits: kernels.allocate(500) }
    const operation = { ...blocks, logits: fillNormal(kernels, 500), labels: fillNormal(kernels, 500) }
    return () => kernels.loss({ ...operation, kind: "squared", rows: 500, outputs: 1 })
  },
  "adam 1×170,000": (kernels) => {
    const blocks = { value: fillNormal(kernels, 170_000), gradient: fillNormal(kernels, 170_000) }
    const moments = { first: fillNormal(kernels, 170_000), second: fillOnes(kernels, 170_000) }
    const operation = {
      ...{ ...blocks, ...moments, corrections: fillOnes(kernels, 2), rows: 1, columns: 170_000 },
      ...{ rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, l2: 1e-3 },
    }
    return () => kernels.adam(operation)
  },
}

/** @param {Kernels} kernels */
function hidden(kernels, pairs) {
  return {
    user: fillNormal(kernels, 12 * 512),
    item: fillNormal(kernels, 400 * 512),
    userIndex: fillIndex(kernels, pairs, 12),
    itemIndex: fillIndex(kernels, pairs, 400),
    bias: fillNormal(kernels, 512),
    norm: makeNorm(kernels, 512),
    ...{ pairs, columns: 512 },
  }
}

/**
 * Milliseconds of one operation on one twin.
 * @param {Kernels} kernels
 * @param {(kernels: Kernels) => () => void} prepare
 */
function time(kernels, prepare, seconds) {
  const mark = kernels.mark()
  const queue = prepare(kernels)
  const result = measure(
    () => {
      queue()
      kernels.run()
      return kernels.floats
    },
    { seconds },
  )
  kernels.release(mark)
  return result
}

/** Opens a twin, or says why not. */
async function tryOpen(kind, threads) {
  try {
    const kernels = openKernels({ kind, threads })
    await kernels.ready()
    return kernels
  } catch (error) {
    console.log(`${kind}, ${threads} threads: ${error.message}`)
    return undefined
  }
}

/** One table: a line per operation, a column per twin, and how the twins compare. */
function tabulate({ names, twins, reference, prepare, show, seconds }) {
  const rows = names.map((name) => {
    const times = twins.map((kernels) => time(kernels, prepare(name), seconds))
    const row = { operation: name }
    if (reference) row.reference = show(name, time(reference, prepare(name), seconds))
    twins.forEach((kernels, i) => {
      row[`${kernels.kind} ×${kernels.threads}`] = show(name, times[i])
    })
    const find = (kind, threads) => times[twins.findIndex((k) => k.kind === kind && k.threads === threads)]
    const [fast, both, plain] = [find("relaxed-simd", 1), find("relaxed-simd", 2), find("simd", 1)]
    row["2 threads"] = fast && both ? ratio(fast.best, both.best) : "–"
    row.relaxed = fast && plain ? ratio(plain.best, fast.best) : "–"
    return row
  })
  printTable(rows)
}

/** @param {readonly string[]} args */
export async function run(args) {
  const option = (name, fallback) => (args.includes(name) ? args[args.indexOf(name) + 1] : fallback)
  const seconds = Number(option("--seconds", "0.5"))
  const only = option("--only", "")
  const wanted = [
    ["relaxed-simd", 1],
    ["relaxed-simd", 2],
    ["simd", 1],
    ["simd", 2],
  ]
  const opened = await Promise.all(wanted.map(([kind, threads]) => tryOpen(kind, threads)))
  const twins = opened.filter((kernels) => kernels !== undefined)
  const reference = openKernels({ kind: "reference" })
  const pick = (names) => names.filter((name) => name.includes(only))

  const products = new Map(PRODUCTS.map((product) => [product.name, product]))
  const flops = (name) => 2 * products.get(name).rows * products.get(name).inner * products.get(name).columns
  const prepareProduct = (name) => (kernels) => {
    const { rows, inner, columns } = products.get(name)
    const blocks = { left: fillNormal(kernels, rows * inner), right: fillNormal(kernels, inner * columns) }
    const operation = { ...products.get(name), ...blocks, out: kernels.allocate(rows * columns) }
    return () => kernels.multiply(operation)
  }
  const gigaflops = (name, { best, mean, sd }) => {
    const speed = (milliseconds) => flops(name) / milliseconds / 1e6
    return `${speed(best).toFixed(1)} (${speed(mean).toFixed(1)} ± ${((speed(mean) * sd) / mean).toFixed(1)})`
  }
  console.log("matrix products, GFLOP/s: best (mean ± sd)")
  tabulate({ names: pick([...products.keys()]), twins, prepare: prepareProduct, show: gigaflops, seconds })

  console.log("\nother operations, µs: best (mean ± sd)")
  const microseconds = (_, { best, mean, sd }) =>
    `${(best * 1e3).toFixed(1)} (${(mean * 1e3).toFixed(1)} ± ${(sd * 1e3).toFixed(1)})`
  const prepare = (name) => OPERATIONS[name]
  tabulate({ names: pick(Object.keys(OPERATIONS)), twins, reference, prepare, show: microseconds, seconds })

  if (pick(["500×256×512"]).length > 0) {
    const small = { name: "64×64×64", rows: 64, inner: 64, columns: 64 }
    products.set(small.name, small)
    console.log("\nbeside the reference, GFLOP/s: best (mean ± sd)")
    tabulate({ names: [small.name], twins, reference, prepare: prepareProduct, show: gigaflops, seconds })
  }
  for (const kernels of twins) kernels.close()
}
