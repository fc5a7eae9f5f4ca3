/**
 * The items of a reader, packed so that all of them are scored at memory speed.
 *
 *   ⟨x, q̂_i⟩ = Σ_{k<size} x_k·(q_k − ε_k(i)) + Σ_k x_k·ε_k(i)
 *
 * The second sum depends on i only by where ε(i) starts, one of a few thousand places: it is computed for every place at
 * once. For the first, the differences stand in kernel memory by size, in chunks of equal length, column after column, so
 * that a chunk is one product. A score is then three numbers added: no branch, and a small row costs little.
 */

import { grown, nextCapacity } from "../context/growth.ts"
import type { Address, Kernels } from "../kernels/kernels.ts"
import { NOISE_PLACES, type RowModel } from "../models/rows.ts"

/** Numbers of a chunk: 64 KB. A size holds less than one chunk beyond its items. */
const CHUNK = 16_384
const ABSENT = 255

/** Items of one size. */
interface Group {
  size: number
  /** Items a chunk has room for. */
  room: number
  chunks: Address[]
  /** Whose a slot is. */
  owners: number[]
}

/** Where a slot's first number stands; the next is `room` further on. */
function addressOf({ chunks, room }: Group, slot: number): Address {
  return chunks[Math.floor(slot / room)] + (slot % room)
}

export class PackedItems {
  readonly #model: RowModel
  readonly #kernels: Kernels
  readonly #noise: Address
  readonly #groups: Group[]
  /** Chunks of no size. */
  readonly #free: Address[] = []
  /** By item: step, slot among the items of that size, biases. */
  #step = new Uint8Array(0)
  #slot = new Int32Array(0)
  #bias = new Float32Array(0)

  constructor(model: RowModel, kernels: Kernels) {
    this.#model = model
    this.#kernels = kernels
    const { numbers } = model.noise
    this.#noise = kernels.allocate(numbers.length)
    kernels.floats.set(numbers, this.#noise)
    this.#groups = model.sizes.map((size) => {
      // Whole cache lines.
      const room = Math.max(16, Math.floor(CHUNK / Math.max(1, size) / 16) * 16)
      return { size, room, chunks: [], owners: [] }
    })
  }

  /** Takes over the rows of items as the model has them now. */
  update(items: ArrayLike<number>): void {
    const { item: table } = this.#model.tables
    for (let i = 0; i < items.length; i++) {
      const item = items[i]
      this.#reserve(item)
      const step = table.has(item) ? table.step(item) : ABSENT
      if (step !== this.#step[item]) {
        this.#leave(item)
        if (step !== ABSENT) this.#enter(item, step)
      }
      if (step !== ABSENT) this.#write(item, step)
    }
  }

  #reserve(item: number): void {
    const held = this.#step.length
    if (item < held) return
    const capacity = nextCapacity(held, item + 1)
    this.#step = grown(this.#step, capacity).fill(ABSENT, held)
    this.#slot = grown(this.#slot, capacity)
    this.#bias = grown(this.#bias, capacity * this.#model.outputs)
  }

  #enter(item: number, step: number): void {
    const { chunks, owners, room, size } = this.#groups[step]
    if (owners.length === chunks.length * room)
      chunks.push(this.#free.pop() ?? this.#kernels.allocate(Math.max(CHUNK, 16 * size)))
    this.#step[item] = step
    this.#slot[item] = owners.length
    owners.push(item)
  }

  /** The last of its size moves into the hole. */
  #leave(item: number): void {
    if (this.#step[item] === ABSENT) return
    const step = this.#step[item]
    const group = this.#groups[step]
    const { chunks, owners, room, size } = group
    const last = owners.pop() as number
    this.#step[item] = ABSENT
    if (last !== item) {
      const slot = this.#slot[item]
      const [from, to] = [addressOf(group, owners.length), addressOf(group, slot)]
      const f = this.#kernels.floats
      for (let k = 0; k < size; k++) f[to + k * room] = f[from + k * room]
      this.#slot[last] = slot
      owners[slot] = last
    }
    if (owners.length <= (chunks.length - 1) * room) this.#free.push(chunks.pop() as Address)
  }

  #write(item: number, step: number): void {
    const { outputs, heads, noise, fade, tables } = this.#model
    const { room, size } = this.#groups[step]
    const row = tables.item.numbersOf(item)
    const from = tables.item.placeOf(item)
    for (let c = 0; c < outputs; c++) this.#bias[item * outputs + c] = row[from + c]
    const f = this.#kernels.floats
    const to = addressOf(this.#groups[step], this.#slot[item])
    const tail = noise.tail(item)
    for (let k = 0; k < size; k++) f[to + k * room] = row[from + heads.item + k] - fade[k] * noise.numbers[tail + k]
  }

  /** Logits [items×outputs] of a user and items; NaN for an item that is not here. */
  scores(user: number, items: Int32Array): Float32Array {
    const { outputs, slopes, noise } = this.#model
    const k = this.#kernels
    const mark = k.mark()
    const [place, products] = this.#multiply(user)
    const f = k.floats
    const base = this.#model.baseOf(user)
    const [steps, slots, bias] = [this.#step, this.#slot, this.#bias]
    const out = new Float32Array(items.length * outputs)
    for (let i = 0; i < items.length; i++) {
      const item = items[i]
      const product = f[place + noise.tail(item)] + f[products[steps[item]] + slots[item]]
      if (outputs === 1) out[i] = base[0] + bias[item] + product
      else
        for (let c = 0; c < outputs; c++)
          out[i * outputs + c] = base[c] + bias[item * outputs + c] + slopes[c] * product
    }
    k.release(mark)
    return out
  }

  /** Where the second sums stand, by place in ε, and the first, by slot, for each step. */
  #multiply(user: number): [Address, Int32Array] {
    const k = this.#kernels
    const x = this.#model.combined(user)
    const { fade } = this.#model
    const [left, faded] = [k.allocate(x.length), k.allocate(x.length)]
    const place = k.allocate(NOISE_PLACES)
    const products = Int32Array.from(this.#groups, ({ chunks, room }) => k.allocate(chunks.length * room))
    const f = k.floats
    for (let n = 0; n < x.length; n++) {
      f[left + n] = x[n]
      f[faded + n] = x[n] * fade[n]
    }
    k.correlate({ out: place, input: this.#noise, weight: faded, count: NOISE_PLACES, columns: x.length })
    this.#groups.forEach(({ chunks, room, size }, step) => {
      const inner = Math.min(size, x.length)
      chunks.forEach((right, n) => {
        k.multiply({ out: products[step] + n * room, left, right, rows: 1, columns: room, inner })
      })
    })
    const { alone } = k
    // Waking another thread costs more than it saves.
    k.alone = true
    k.run()
    k.alone = alone
    return [place, products]
  }
}
