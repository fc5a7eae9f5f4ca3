/** The reference of what learns pairs: plain loops. */

import type { Address, Floats, LearnPairs } from "./kernels.ts"
import { ROW_HEAD, ROW_LIFT, ROW_SIZE, ROW_STEP } from "./layout.ts"
import { sigmoid } from "./math.ts"

/** Working memory. */
interface Memory {
  floats: Floats
  ints: Int32Array
}

export function learnPairs({ floats: f, ints }: Memory, p: LearnPairs): void {
  if (p.logits !== 0) {
    for (let r = 0; r < p.rows; r++) {
      const [user, item] = [ints[p.pairs + 2 * r], ints[p.pairs + 2 * r + 1]]
      const product = productOf({ floats: f, ints }, p, { user, item, size: ints[user + ROW_SIZE] })
      f[p.logits + r] = f[p.global] + f[user] + f[item] + product
    }
    return
  }
  for (let pass = 0; pass < p.passes; pass++)
    for (let r = 0; r < p.rows; r++) {
      const [user, item] = [ints[p.pairs + 2 * r], ints[p.pairs + 2 * r + 1]]
      const base = f[p.global] + f[user] + f[item]
      const product = productOf({ floats: f, ints }, p, { user, item, size: ints[user + ROW_SIZE] })
      const error = sigmoid(base + product) - f[p.labels + r]
      if (pass === 0) {
        f[p.losses + r] = error * error
        const out = p.judged === 0 ? 0 : ints[p.judged + r]
        if (out !== 0) judge({ floats: f, ints }, p, { out, user, item, base, label: f[p.labels + r] })
      }
      step({ floats: f, ints }, p, { user, item, error, weight: p.weights === 0 ? 1 : f[p.weights + r] })
    }
}

/** q̂_k with the item cut to this many numbers. */
function liftedOf({ floats: f, ints }: Memory, p: LearnPairs, at: { item: Address; k: number; held: number }): number {
  return at.k < at.held ? f[at.item + ROW_HEAD + at.k] : f[p.lift + ints[at.item + ROW_LIFT] + at.k]
}

/** ⟨p̂, q̂⟩ with the user cut to `size` numbers and the item to `held`. */
function productOf(
  memory: Memory,
  p: LearnPairs,
  at: { user: Address; item: Address; size: number; held?: number },
): number {
  const { user, item, size, held = memory.ints[item + ROW_SIZE] } = at
  let sum = 0
  for (let k = 0; k < size; k++) sum += memory.floats[user + ROW_HEAD + k] * liftedOf(memory, p, { item, k, held })
  return sum
}

function judge(
  memory: Memory,
  p: LearnPairs,
  at: { out: Address; user: Address; item: Address; base: number; label: number },
): void {
  const { floats: f, ints } = memory
  const { out, user, item, base, label } = at
  const size = ints[user + ROW_SIZE]
  const lossOf = (product: number) => {
    const error = sigmoid(base + product) - label
    return error * error
  }
  for (let rung = 0; rung <= ints[user + ROW_STEP]; rung++)
    f[out + rung] = lossOf(productOf(memory, p, { user, item, size: ints[p.ladder + rung] }))
  for (let rung = 0; rung <= ints[item + ROW_STEP]; rung++)
    f[out + p.rungs + rung] = lossOf(productOf(memory, p, { user, item, size, held: ints[p.ladder + rung] }))
}

function step(
  memory: Memory,
  p: LearnPairs,
  at: { user: Address; item: Address; error: number; weight: number },
): void {
  const { floats: f, ints } = memory
  const { user, item, error, weight } = at
  const { rate, l2, most } = p.constants
  if (weight === 0) return
  f[p.global] -= weight * rate.global * error
  for (const row of [user, item]) {
    const gradient = error + l2.bias * f[row]
    f[row + 1] += weight * gradient * gradient
    f[row] -= ((weight * rate.bias) / Math.sqrt(f[row + 1])) * gradient
  }
  const [size, held] = [ints[user + ROW_SIZE], ints[item + ROW_SIZE]]
  const shared = Math.min(size, held)
  const gradients = { user: [] as number[], item: [] as number[] }
  for (let k = 0; k < size; k++) {
    const [pk, qk] = [f[user + ROW_HEAD + k], liftedOf(memory, p, { item, k, held })]
    gradients.user.push(error * qk + l2.user * pk)
    if (k < shared) gradients.item.push(error * pk + l2.item * qk)
  }
  for (const side of ["user", "item"] as const) {
    const own = gradients[side]
    if (own.length === 0) continue
    const row = side === "user" ? user : item
    f[row + 2] += (weight * own.reduce((sum, g) => sum + g * g, 0)) / Math.sqrt(own.length)
    const slowed = (weight * rate[side]) / Math.sqrt(Math.min(f[row + 2], most))
    for (let k = 0; k < own.length; k++) f[row + ROW_HEAD + k] -= slowed * own[k]
  }
}
