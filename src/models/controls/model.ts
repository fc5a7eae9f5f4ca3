/** What the plain controls look like to the loop: models that predict a label, and rankers that order the items. */

import { DessError, show } from "../../errors.ts"
import { exp, log, sigmoid } from "../../kernels/math.ts"

/** Pairs of ids, column by column. */
export interface Pairs {
  length: number
  user: Int32Array
  item: Int32Array
}

/** Pairs with what is to be predicted: 0 or 1, or a class. */
export interface LabelledPairs extends Pairs {
  label: ArrayLike<number>
}

/** A control for the rating tasks. */
export interface PlainModel {
  /** Logits per pair: 1 for a binary task, one per class otherwise. */
  readonly outputs: number
  /** 4 × the numbers of the ids met. */
  readonly embeddingBytes: number
  /** All columns with their spare capacity and optimizer state. */
  readonly heldBytes: number
  /** Writes the logits of one pair to `z`. Ids never met are fine. */
  score(z: Float64Array, user: number, item: number): void
  /** One step down the errors of a pair that was scored before. */
  step(errors: Float64Array, user: number, item: number): void
}

const PASSES = 2

/** Learns a segment's training pairs, in order. */
export function learnPairs(model: PlainModel, pairs: LabelledPairs): void {
  checkLabelled(pairs, model.outputs)
  const { length, user, item, label } = pairs
  const errors = new Float64Array(model.outputs)
  for (let pass = 0; pass < PASSES; pass++) {
    for (let r = 0; r < length; r++) {
      model.score(errors, user[r], item[r])
      toErrors(errors, label[r])
      model.step(errors, user[r], item[r])
    }
  }
}

/** Writes `outputs` logits per pair, row-major. */
export function writeLogits(out: Float64Array, model: PlainModel, pairs: Pairs): void {
  checkPairs(pairs)
  const { outputs } = model
  const z = new Float64Array(outputs)
  for (let r = 0; r < pairs.length; r++) {
    model.score(z, pairs.user[r], pairs.item[r])
    for (let k = 0; k < outputs; k++) out[r * outputs + k] = z[k]
  }
}

/** A control for the ranking task. */
export interface PlainRanker {
  readonly heldBytes: number
  /** Learns one segment's training pairs, in order. */
  learn(pairs: Pairs): void
  /** A pair that counts in scores of its user at once and is learned later; `unobserve` takes all such back. */
  observe?(user: number, item: number): void
  unobserve?(): void
  /** Writes a score for every item index below `out.length`; an item never met scores 0. */
  scores(out: Float64Array, user: number): void
}

/** Turns one pair's logits into the gradient of its logistic (one output) or softmax loss. */
export function toErrors(z: Float64Array, label: number): void {
  if (z.length === 1) {
    z[0] = sigmoid(z[0]) - label
    return
  }
  let top = z[0]
  for (let k = 1; k < z.length; k++) if (z[k] > top) top = z[k]
  let sum = 0
  for (let k = 0; k < z.length; k++) {
    z[k] = exp(z[k] - top)
    sum += z[k]
  }
  for (let k = 0; k < z.length; k++) z[k] /= sum
  z[label] -= 1
}

/** The task loss of method.md §2: (σ(z) − y)², or cross-entropy over several outputs. */
export function taskLoss(z: Float64Array, label: number): number {
  if (z.length === 1) {
    const miss = sigmoid(z[0]) - label
    return miss * miss
  }
  let max = z[0]
  for (const value of z) max = Math.max(max, value)
  let sum = 0
  for (const value of z) sum += exp(value - max)
  return log(sum) + max - z[label]
}

/** Refuses an output count that is neither binary (1) nor a softmax (2 or more). */
export function checkOutputs(outputs: number): void {
  if (!Number.isInteger(outputs) || outputs < 1 || outputs > 255) {
    throw new DessError("INVALID_ARGUMENT", `outputs: expected a whole number from 1 to 255, got ${show(outputs)}`)
  }
}

/** Refuses pairs with short columns or negative ids. */
export function checkPairs(pairs: Pairs): void {
  const { length, user, item } = pairs
  checkLength(length, Math.min(user.length, item.length))
  for (let r = 0; r < length; r++) {
    if (user[r] < 0 || item[r] < 0) {
      throw new DessError("INVALID_DATA", `pair ${r}: expected indices from 0, got ${user[r]} and ${item[r]}`)
    }
  }
}

/** The same, and labels that are no class of a model with this many outputs. */
function checkLabelled(pairs: LabelledPairs, outputs: number): void {
  checkPairs(pairs)
  const { length, label } = pairs
  const top = Math.max(2, outputs) - 1
  checkLength(length, label.length)
  for (let r = 0; r < length; r++) {
    if (!(label[r] >= 0 && label[r] <= top && Number.isInteger(label[r]))) {
      throw new DessError("INVALID_DATA", `label of pair ${r}: expected 0 to ${top}, got ${show(label[r])}`)
    }
  }
}

function checkLength(length: number, shortest: number): void {
  if (!(length >= 0 && length <= shortest)) {
    throw new DessError("INVALID_ARGUMENT", `pairs: expected columns of ${show(length)} rows, got ${shortest}`)
  }
}
