/** A data set whose right answer is known: users and items have two colours, and a user likes the items of its own. */

import { Random } from "../../src/kernels/random.ts"
import type { ModelBatch } from "../../src/models/model.ts"

const colour = (id: number) => id % 2

/** All pairs, in a seeded random order. */
export function checkerboard(options: { users: number; items: number; seed: number }): ModelBatch {
  const { users, items, seed } = options
  const random = new Random(seed, "checkerboard")
  const pairs = Array.from({ length: users * items }, (_, p) => ({ user: Math.floor(p / items), item: p % items }))
  for (let p = pairs.length - 1; p > 0; p--) {
    const other = random.integer(p + 1)
    ;[pairs[p], pairs[other]] = [pairs[other], pairs[p]]
  }
  return {
    user: pairs.map(({ user }) => user),
    item: pairs.map(({ item }) => item),
    label: pairs.map(({ user, item }) => (colour(user) === colour(item) ? 1 : 0)),
  }
}

/** Rows from … to−1 of a batch. */
export function cut(batch: ModelBatch, from: number, to: number): ModelBatch {
  const part = (column: ArrayLike<number>) => Array.from(column).slice(from, to)
  return { user: part(batch.user), item: part(batch.item), label: part(batch.label) }
}

/** Share of rows whose logit has the sign of the label (binary), or whose largest logit is the label's. */
export function accuracy(logits: Float64Array, label: ArrayLike<number>): number {
  const outputs = logits.length / label.length
  let right = 0
  for (let r = 0; r < label.length; r++) {
    const row = logits.subarray(r * outputs, (r + 1) * outputs)
    const answer = outputs === 1 ? (row[0] > 0 ? 1 : 0) : row.indexOf(Math.max(...row))
    if (answer === label[r]) right++
  }
  return right / label.length
}
