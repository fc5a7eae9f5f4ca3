/**
 * The network of method.md §2 written row by row from the text, for every head: no distinct ids, no halves, no kernels.
 * It reads its parameters by name from a model, so that both speak of the same numbers.
 */

import type { ModelBatch } from "../../src/models/model.ts"
import { Mixture } from "../../src/models/paper/mixture.ts"
import type { Model } from "../../src/models/paper/model.ts"
import type { Side } from "../../src/types.ts"
import { readRow } from "./model-state.ts"

type Matrix = number[][]

export interface NaivePass {
  logits: Matrix
  losses: number[]
  /** Running statistics after a training pass. */
  running: Map<string, { mean: number[]; variance: number[] }>
}

function parameter(model: Model, name: string): Matrix {
  const found = model.parameters.list.find((one) => one.name === name)
  if (!found) throw new Error(`no parameter ${name}`)
  const { rows, columns, value } = found
  return Array.from({ length: rows }, (_, r) => [
    ...model.kernels.floats.subarray(value + r * columns, value + (r + 1) * columns),
  ])
}

const softmax = (z: readonly number[]) => {
  const powers = z.map((x) => Math.exp(x))
  return powers.map((power) => power / powers.reduce((a, b) => a + b, 0))
}

const affine = (weight: Matrix, x: number[], bias: number[]) =>
  weight.map((row, r) => row.reduce((sum, w, c) => sum + w * x[c], bias[r]))

export function naivePass(model: Model, batch: ModelBatch, training: boolean): NaivePass {
  const running: NaivePass["running"] = new Map()

  const normalise = (name: string, input: Matrix): Matrix => {
    const norm = model.parameters.norms.find((one) => one.name === name)
    if (!norm) throw new Error(`no norm ${name}`)
    const [gamma] = parameter(model, `${name}.gamma`)
    const [beta] = parameter(model, `${name}.beta`)
    const f = model.kernels.floats
    const out = input.map(() => [] as number[])
    const after = { mean: [] as number[], variance: [] as number[] }
    for (let c = 0; c < gamma.length; c++) {
      let [mean, variance] = [f[norm.mean + c], f[norm.variance + c]]
      if (training) {
        const column = input.map((row) => row[c])
        const batchMean = column.reduce((a, b) => a + b, 0) / column.length
        const squares = column.reduce((sum, x) => sum + (x - batchMean) ** 2, 0)
        after.mean.push(0.9 * mean + 0.1 * batchMean)
        after.variance.push(0.9 * variance + (0.1 * squares) / (column.length - 1))
        mean = batchMean
        variance = squares / column.length
      }
      input.forEach((row, r) => {
        out[r].push(((row[c] - mean) / Math.sqrt(variance + 1e-5)) * gamma[c] + beta[c])
      })
    }
    running.set(name, after)
    return out
  }

  /** Every slice of every row lifted by its own map, all of them normalised together, mixed row by row. */
  const mixed = (side: Side, { table, mixtures, sizes }: Mixture): Matrix => {
    const lifted = sizes.flatMap((size, i) => {
      const from = sizes.slice(0, i).reduce((a, b) => a + b, 0)
      const weight = parameter(model, `${side}.slices.${i}.weight`)
      const [bias] = parameter(model, `${side}.slices.${i}.bias`)
      return Array.from(batch[side], (id) =>
        affine(weight, [...readRow(table, id).value.slice(from, from + size)], bias),
      )
    })
    const parts = normalise(`${side}.norm`, lifted).map((row) => row.map(Math.tanh))
    return Array.from(batch[side], (id, r) => {
      const shares = softmax([...readRow(mixtures, id).value])
      return parts[r].map((_, c) =>
        shares.reduce((sum, share, i) => sum + share * parts[i * batch.user.length + r][c], 0),
      )
    })
  }

  const vectors = (side: Side): Matrix => {
    const input = model.inputs[side]
    if (input instanceof Mixture) return mixed(side, input)
    const { table } = input
    const lifted = Array.from(batch[side], (id) => {
      const { step, value } = readRow(table, id)
      let x = [...value]
      for (let s = step; s < table.top; s++)
        x = affine(parameter(model, `${side}.ladder.${s}.weight`), x, parameter(model, `${side}.ladder.${s}.bias`)[0])
      return x
    })
    return normalise(`${side}.norm`, lifted).map((row) => row.map(Math.tanh))
  }

  const user = vectors("user")
  const item = vectors("item")
  const width = user[0].length
  let logits: Matrix
  if (model.head.kind === "ncf") {
    const concat = normalise(
      "head.inputNorm",
      user.map((row, r) => [...row, ...item[r]]),
    )
    const forItem = parameter(model, "head.hidden.weight.item")
    const weight = parameter(model, "head.hidden.weight.user").map((row, h) => [...row, ...forItem[h]])
    const [bias] = parameter(model, "head.hidden.bias")
    const hidden = normalise(
      "head.hiddenNorm",
      concat.map((x) => affine(weight, x, bias)),
    ).map((row) => row.map(Math.tanh))
    const output = parameter(model, "head.output.weight")
    logits = hidden.map((x) => affine(output, x, parameter(model, "head.output.bias")[0]))
  } else {
    const scores = user.map((u, r) =>
      model.head.kind === "mf"
        ? u.reduce((sum, x, c) => sum + x * item[r][c], 0) / Math.sqrt(width)
        : -u.reduce((sum, x, c) => sum + (x - item[r][c]) ** 2, 0) / width,
    )
    const [scale] = parameter(model, "head.scale")
    const [bias] = parameter(model, "head.bias")
    logits = scores.map((score) => scale.map((k, o) => k * score + bias[o]))
  }
  const losses = logits.map((z, r) => {
    const label = batch.label[r]
    if (model.task === "multiclass") return Math.log(z.reduce((sum, x) => sum + Math.exp(x), 0)) - z[label]
    const p = 1 / (1 + Math.exp(-z[0]))
    return model.task === "binary" ? (p - label) ** 2 : -Math.log(label === 1 ? p : 1 - p)
  })
  return { logits, losses, running }
}
