/** Everything a model remembers, bit for bit: to ask whether something changed it. */

import { expect } from "vitest"
import { DessError, type ErrorCode } from "../../src/errors.ts"
import type { Random } from "../../src/kernels/random.ts"
import type { EmbeddingTable } from "../../src/models/embedding-table.ts"
import type { Model } from "../../src/models/paper/model.ts"
import type { Side } from "../../src/types.ts"

export const SIDES: readonly Side[] = ["user", "item"]

export interface RowState {
  step: number
  steps: number
  value: Float64Array
  first: Float64Array
  second: Float64Array
}

export function readRow(table: EmbeddingTable, id: number): RowState {
  const size = table.size(id)
  const all = new Float64Array(3 * size)
  table.read(id, all, 0)
  table.readMoments(id, all, size)
  const [value, first, second] = [0, 1, 2].map((part) => all.slice(part * size, (part + 1) * size))
  return { step: table.step(id), steps: table.steps(id), value, first, second }
}

export interface ModelState {
  /** Dense parameters and their moments. */
  dense: Float64Array
  denseSteps: number
  running: Float64Array
  rows: Record<Side, Map<number, RowState>>
  workingMemory: number
  heldBytes: number
}

/** Between passes only. Gradients and the statistics in use are scratch and left out. */
export function readState(model: Model): ModelState {
  const { kernels, parameters } = model
  const [{ value, gradient }] = parameters.list
  // Blocks of one length, one after the other: values, gradients, first and second moments.
  const apart = gradient - value
  const dense = new Float64Array(3 * parameters.count)
  for (const [part, block] of [0, 2, 3].entries()) {
    const at = value + block * apart
    dense.set(kernels.floats.subarray(at, at + parameters.count), part * parameters.count)
  }
  const rows = (side: Side) => {
    const { table } = model.inputs[side]
    return new Map([...table.ids()].map((id) => [id, readRow(table, id)]))
  }
  return {
    dense,
    denseSteps: parameters.steps,
    running: Float64Array.from(parameters.saveRunning()),
    rows: { user: rows("user"), item: rows("item") },
    workingMemory: kernels.mark(),
    heldBytes: model.heldBytes,
  }
}

/**
 * The MF and distance heads start with equal outputs, where a softmax gives the rows no gradient at all. Draws scales
 * and biases that differ.
 */
export function unlikeOutputs(model: Model, random: Random): void {
  for (const { name, value, columns } of model.parameters.list)
    if (name === "head.scale" || name === "head.bias")
      for (let o = 0; o < columns; o++) model.kernels.floats[value + o] += random.normal()
}

/** NaN equals NaN, 0 is not −0. */
export function expectSameBits(got: ArrayLike<number>, want: ArrayLike<number>, label: string): void {
  expect(got.length, `${label}: length`).toBe(want.length)
  for (let i = 0; i < got.length; i++)
    if (!Object.is(got[i], want[i])) expect.fail(`${label}[${i}]: expected exactly ${want[i]}, got ${got[i]}`)
}

/** Scores of a ranking beside the logits of predict: to rounding with the NCF head, whose rankings are summed in another form. */
export function expectSameScores(
  got: ArrayLike<number>,
  want: ArrayLike<number>,
  p: { model: Model; label: string },
): void {
  expect(got.length, `${p.label}: length`).toBe(want.length)
  const rounding = p.model.inputs.user.table.precision === "double" ? 1e-13 : 2e-6
  const tolerance = p.model.head.kind === "ncf" ? rounding : 0
  for (let i = 0; i < got.length; i++)
    if (!(Math.abs(got[i] - want[i]) <= tolerance * Math.max(1, Math.abs(want[i]))))
      expect.fail(`${p.label}[${i}]: expected ${want[i]} to ${tolerance}, got ${got[i]}`)
}

export function expectSameRow(got: RowState | undefined, want: RowState | undefined, label: string): void {
  if (!got || !want) expect.fail(`${label}: expected a row before and after`)
  expect([got.step, got.steps], `${label}: step of size and optimizer steps`).toEqual([want.step, want.steps])
  for (const part of ["value", "first", "second"] as const) expectSameBits(got[part], want[part], `${label} ${part}`)
}

export function expectSameState(got: ModelState, want: ModelState, label = "state"): void {
  expectSameBits(got.dense, want.dense, `${label}: dense`)
  expectSameBits(got.running, want.running, `${label}: running statistics`)
  for (const side of SIDES) {
    expect([...got.rows[side].keys()], `${label}: ${side} ids`).toEqual([...want.rows[side].keys()])
    for (const [id, row] of want.rows[side]) expectSameRow(got.rows[side].get(id), row, `${label}: ${side} ${id}`)
  }
  expect(got.denseSteps, `${label}: steps`).toBe(want.denseSteps)
  expect(got.workingMemory, `${label}: working memory in use`).toBe(want.workingMemory)
  expect(got.heldBytes, `${label}: bytes held`).toBe(want.heldBytes)
}

/** Asks for an error of our own that says what was expected, and for a model that is as it was. */
export function expectRefusal(model: Model, act: () => unknown, want: { code: ErrorCode; message: RegExp }): void {
  const before = readState(model)
  let error: unknown
  try {
    act()
  } catch (caught) {
    error = caught
  }
  expect(error, String(error)).toBeInstanceOf(DessError)
  const { message, code } = error as DessError
  expect(message).toMatch(want.message)
  expect(message).toMatch(/expected/)
  expect(code, message).toBe(want.code)
  expectSameState(readState(model), before, message)
}
