/**
 * The items of a reader, packed so that all of them are scored at memory speed.
 *
 *   ⟨x, q̂_i⟩ = Σ_{k<size} x_k·(q_k − ε_k(i)) + Σ_k x_k·ε_k(i)
 *
 * The second sum depends on i only by where ε(i) starts, one of a few thousand places: it is computed for every place at
 * once. For the first, the differences stand in kernel memory by size, in chunks of equal length, column after column, so
 * that a chunk is one product. A score is then three numbers added: no branch, and a small row costs little. The differences
 * have the bits of the item's row: those of 8 and 16 are multiplied as whole numbers, by x rounded to 16 bits. So is ε where
 * there are too few items for every place to be worth it.
 */

import { Columns, enlarged, growable } from "../../ids/columns.ts"
import { type Address, type Floats, type Kernels, NONE } from "../../kernels/kernels.ts"
import { type Bits, toCodes } from "../row-packing.ts"
import { NOISE_PLACES, type RowModel } from "./rows.ts"

/** Numbers of a chunk: 64 KB. A size holds less than one chunk beyond its items. */
const CHUNK = 16_384

/** The largest vector that is multiplied in 8 bits; whole numbers of 32 have no room for the products of more. */
const MOST_BYTES = 512
/** Items of which each gets its own part of ε; of more, all places of ε are cheaper. */
const FEW_ITEMS = NOISE_PLACES / 2
/** Of a number of x. */
const X_END = 32_767
/** Of a number of ε, and of x beside it: as many products as there are in a lane of 128 numbers have room in 32 bits. */
const LIFT_END = { noise: 4000, x: 16_383, columns: 128 }
/** The header of an item's numbers: its index and its bias. */
const HEAD = 2

/** Items of one rung. */
interface Group {
  size: number
  bits: Bits
  /** Words an item takes: a number each, or a scale and its numbers, several in one. */
  words: number
  slotsPerChunk: number
  chunks: Address[]
  count: number
}

/** Where a slot's first word stands, the index of its item; the next is `slotsPerChunk` further on. */
function addressOf({ chunks, slotsPerChunk }: Group, slot: number): Address {
  return chunks[Math.floor(slot / slotsPerChunk)] + (slot % slotsPerChunk)
}

/** How an item of a rung is kept. */
function formOf(model: RowModel, step: number): { size: number; bits: Bits; words: number } {
  const size = model.sizes[step]
  const bits = model.bits[step] === 8 && size > MOST_BYTES ? 16 : model.bits[step]
  return { size, bits, words: bits === 32 ? size : size === 0 ? 0 : 1 + Math.ceil((size * bits) / 32) }
}

/** Bytes of the numbers of an item of a rung. */
export function packedBytes(model: RowModel, step: number): number {
  return 4 * formOf(model, step).words
}

/** A row of the model. */
export interface ItemRow {
  step: number
  numbers: Floats
  at: number
}

export class PackedItems {
  readonly #model: RowModel
  readonly #kernels: Kernels
  readonly #noise: Address
  /** ε as whole numbers, and what one counts. */
  readonly #noiseCodes: Address
  readonly #noiseStep: number
  readonly #groups: Group[]
  /** Chunks of no size. */
  readonly #free: Address[] = []
  /** By item: 1 + step, 0 where it is not here, and the slot among the items of that size. */
  readonly #ids = new Columns({ step: "u8", slot: "u32" })
  /** By item: its biases, where there are several. */
  #bias = growable("f32")
  /** Items here in order, as far as they are known. */
  #items = growable("i32")
  #count = 0
  #isCounted = true
  /** Logits, and the largest of every 16: made once, since they are asked for at every list. */
  #scores = new Float32Array(0)
  #maxima = new Float32Array(0)
  /** A vector, and its whole numbers. */
  readonly #difference: Float64Array
  readonly #codes: Int32Array
  /** Kernel memory as whole numbers. */
  #ints: Int32Array = new Int32Array(0)
  #halves: Int16Array = new Int16Array(0)
  #bytes: Int8Array = new Int8Array(0)

  constructor(model: RowModel, kernels: Kernels) {
    this.#model = model
    this.#kernels = kernels
    const { numbers } = model.noise
    this.#noise = kernels.allocate(numbers.length)
    kernels.floats.set(numbers, this.#noise)
    // Whole vectors are read past the end.
    this.#noiseCodes = kernels.allocate(numbers.length / 2 + 16)
    const most = numbers.reduce((all, number) => Math.max(all, Math.abs(number)), 1e-30)
    this.#noiseStep = most / LIFT_END.noise
    this.#look()
    for (let k = 0; k < numbers.length; k++)
      this.#halves[2 * this.#noiseCodes + k] = Math.round(numbers[k] / this.#noiseStep)
    this.#groups = model.sizes.map((_, step) => {
      const { size, bits, words } = formOf(model, step)
      // Whole cache lines.
      const slotsPerChunk = Math.max(16, Math.floor(CHUNK / (HEAD + words) / 16) * 16)
      return { size, bits, words, slotsPerChunk, chunks: [], count: 0 }
    })
    const top = Math.max(...model.sizes)
    this.#difference = new Float64Array(top)
    this.#codes = new Int32Array(top)
  }

  has(item: number): boolean {
    return this.#ids.at.step[item] > 0
  }

  /** All items here, in order: a view until one enters or leaves. */
  get items(): Int32Array {
    if (!this.#isCounted) this.#listItems()
    return this.#items.subarray(0, this.#count)
  }

  #listItems(): void {
    const { length, at } = this.#ids
    let count = 0
    this.#items = enlarged(this.#items, length)
    for (let item = 0; item < length; item++) if (at.step[item] > 0) this.#items[count++] = item
    this.#count = count
    this.#isCounted = true
  }

  get bytes(): number {
    const packed = this.#groups.reduce((sum, { chunks }) => sum + 4 * chunks.length * CHUNK, 0)
    const { outputs } = this.#model
    return packed + (this.#ids.width + (outputs > 1 ? 4 * outputs : 0) + 4) * this.#ids.length
  }

  /** Looks at kernel memory, which may have moved. */
  #look(): void {
    const { buffer } = this.#kernels.floats
    if (this.#ints.buffer === buffer && this.#ints.byteLength === buffer.byteLength) return
    this.#ints = new Int32Array(buffer)
    this.#halves = new Int16Array(buffer)
    this.#bytes = new Int8Array(buffer)
  }

  /** Takes over an item's row as it is now; undefined where it is gone. */
  set(item: number, row: ItemRow | undefined): void {
    this.#ids.reserve(item)
    const { outputs } = this.#model
    if (outputs > 1) this.#bias = enlarged(this.#bias, (item + 1) * outputs)
    const step = row ? row.step + 1 : 0
    if (step !== this.#ids.at.step[item]) {
      this.#leave(item)
      if (row) this.#enter(item, row.step)
      this.#isCounted = false
    }
    if (row) this.#write(item, row)
  }

  #enter(item: number, step: number): void {
    const group = this.#groups[step]
    const { chunks, slotsPerChunk, words } = group
    if (group.count === chunks.length * slotsPerChunk)
      chunks.push(this.#free.pop() ?? this.#kernels.allocate(Math.max(CHUNK, 16 * (HEAD + words))))
    this.#ids.at.step[item] = step + 1
    this.#ids.at.slot[item] = group.count
    this.#look()
    this.#ints[addressOf(group, group.count++)] = item
  }

  /** The last of its size moves into the hole. */
  #leave(item: number): void {
    const { step: steps, slot: slots } = this.#ids.at
    if (steps[item] === 0) return
    const group = this.#groups[steps[item] - 1]
    const { chunks, slotsPerChunk, words } = group
    this.#look()
    const [from, to] = [addressOf(group, --group.count), addressOf(group, slots[item])]
    const last = this.#ints[from]
    steps[item] = 0
    if (last !== item) {
      for (let k = 0; k < HEAD + words; k++) this.#ints[to + k * slotsPerChunk] = this.#ints[from + k * slotsPerChunk]
      slots[last] = slots[item]
    }
    if (group.count <= (chunks.length - 1) * slotsPerChunk) this.#free.push(chunks.pop() as Address)
  }

  #write(item: number, { step, numbers, at }: ItemRow): void {
    const { outputs, heads, noise, fade } = this.#model
    const group = this.#groups[step]
    const { slotsPerChunk, size } = group
    const f = this.#kernels.floats
    const first = addressOf(group, this.#ids.at.slot[item])
    if (outputs === 1) f[first + slotsPerChunk] = numbers[at]
    else for (let c = 0; c < outputs; c++) this.#bias[item * outputs + c] = numbers[at + c]
    const to = first + HEAD * slotsPerChunk
    const from = at + heads.item
    const tail = noise.tail(item)
    if (group.bits === 32) {
      for (let k = 0; k < size; k++) f[to + k * slotsPerChunk] = numbers[from + k] - fade[k] * noise.numbers[tail + k]
      return
    }
    const { bits } = group
    for (let k = 0; k < size; k++)
      this.#difference[k] = numbers[from + k] - Math.fround(fade[k] * noise.numbers[tail + k])
    this.#look()
    for (let w = 1; w < group.words; w++) this.#ints[to + w * slotsPerChunk] = 0
    if (size > 0) f[to] = toCodes(this.#codes, this.#difference, { size, bits })
    for (let k = 0; k < size; k++) this.#setCode(group, to, k)
  }

  /** Where number k stands, in numbers of its bits. */
  #codeAt({ bits, slotsPerChunk }: Group, from: Address, k: number): number {
    const perWord = 32 / bits
    return (from + (1 + Math.floor(k / perWord)) * slotsPerChunk) * perWord + (k % perWord)
  }

  #setCode(group: Group, to: Address, k: number): void {
    const at = this.#codeAt(group, to, k)
    if (group.bits === 8) this.#bytes[at] = this.#codes[k]
    else this.#halves[at] = this.#codes[k]
  }

  /** Writes q of an item; returns how many numbers it has. */
  readVector(item: number, q: Float64Array): number {
    const { noise, fade } = this.#model
    const group = this.#groups[this.#ids.at.step[item] - 1]
    const from = addressOf(group, this.#ids.at.slot[item]) + HEAD * group.slotsPerChunk
    const f = this.#kernels.floats
    const tail = noise.tail(item)
    this.#look()
    for (let k = 0; k < group.size; k++) {
      const at = group.bits === 32 ? from + k * group.slotsPerChunk : this.#codeAt(group, from, k)
      const difference = group.bits === 32 ? f[at] : f[from] * (group.bits === 8 ? this.#bytes[at] : this.#halves[at])
      q[k] = difference + fade[k] * noise.numbers[tail + k]
    }
    return group.size
  }

  /** All items here are below. */
  get reach(): number {
    return this.#ids.length
  }

  /**
   * Logits [items×outputs] of a user of the model and all items here, a view until the next call; `x`: what the model
   * combines for it, `add`: adds more to those of one output, which stand by item.
   */
  scores(user: number, x: Floats = this.#model.combined(user), add?: (to: Address) => void): Float32Array {
    const { outputs, slopes } = this.#model
    const { items } = this
    const k = this.#kernels
    const mark = k.mark()
    const base = this.#model.baseOf(user)
    const { alone } = k
    // Waking another thread costs more than it saves.
    k.alone = true
    let at = NONE
    try {
      at = this.#scoreAll(x, outputs === 1 ? base[0] : 0)
      add?.(at)
    } finally {
      k.alone = alone
      // What stands there stays until others take memory.
      k.release(mark)
    }
    const f = k.floats as Float32Array
    const length = items.length * outputs
    if (this.#scores.length < length) this.#scores = new Float32Array(length + (length >> 2))
    const out = this.#scores.subarray(0, length)
    const isDense = items.length === this.#ids.length
    if (outputs === 1 && isDense) out.set(f.subarray(at, at + items.length))
    else if (outputs === 1) for (let i = 0; i < items.length; i++) out[i] = f[at + items[i]]
    else
      for (let i = 0; i < items.length; i++)
        for (let c = 0; c < outputs; c++)
          out[i * outputs + c] = base[c] + this.#bias[items[i] * outputs + c] + slopes[c] * f[at + items[i]]
    return out
  }

  /** Of logits, the largest of all and of every 16, and Σ e^(logit − the largest): a view until the next call. */
  sumPowers(logits: Float32Array): { top: number; sum: number; maxima: Float32Array } {
    const k = this.#kernels
    const { length } = logits
    const blocks = Math.ceil(length / 16)
    const mark = k.mark()
    const [out, maxima, input] = [2, blocks, length].map((count) => k.allocate(count))
    k.floats.set(logits, input)
    k.sumPowers({ out, maxima, input, count: length })
    k.run()
    const f = k.floats as Float32Array
    if (this.#maxima.length < blocks) this.#maxima = new Float32Array(2 * blocks)
    this.#maxima.set(f.subarray(maxima, maxima + blocks))
    const powers = { top: f[out], sum: f[out + 1], maxima: this.#maxima }
    k.release(mark)
    return powers
  }

  /** Writes scores by item, but for those that are not here; returns where. */
  #scoreAll(x: Floats, base: number): Address {
    const k = this.#kernels
    const { fade } = this.#model
    const groups = this.#groups.filter(({ count }) => count > 0)
    const [floats, faded, codes, liftCodes] = [0, 0, 16, 16].map((more) => k.allocate(x.length + more))
    const out = k.allocate(this.#ids.length)
    const isFew = this.#count <= FEW_ITEMS && groups.every(({ bits }) => bits < 32)
    const sums = isFew ? NONE : k.allocate(NOISE_PLACES)
    const tables = groups.map(({ chunks }) => k.allocate(chunks.length))
    const f = k.floats
    for (let n = 0; n < x.length; n++) {
      f[floats + n] = x[n]
      f[faded + n] = x[n] * fade[n]
    }
    if (!isFew) k.correlate({ out: sums, input: this.#noise, weight: faded, count: NOISE_PLACES, columns: x.length })
    const factor = this.#writeCodes(codes, x, X_END)
    const end = (LIFT_END.x * LIFT_END.columns) / Math.max(LIFT_END.columns, x.length)
    const step = this.#writeCodes(liftCodes, f.subarray(faded, faded + x.length), end)
    const lift = { x: liftCodes, noise: this.#noiseCodes, columns: x.length, factor: step * this.#noiseStep }
    groups.forEach(({ chunks, slotsPerChunk: slots, size, bits, count }, g) => {
      k.ints.set(chunks, tables[g])
      const [columns, vector] = [Math.min(size, x.length), bits === 32 ? floats : codes]
      k.scoreChunks({ out, chunks: tables[g], slots, count, bits, columns, x: vector, factor, base, sums, lift })
    })
    k.run()
    return out
  }

  /** Writes x as whole numbers of 16 bits, zeros behind; returns what they count. */
  #writeCodes(to: Address, x: Floats, end: number): number {
    this.#look()
    let most = 0
    for (let n = 0; n < x.length; n++) most = Math.max(most, Math.abs(x[n]))
    const steps = most === 0 ? 0 : end / most
    this.#halves.fill(0, 2 * to, 2 * to + x.length + 16)
    for (let n = 0; n < x.length; n++) this.#halves[2 * to + n] = Math.floor(x[n] * steps + 0.5)
    return most / end
  }
}
