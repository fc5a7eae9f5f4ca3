/**
 * Shares a network learner.
 *
 * A change of an item is what its numbers became less what they were before training (its base), and what its n Adam
 * steps left in the moments. Where it is added, the numbers add up, and the moments are what they would be had those
 * steps been taken after the ones known there:
 *
 *   E ← E + ΔE      m ← β₁ⁿ m + Δm      v ← β₂ⁿ v + Δv      steps ← steps + n
 *
 * Made at another size than the row has here, ΔE is carried along the ladder as the row was, so that predictions move as
 * they did there; the moments, which began anew with the size, stay.
 *
 * The dense part (ladders, norms with their running statistics, head, with Adam's moments and steps) is averaged, weighed
 * by events. A change of it is that of a row, running statistics decaying as moments do; where it is averaged, each is
 * added to the part all began with, and the mean is taken of the sums. Adding all of them up instead
 * learned worse; a mean moves as far as one learner's steps do, so it is slower at first (bench/averaging.mjs).
 * The policy's sums add up by evidence (LinUCB: discounted as if the other's updates had been made here, after all that
 * is known).
 */

import type { Indicators } from "../context/indicators.ts"
import { Ladder } from "../embedding/ladder.ts"
import type { EmbeddingTable } from "../embedding/table.ts"
import { power } from "../kernels/math.ts"
import { Packer, type Unpacker } from "../kernels/packing.ts"
import type { Model } from "../models/model.ts"
import type { SizePolicy } from "../search/policy.ts"
import type { Side } from "../types.ts"
import { readIndicators, writeIndicators } from "./indicator-bytes.ts"
import type { Limiter } from "./limiter.ts"
import { ShareLedger } from "./share-ledger.ts"
import type { ItemChange, Sharing } from "./shared.ts"
import type { Reason } from "./size-log.ts"

/** No number of a row or a parameter, and no running statistic, is taken from elsewhere beyond these. */
const LARGEST = 1e4
const LARGEST_STATISTIC = 1e18
const MOST_STEPS = 0xffff_ffff

/** What is shared of a learner, and what it does when asked. */
export interface NetworkParts {
  model: Model
  policy: SizePolicy | undefined
  indicators: Indicators
  limiter: Limiter
  /** Segments learned. */
  segments(): number
  /** Lets the policy learn at once what it would learn at the next segment. */
  learnNow(): void
  /** Drops everything kept of an id, its row among it. */
  drop(side: Side, id: number): void
  /** A row was put here, of another size than before where `why` is given. */
  changed(side: Side, id: number, why?: Reason): void
}

/** A row with its moments, one after the other. */
interface Row {
  step: number
  numbers: Float32Array
  steps: number
}

/** Parameters with moments and running statistics, one after the other. */
interface Dense {
  steps: number
  numbers: Float32Array
}

export class NetworkShare implements Sharing {
  readonly shape: string
  readonly #parts: NetworkParts
  readonly #ledger: ShareLedger<Row>
  /** The dense part when its change was taken last. */
  #dense: Dense

  constructor(parts: NetworkParts) {
    this.#parts = parts
    const { model, indicators, policy, limiter } = parts
    this.#ledger = new ShareLedger({ items: this.#table("item"), indicators, limiter })
    this.#dense = model.parameters.copyAll()
    this.shape = JSON.stringify(["network", model.shape, indicators.columns, policy?.context ?? null])
    this.restart()
  }

  /** Begins anew with the rows as they are: nothing has changed since. */
  restart(): void {
    this.#ledger.restart()
    this.#dense = this.#parts.model.parameters.copyAll()
    this.#parts.policy?.record?.()
  }

  #table(side: Side): EmbeddingTable {
    return this.#parts.model.inputs[side].table
  }

  has(side: Side, id: number): boolean {
    return this.#table(side).has(id)
  }

  latest(): number[] {
    return []
  }

  // What the learner says.

  /** Rows are about to change. */
  note(side: Side, ids: ArrayLike<number>): void {
    for (let i = 0; i < ids.length; i++) {
      this.#ledger.touch(side, ids[i])
      if (side === "item" && !this.#ledger.bases.has(ids[i])) this.#ledger.bases.set(ids[i], this.#read("item", ids[i]))
    }
  }

  /** A row is about to change its size here: what was learned before was learned at the old one. */
  resize(side: Side, id: number): void {
    if (side === "item") this.#settle(id)
    this.#ledger.touch(side, id)
  }

  /** Ids are gone. */
  left(side: Side, ids: Iterable<number>): void {
    for (const id of ids) {
      this.#ledger.touch(side, id)
      if (side === "item") this.#ledger.leave(id)
    }
  }

  visited(): number[] {
    return this.#ledger.takeVisited()
  }

  decides(side: Side, id: number): boolean {
    return this.#ledger.decides(side, id)
  }

  decide(isHome: (item: number) => boolean): void {
    this.#ledger.decide(isHome)
  }

  takeTouched(): Record<Side, number[]> {
    return this.#ledger.takeTouched()
  }

  // Rows.

  #read(side: Side, id: number): Row {
    const table = this.#table(side)
    const size = table.size(id)
    const numbers = new Float32Array(3 * size)
    table.read(id, numbers, 0)
    return { step: table.step(id), numbers, steps: table.readMoments(id, numbers, size) }
  }

  writeRow(side: Side, id: number, out: Packer): void {
    const { step, numbers, steps } = this.#read(side, id)
    out.byte(step)
    out.count(steps)
    out.floats(numbers)
    out.count(this.#parts.limiter.lastOf(side, id))
    writeIndicators(out, this.#parts.indicators, { side, id })
  }

  readRow(side: Side, id: number, from: Unpacker): () => void {
    const table = this.#table(side)
    const { limiter, indicators, segments, changed } = this.#parts
    const step = readStep(from, table)
    const steps = from.count(MOST_STEPS)
    const numbers = from.floats(3 * table.sizes[step])
    checkLearned(from, numbers, table.sizes[step])
    const second = from.count(0xffff_ffff)
    const putIndicators = readIndicators(from, indicators, { side, id })
    return () => {
      if (side === "item") this.#settle(id)
      const before = table.has(id) ? table.step(id) : -1
      table.restore(id, step, { numbers, steps })
      putIndicators()
      if (second > 0 && this.decides(side, id)) limiter.meet(side, id, { second, segment: segments() })
      changed(side, id, before === step ? undefined : "elsewhere")
    }
  }

  drop(side: Side, id: number): void {
    if (!this.has(side, id)) return
    if (side === "item") this.#settle(id)
    this.#parts.drop(side, id)
    this.#ledger.untouch(side, id)
  }

  // Changes of items.

  takeChanges(seal: (write: (out: Packer) => void) => Uint8Array): ItemChange[] {
    return this.#ledger.takeChanges(seal, (item) => this.#settle(item))
  }

  /** Sets the change of an item aside, to be taken; its row as it is now is the next base. */
  #settle(item: number): void {
    const base = this.#ledger.bases.get(item)
    if (!base) return
    this.#ledger.bases.delete(item)
    const events = this.#ledger.takeEvents(item)
    const { step, numbers, steps } = this.#read("item", item)
    const taken = steps - base.steps
    if (events === 0 && taken === 0) return
    const size = numbers.length / 3
    const kept = this.#kept(taken)
    const change = numbers.map((number, k) => number - kept[Math.floor(k / size)] * base.numbers[k])
    // A sum of squares.
    for (let k = 2 * size; k < change.length; k++) change[k] = Math.max(0, change[k])
    this.#ledger.setAside(item, (out) => {
      out.byte(step)
      out.count(events)
      out.count(taken)
      if (taken > 0) out.floats(change)
    })
  }

  /** What remains of numbers and moments after so many steps, apart from what those add. */
  #kept(steps: number): [number, number, number] {
    const { beta1, beta2 } = this.#parts.model.adam
    return [1, power(beta1, steps), power(beta2, steps)]
  }

  readChange(item: number, from: Unpacker): () => void {
    const table = this.#table("item")
    const { limiter, indicators, segments, changed } = this.#parts
    const step = readStep(from, table)
    const events = from.count(0xffff_ffff)
    const taken = from.count(MOST_STEPS)
    const change = from.floats(taken > 0 ? 3 * table.sizes[step] : 0)
    const fresh = table.ensure(item)
    const row = this.#read("item", item)
    if (fresh) table.free(item)
    if (taken > 0) this.#add(row, { step, numbers: change, steps: taken })
    checkLearned(from, row.numbers, row.numbers.length / 3)
    return () => {
      this.#settle(item)
      const met = table.ensure(item)
      table.restore(item, row.step, row)
      indicators.addElsewhere(item, events)
      changed("item", item, met ? "met" : undefined)
      if (this.#ledger.visit(item) && events + taken > 0) limiter.meet("item", item, { segment: segments() })
    }
  }

  #add(row: Row, change: Row): void {
    if (row.step === change.step) {
      const size = row.numbers.length / 3
      const kept = this.#kept(change.steps)
      for (let k = 0; k < row.numbers.length; k++)
        row.numbers[k] = kept[Math.floor(k / size)] * row.numbers[k] + change.numbers[k]
      row.steps = Math.min(MOST_STEPS, row.steps + change.steps)
      return
    }
    const input = this.#parts.model.inputs.item
    if (!(input instanceof Ladder)) return
    const moved = input.carry(change.numbers.subarray(0, change.numbers.length / 3), change.step, row.step)
    for (let k = 0; k < moved.length; k++) row.numbers[k] += moved[k]
  }

  // What belongs to no id.

  writeEvidence(out: Packer): void {
    this.#parts.learnNow()
    this.#parts.policy?.writeEvidence?.(out)
  }

  readEvidence(from: Unpacker): () => void {
    return this.#parts.policy?.readEvidence?.(from) ?? (() => {})
  }

  writeDense(out: Packer): void {
    const { model, policy } = this.#parts
    const { steps, numbers } = model.parameters.copyAll()
    const learned = new Packer()
    policy?.writeAll?.(learned)
    const bytes = learned.done()
    out.count(1 + bytes.length / 8)
    out.double(steps)
    out.bytes(bytes)
    out.count(numbers.length)
    out.floats(numbers)
    this.#dense = { steps, numbers }
  }

  /** The policy's part only before the first segment: from then on it adds up by evidence. */
  readDense(from: Unpacker): () => void {
    const { policy, segments } = this.#parts
    const { parameters } = this.#parts.model
    from.count()
    const steps = Math.round(from.double())
    if (!(steps >= 0 && steps <= Number.MAX_SAFE_INTEGER)) throw from.damaged("a number of steps", steps)
    const learn = policy?.readAll?.(from)
    const length = parameters.copyAll().numbers.length
    if (from.count() !== length) throw from.damaged(`${length} numbers`, "others")
    const numbers = from.floats(length)
    this.#checkDense(from, numbers)
    return () => {
      this.#dense = { steps, numbers }
      parameters.setAll(this.#dense)
      if (segments() === 0) learn?.()
    }
  }

  takeDenseChange(): ((out: Packer) => void) | undefined {
    const { parameters } = this.#parts.model
    const { steps, numbers: before } = this.#dense
    const taken = parameters.steps - steps
    if (taken <= 0) return undefined
    this.#dense = parameters.copyAll()
    const change = this.#dense.numbers.slice()
    this.#eachKept(taken, (kept, k) => {
      change[k] -= kept * before[k]
    })
    // Sums of squares.
    for (const [from, to] of this.#squares()) for (let k = from; k < to; k++) change[k] = Math.max(0, change[k])
    return (out) => {
      out.count(taken)
      out.floats(change)
    }
  }

  readDenseChange(from: Unpacker): (own: boolean) => void {
    const { parameters } = this.#parts.model
    const sum = this.#addDense(from, parameters.copyAll())
    return (own) => {
      parameters.setAll(sum)
      if (!own) this.#dense = sum
    }
  }

  readDenseMean(parts: readonly { from: Unpacker; weight: number }[], own: number): () => void {
    const { parameters } = this.#parts.model
    const base = this.#dense
    const all = [{ weight: own, ...parameters.copyAll() }]
    for (const { from, weight } of parts)
      all.push({ weight, ...this.#addDense(from, { ...base, numbers: base.numbers.slice() }) })
    const total = all.reduce((sum, { weight }) => sum + weight, 0)
    if (!(total > 0)) return () => {}
    const mean = { steps: base.steps, numbers: base.numbers.slice() }
    let steps = 0
    for (const { weight, steps: taken, numbers } of all) {
      const share = weight / total
      steps += share * (taken - base.steps)
      for (let k = 0; k < numbers.length; k++) mean.numbers[k] += share * (numbers[k] - base.numbers[k])
    }
    for (const [from, to] of this.#squares())
      for (let k = from; k < to; k++) mean.numbers[k] = Math.max(0, mean.numbers[k])
    mean.steps += Math.round(steps)
    return () => {
      this.#dense = mean
      parameters.setAll(mean)
    }
  }

  #addDense(from: Unpacker, { steps, numbers }: Dense): Dense {
    const taken = from.count(MOST_STEPS)
    const change = from.floats(numbers.length)
    this.#eachKept(taken, (kept, k) => {
      numbers[k] = kept * numbers[k] + change[k]
    })
    this.#checkDense(from, numbers)
    return { steps: steps + taken, numbers }
  }

  /** Every place of the dense part, with what is left of it after so many steps apart from what those add. */
  #eachKept(steps: number, each: (kept: number, place: number) => void): void {
    const { count, norms } = this.#parts.model.parameters
    const [all, first, second] = this.#kept(steps)
    for (let k = 0; k < count; k++) each(all, k)
    for (let k = count; k < 2 * count; k++) each(first, k)
    for (let k = 2 * count; k < 3 * count; k++) each(second, k)
    let at = 3 * count
    for (const { columns, momentum } of norms) {
      const running = power(1 - momentum, steps)
      for (const end = at + 2 * columns; at < end; at++) each(running, at)
    }
  }

  /** Where second moments and variances stand. */
  #squares(): [from: number, to: number][] {
    const { count, norms } = this.#parts.model.parameters
    const places: [number, number][] = [[2 * count, 3 * count]]
    let at = 3 * count
    for (const { columns } of norms) {
      places.push([at + columns, at + 2 * columns])
      at += 2 * columns
    }
    return places
  }

  #checkDense(from: Unpacker, numbers: Float32Array): void {
    const { parameters } = this.#parts.model
    checkLearned(from, numbers, parameters.count)
    let at = 3 * parameters.count
    for (const { columns } of parameters.norms) {
      const [mean, variance] = [numbers.subarray(at, at + columns), numbers.subarray(at + columns, at + 2 * columns)]
      if (!(mean.every((m) => m * m <= LARGEST_STATISTIC) && variance.every((v) => v >= 0 && v <= LARGEST_STATISTIC)))
        throw from.damaged("running statistics", "others")
      at += 2 * columns
    }
  }
}

function readStep(from: Unpacker, table: EmbeddingTable): number {
  const step = from.byte()
  if (step > table.top) throw from.damaged(`a step up to ${table.top}`, step)
  return step
}

/**
 * Refuses numbers and moments that no training leaves: by Cauchy–Schwarz m² ≤ 53 v for Adam's usual decays, whatever the
 * gradients were; a step by others could be of any length.
 */
function checkLearned(from: Unpacker, numbers: Float32Array, count: number): void {
  for (let k = 0; k < count; k++) {
    const [number, first, second] = [numbers[k], numbers[count + k], numbers[2 * count + k]]
    if (!(Math.abs(number) <= LARGEST)) throw from.damaged(`numbers up to ${LARGEST}`, number)
    if (!(second >= 0 && first * first <= 64 * second + 1e-20))
      throw from.damaged("moments of gradients", [first, second])
  }
}
