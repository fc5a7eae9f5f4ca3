/** Compares a model with a golden case (see the format in the folder the cases came from). */

import { expect } from "vitest"
import type { Kernels } from "../../src/kernels/kernels.ts"
import type { ModelBatch } from "../../src/models/model.ts"
import { Model } from "../../src/models/paper/model.ts"
import { probe } from "../../src/models/paper/probe.ts"
import type { HeadKind, Side, Task } from "../../src/types.ts"

type Tensor = number | null | Tensor[]
interface Sides {
  user: {
    rows: number[][]
    ladder: { weight: number[][]; bias: number[] }[]
    norm: { gamma: number[]; beta: number[] }
  }
  item: Sides["user"]
  head: Record<string, Tensor | Record<string, Tensor>>
}
interface ProbeArm {
  before: number
  tuned: number
  next: number | null
}
type ProbeCase = Record<Side, { keep: ProbeArm; grow: ProbeArm | null }> & { rate: number }

export interface ModelCase {
  kind: HeadKind
  task: Task
  sizes: number[]
  hidden: number
  outputs: number
  optimizer: { learningRate: number; l2: number; beta1: number; beta2: number; epsilon: number }
  norm: { epsilon: number; momentum: number }
  params: Sides
  batches: ModelBatch[]
  first: {
    logits: Tensor
    losses: number[]
    gradients: Record<string, Tensor>
    running: Record<string, { mean: number[]; variance: number[] }>
    after: Sides
  }
  lossPerStep: number[]
  final: { params: Sides; running: Record<string, { mean: number[]; variance: number[] }>; inference: Tensor }
  probe?: ProbeCase[]
}

export interface Tolerance {
  value: number
  final: number
  double: boolean
}

const flat = (tensor: Tensor): number[] => (Array.isArray(tensor) ? tensor.flatMap(flat) : [tensor ?? 0])

function expectNear(name: string, got: ArrayLike<number>, want: Tensor, tolerance: number): void {
  const values = flat(want)
  if (want !== null) expect(got.length, `${name}: length`).toBe(values.length)
  for (let i = 0; i < got.length; i++) {
    const wanted = want === null ? 0 : values[i]
    if (!(Math.abs(got[i] - wanted) <= tolerance * Math.max(1, Math.abs(wanted))))
      expect.fail(`${name}[${i}]: expected ${wanted} within ${tolerance}, got ${got[i]}`)
  }
}

/** A model in the case's starting state. */
function buildModel(golden: ModelCase, kernels: Kernels, double: boolean): Model {
  const { learningRate, ...adam } = golden.optimizer
  const model = new Model({
    kernels,
    task: golden.task,
    head: golden.kind,
    sizes: golden.sizes,
    hidden: Math.max(1, golden.hidden),
    adam: { rate: learningRate, ...adam },
    precision: double ? "double" : "single",
  })
  for (const side of ["user", "item"] as const) {
    golden.params[side].rows.forEach((row, id) => {
      model.inputs[side].table.ensure(id)
      model.inputs[side].table.replace(id, golden.sizes.indexOf(row.length), Float64Array.from(row), 0)
    })
  }
  for (const norm of model.parameters.norms) Object.assign(norm, golden.norm)
  for (const parameter of model.parameters.list) {
    kernels.floats.set(lookUp(golden.params, parameter.name, golden.sizes), parameter.value)
  }
  return model
}

/** The golden value of one of our parameters; the first head layer is held in two halves. */
function lookUp(params: Sides | Record<string, Tensor>, name: string, sizes: number[]): number[] {
  const half = /^head\.hidden\.weight\.(user|item)$/.exec(name)
  const path = half ? "head.hidden.weight" : name
  const value =
    path in params
      ? (params as Record<string, Tensor>)[path]
      : path.split(".").reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], params)
  if (!half) return flat(value as Tensor)
  const width = sizes[sizes.length - 1]
  if (value === null) return []
  return (value as number[][]).flatMap((row) => (half[1] === "user" ? row.slice(0, width) : row.slice(width)))
}

function expectParameters(model: Model, golden: ModelCase, want: Sides, label: string, tolerance: number): void {
  const f = model.kernels.floats
  for (const { name, rows, columns, value } of model.parameters.list)
    expectNear(
      `${label} ${name}`,
      f.subarray(value, value + rows * columns),
      lookUp(want, name, golden.sizes),
      tolerance,
    )
  for (const side of ["user", "item"] as const)
    want[side].rows.forEach((row, id) => {
      const got = new Float64Array(row.length)
      model.inputs[side].table.read(id, got, 0)
      expectNear(`${label} ${side}.rows.${id}`, got, row, tolerance)
    })
}

function expectRunning(model: Model, want: ModelCase["first"]["running"], label: string, tolerance: number): void {
  const f = model.kernels.floats
  for (const norm of model.parameters.norms) {
    const { mean, variance } = want[norm.name.replace(".norm", "").replace("head.", "")]
    expectNear(`${label} ${norm.name} running mean`, f.subarray(norm.mean, norm.mean + norm.columns), mean, tolerance)
    expectNear(
      `${label} ${norm.name} running variance`,
      f.subarray(norm.variance, norm.variance + norm.columns),
      variance,
      tolerance,
    )
  }
}

/** First pass, every gradient, one step, ten steps, final inference. Returns the model in its final state. */
export function checkModel(golden: ModelCase, kernels: Kernels, tolerance: Tolerance): Model {
  const model = buildModel(golden, kernels, tolerance.double)
  const { first, final, batches } = golden
  const pass = model.backpropagate(batches[0])
  expectNear("logits", pass.logits, first.logits, tolerance.value)
  expectNear("losses", pass.losses, first.losses, tolerance.value)
  expectRunning(model, first.running, "first", tolerance.value)
  const f = kernels.floats
  const seen = new Set<string>()
  for (const { name, rows, columns, gradient } of model.parameters.list) {
    seen.add(name.replace(/\.(user|item)$/, ""))
    const want = first.gradients[name.replace(/^(head\.hidden\.weight)\.(user|item)$/, "$1")]
    expect(want, `${name} has a golden gradient`).not.toBeUndefined()
    expectNear(
      `gradient ${name}`,
      f.subarray(gradient, gradient + rows * columns),
      want === null ? null : lookUp(first.gradients, name, golden.sizes),
      tolerance.value,
    )
  }
  for (const side of ["user", "item"] as const) {
    const placed = pass.placed[side]
    const { ids } = placed.distinct
    golden.params[side].rows.forEach((row, id) => {
      const name = `${side}.rows.${id}`
      seen.add(name)
      const d = ids.indexOf(id)
      const want = first.gradients[name]
      if (d < 0)
        expect(
          flat(want ?? null).every((x) => x === 0),
          `${name} is not in the batch`,
        ).toBe(true)
      else {
        const at = model.inputs[side].rowGradient(placed, d)
        expectNear(`gradient ${name}`, f.subarray(at, at + row.length), want, tolerance.value)
      }
    })
  }
  for (const name of Object.keys(first.gradients)) expect(seen.has(name), `${name} was compared`).toBe(true)
  model.apply(pass)
  expectParameters(model, golden, first.after, "after one step", tolerance.value)

  const losses = [sum(pass.losses)]
  for (const batch of batches.slice(1)) losses.push(sum(model.train(batch).losses))
  expectNear("loss per step", losses, golden.lossPerStep, tolerance.value)
  expectParameters(model, golden, final.params, "final", tolerance.final)
  expectRunning(model, final.running, "final", tolerance.value)
  expectNear("final inference", model.predict(batches[0]).logits, final.inference, tolerance.final)
  return model
}

const sum = (values: Float64Array) => values.reduce((a, b) => a + b, 0)

/** The probe of batch 1 with the final parameters, on the same row and on the next row of the same id. */
export function checkProbe(golden: ModelCase, model: Model, tolerance: Tolerance): void {
  const cases = golden.probe
  if (!cases) return
  const batch = golden.batches[1]
  const count = batch.user.length
  const rows = Int32Array.from({ length: count }, (_, i) => i)
  const rate = cases[0].rate
  const same = { rows, evaluate: rows }
  const tuned = probe(model, { batch, rate, user: same, item: same })
  const next = (side: Side) => {
    const found = rows.map((row) => {
      for (let step = 1; step < count; step++)
        if (batch[side][(row + step) % count] === batch[side][row]) return (row + step) % count
      return -1
    })
    const kept = rows.filter((row) => found[row] >= 0)
    return { rows: kept, evaluate: kept.map((row) => found[row]) }
  }
  const asked = { user: next("user"), item: next("item") }
  const later = probe(model, { batch, rate, ...asked })
  const near = (name: string, got: number, want: number) =>
    expectNear(name, [got], [want], tolerance.double ? 1e-8 : tolerance.final)
  const effect = (name: string, got: number, want: number) => {
    const bound = tolerance.double ? 1e-8 : 0.01 * Math.abs(want) + 1e-6
    if (!(Math.abs(got - want) <= bound)) expect.fail(`${name}: expected ${want} within ${bound}, got ${got}`)
  }
  cases.forEach((one, row) => {
    for (const side of ["user", "item"] as const) {
      const { keep, grow } = one[side]
      const name = `probe ${side} row ${row}`
      const at = asked[side].rows.indexOf(row)
      near(`${name} before`, tuned[side].before[row], keep.before)
      near(`${name} keep tuned`, tuned[side].keep[row], keep.tuned)
      effect(`${name} keep effect`, tuned[side].keep[row] - tuned[side].before[row], keep.tuned - keep.before)
      if (keep.next === null) expect(at, `${name} has no next`).toBe(-1)
      else near(`${name} keep next`, later[side].keep[at], keep.next)
      if (grow === null) {
        expect(tuned[side].grow[row], `${name} is at the top`).toBeNaN()
        continue
      }
      near(`${name} grow tuned`, tuned[side].grow[row], grow.tuned)
      effect(`${name} grow effect`, tuned[side].grow[row] - tuned[side].before[row], grow.tuned - grow.before)
      effect(`${name} keep − grow`, tuned[side].keep[row] - tuned[side].grow[row], keep.tuned - grow.tuned)
      if (grow.next !== null && keep.next !== null) {
        near(`${name} grow next`, later[side].grow[at], grow.next)
        effect(`${name} keep − grow next`, later[side].keep[at] - later[side].grow[at], keep.next - grow.next)
      }
    }
  })
}
