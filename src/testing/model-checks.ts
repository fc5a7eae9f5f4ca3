/** The contract of models from outside. */

import { deepStrictEqual, notDeepStrictEqual, ok } from "node:assert/strict"
import { Random } from "../kernels/random.ts"
import { type CreateModel, kindOfModel, type OwnModel } from "../learning/own.ts"
import { DEFAULT_SIZES } from "../models/model.ts"
import type { OwnOptions } from "../policies/own.ts"
import { SIDES, type Side, type Task } from "../types.ts"
import { type Check, figuresOf, SEEDS } from "./check.ts"

export interface ModelCheckOptions {
  /** A ranker's is topk, others' binary. */
  task?: Task
  options?: OwnOptions
}

/** The contract of every model; with rows also that growth changes no prediction. */
export function modelChecks(create: CreateModel, options: ModelCheckOptions = {}): Check[] {
  const { options: own = {} } = options
  const make = (seed: number, task: Task): OwnModel =>
    create({ task, outputs: task === "multiclass" ? 5 : 1, seed, sizes: DEFAULT_SIZES, options: own })
  const kind = kindOfModel(make(1, options.task ?? "binary"))
  const { task = kind === "ranker" ? "topk" : "binary" } = options
  const common: Check[] = [
    {
      name: "runs along a stream, and a second time with the same figures",
      async run() {
        const asked = { model: create, ownOptions: own, task, sizes: [2, 4, 8] }
        const first = await figuresOf(asked)
        ok(first.length > 5)
        deepStrictEqual(await figuresOf(asked), first)
      },
    },
    {
      name: "gives finite figures after every segment",
      async run() {
        for (const figures of await figuresOf({ model: create, ownOptions: own, task, sizes: [2, 4, 8] }))
          for (const figure of figures) ok(figure === null || Number.isFinite(figure), `figure: got ${figure}`)
      },
    },
  ]
  return kind === "rows" ? [...common, ...rowChecks(make, task)] : common
}

function rowChecks(make: (seed: number, task: Task) => OwnModel, task: Task): Check[] {
  const outputs = task === "multiclass" ? 5 : 1
  const open = (seed: number) => {
    const model = make(seed, task)
    if (!("fill" in model)) throw new Error("model: expected rows")
    const row = (side: Side, id: number, size: number) => {
      const numbers = new Float32Array(model.head + size)
      model.fill(numbers, { side, id, from: 0 })
      return numbers
    }
    const score = (user: Float32Array, item: Float32Array) => {
      const z = new Float64Array(outputs)
      model.score(z, user, item)
      return z
    }
    return { model, row, score }
  }
  return [
    {
      name: "fills rows the same way for the same seed",
      run() {
        for (const seed of SEEDS)
          for (const side of SIDES) deepStrictEqual(open(seed).row(side, 7, 8), open(seed).row(side, 7, 8))
      },
    },
    {
      name: "scores without changing rows, whatever their sizes",
      run() {
        const { row, score } = open(1)
        for (const [m, n] of [
          [2, 2],
          [2, 8],
          [16, 4],
        ]) {
          const [user, item] = [row("user", 3, m), row("item", 4, n)]
          const before = [user.slice(), item.slice()]
          const z = score(user, item)
          for (const logit of z) ok(Number.isFinite(logit), `logit: expected a finite number, got ${logit}`)
          deepStrictEqual([user, item], before)
          deepStrictEqual(score(user, item), z)
        }
      },
    },
    {
      name: "changes no prediction when a row grows, also one that has learned",
      run() {
        const { model, row, score } = open(1)
        const random = new Random("growth", 1)
        const rows = { user: row("user", 3, 4), item: row("item", 4, 4) }
        for (let t = 0; t < 20; t++) {
          const errors = score(rows.user, rows.item).map(() => random.next() - 0.5)
          model.step(errors, rows.user, rows.item)
        }
        const before = score(rows.user, rows.item)
        for (const side of SIDES) {
          const grown = new Float32Array(model.head + 8)
          grown.set(rows[side])
          model.fill(grown, { side, id: side === "user" ? 3 : 4, from: rows[side].length })
          deepStrictEqual(grown.subarray(0, rows[side].length), rows[side])
          const after = side === "user" ? score(grown, rows.item) : score(rows.user, grown)
          for (const [k, logit] of after.entries())
            ok(Math.abs(logit - before[k]) <= 1e-5, `logit: expected ${before[k]} as before, got ${logit}`)
        }
      },
    },
    {
      name: "learns: a pair seen again and again is predicted better",
      run() {
        const { model, row, score } = open(1)
        const [user, item] = [row("user", 1, 8), row("item", 2, 8)]
        const start = score(user, item)[0]
        for (let t = 0; t < 50; t++) {
          const z = score(user, item)
          model.step(
            outputs === 1 ? Float64Array.of(1 / (1 + Math.exp(-z[0])) - 1) : z.map((_, k) => (k === 0 ? -0.5 : 0.125)),
            user,
            item,
          )
        }
        notDeepStrictEqual(score(user, item)[0], start)
        ok(score(user, item)[0] > start, "logit of a positive pair: expected to rise")
      },
    },
  ]
}
