/**
 * Outside ids to dense indices and back. Names lie one after the other in one array of bytes, found by an open-addressing
 * table of indices. An index whose owner left is given to another id once it is recycled. Changes can be taken back until
 * they are settled, in order.
 */

import { randomInt } from "node:crypto"
import { grown, nextCapacity } from "../context/growth.ts"
import type { State } from "../kernels/state.ts"

/** A name in UTF-8 has at most so many bytes. */
const LONGEST = 4 * 512
/** The table is kept at most this full. */
const FULLEST = 0.7
const encoder = new TextEncoder()

export class Names {
  #bytes = new Uint8Array(1024)
  /** Bytes in use, and of them those of names that are gone. */
  #end = 0
  #wasted = 0
  #start = new Uint32Array(64)
  /** By index: bytes of the name; 0 where there is none. */
  #length = new Uint16Array(64)
  /** Indices there have been. */
  #count = 0
  /** Of index + 1, 0 where nothing is, by hash of the name. */
  #table = new Uint32Array(128)
  #size = 0
  #free: number[] = []
  /** By index: 1 where there is no name. */
  nameless = new Uint8Array(64).fill(1)
  /** Unsettled changes: what the index was called before. */
  readonly #undo: { index: number; before: string | undefined }[] = []
  /** A name on its way into the array or the table. */
  readonly #scratch = new Uint8Array(LONGEST)

  get size(): number {
    return this.#size
  }

  /** Bytes held. */
  get heldBytes(): number {
    const { byteLength } = this.#bytes
    return byteLength + 7 * this.#start.length + this.#table.byteLength + 8 * this.#free.length
  }

  /** Writes a name to the scratch in UTF-8; returns its bytes. */
  #encode(name: string): number {
    const scratch = this.#scratch
    for (let c = 0; c < name.length; c++) {
      const code = name.charCodeAt(c)
      if (code > 0x7f) return encoder.encodeInto(name, scratch).written
      scratch[c] = code
    }
    return name.length
  }

  /** The place of the scratch's name in the table, or the empty one where it would stand. */
  #slotOfScratch(length: number): number {
    const mask = this.#table.length - 1
    for (let slot = hash(this.#scratch, 0, length) & mask; ; slot = (slot + 1) & mask) {
      const index = this.#table[slot] - 1
      if (index < 0 || this.#isScratch(index, length)) return slot
    }
  }

  #isScratch(index: number, length: number): boolean {
    if (this.#length[index] !== length) return false
    const [bytes, scratch, start] = [this.#bytes, this.#scratch, this.#start[index]]
    for (let b = 0; b < length; b++) if (bytes[start + b] !== scratch[b]) return false
    return true
  }

  /** Where the search for an index's name begins. */
  #home(index: number): number {
    return hash(this.#bytes, this.#start[index], this.#length[index]) & (this.#table.length - 1)
  }

  find(name: string): number | undefined {
    const index = this.#table[this.#slotOfScratch(this.#encode(name))] - 1
    return index < 0 ? undefined : index
  }

  name(index: number): string | undefined {
    const length = index < this.#count ? this.#length[index] : 0
    if (length === 0) return undefined
    const start = this.#start[index]
    return Buffer.from(this.#bytes.buffer, start, length).toString()
  }

  /** The index of a name that has none. */
  add(name: string): number {
    const index = this.#free.pop() ?? this.#count
    this.#undo.push({ index, before: undefined })
    this.#put(index, name)
    return index
  }

  /** Gives an index a name, settled at once. */
  set(index: number, name: string): void {
    if (this.name(index) !== undefined) this.#take(index)
    this.#put(index, name)
  }

  #put(index: number, name: string): void {
    this.#know(index)
    const length = this.#encode(name)
    if (this.#end + length > this.#bytes.length) this.#makeRoom(length)
    if (this.#size + 1 > FULLEST * this.#table.length) this.#rehash(2 * this.#table.length)
    this.#table[this.#slotOfScratch(length)] = index + 1
    this.#bytes.set(this.#scratch.subarray(0, length), this.#end)
    this.#start[index] = this.#end
    this.#length[index] = length
    this.#end += length
    this.#size++
    this.nameless[index] = 0
  }

  /** Notes that there has been an index. */
  #know(index: number): void {
    this.#reserve(index)
    this.#count = Math.max(this.#count, index + 1)
  }

  #reserve(index: number): void {
    const held = this.#start.length
    if (index < held) return
    const capacity = nextCapacity(held, index + 1)
    this.#start = grown(this.#start, capacity)
    this.#length = grown(this.#length, capacity)
    this.nameless = grown(this.nameless, capacity).fill(1, held)
  }

  /** Moves names together where many are gone, else takes a larger array. */
  #makeRoom(count: number): void {
    const needed = this.#end - this.#wasted + count
    const bytes = new Uint8Array(nextCapacity(Math.max(1024, needed - 1), Math.ceil(1.25 * needed)))
    let end = 0
    for (let index = 0; index < this.#count; index++) {
      const [start, length] = [this.#start[index], this.#length[index]]
      if (length === 0) continue
      bytes.set(this.#bytes.subarray(start, start + length), end)
      this.#start[index] = end
      end += length
    }
    this.#bytes = bytes
    this.#end = end
    this.#wasted = 0
  }

  #rehash(slots: number): void {
    this.#table = new Uint32Array(slots)
    for (let index = 0; index < this.#count; index++) {
      if (this.#length[index] === 0) continue
      let slot = this.#home(index)
      while (this.#table[slot] !== 0) slot = (slot + 1) & (slots - 1)
      this.#table[slot] = index + 1
    }
  }

  /** Takes a name away; the index is not given out again before `recycle`. */
  remove(index: number): void {
    const before = this.name(index)
    if (before === undefined) return
    this.#undo.push({ index, before })
    this.#take(index)
  }

  /** The same, settled at once. */
  drop(index: number): void {
    if (this.name(index) !== undefined) this.#take(index)
  }

  #take(index: number): void {
    const start = this.#start[index]
    const mask = this.#table.length - 1
    let hole = this.#home(index)
    while (this.#table[hole] !== index + 1) hole = (hole + 1) & mask
    this.#wasted += this.#length[index]
    // Overwritten: a copy of the array tells of nobody who is gone.
    this.#bytes.fill(0, start, start + this.#length[index])
    this.#length[index] = 0
    this.nameless[index] = 1
    this.#size--
    // Those that stand behind it because it was there move up.
    for (let slot = (hole + 1) & mask; this.#table[slot] !== 0; slot = (slot + 1) & mask) {
      const other = this.#table[slot] - 1
      if (((slot - this.#home(other)) & mask) < ((slot - hole) & mask)) continue
      this.#table[hole] = other + 1
      hole = slot
    }
    this.#table[hole] = 0
  }

  /** Changes that are not settled. */
  get unsettled(): number {
    return this.#undo.length
  }

  /** The oldest so many changes are there to stay. */
  settle(count: number): void {
    this.#undo.splice(0, count)
  }

  /** Takes back what is not settled. */
  rollback(): void {
    for (const { index, before } of this.#undo.reverse())
      if (before !== undefined) this.#put(index, before)
      else {
        this.#take(index)
        this.#free.push(index)
      }
    this.#undo.length = 0
  }

  recycle(index: number): void {
    this.#free.push(index)
  }

  /** After names were set: every index without one may be given out, but for some. */
  recycleAll(but: ReadonlySet<number>): void {
    this.#free = []
    for (const index of but) this.#know(index)
    for (let index = this.#count - 1; index >= 0; index--)
      if (this.#length[index] === 0 && !but.has(index)) this.#free.push(index)
  }

  /** Indices there have been, named or not. */
  get count(): number {
    return this.#count
  }

  /** Names by index from a place on. */
  list(offset: number, count: number): string[] {
    const found: string[] = []
    let skip = offset
    for (let index = 0; index < this.#count && found.length < count; index++) {
      if (this.#length[index] === 0 || skip-- > 0) continue
      found.push(this.name(index) as string)
    }
    return found
  }

  /** Without changes that are not settled: they may be taken back. */
  save(state: State): void {
    if (this.#undo.length > 0) {
      this.#settled().save(state)
      return
    }
    if (this.#wasted > this.#end / 4) this.#makeRoom(0)
    state.put("bytes", this.#bytes.subarray(0, this.#end))
    state.put("starts", this.#start.subarray(0, this.#count))
    state.put("lengths", Uint32Array.from(this.#length.subarray(0, this.#count)))
  }

  /** The same names but for changes that are not settled. */
  #settled(): Names {
    const before = new Map<number, string | undefined>()
    for (const change of this.#undo.toReversed()) before.set(change.index, change.before)
    const settled = new Names()
    for (let index = 0; index < this.#count; index++) {
      const name = before.has(index) ? before.get(index) : this.name(index)
      if (name !== undefined) settled.#put(index, name)
    }
    settled.#know(this.#count - 1)
    return settled
  }

  load(state: State): void {
    const bytes = state.take("bytes", Uint8Array)
    const starts = state.take("starts", Uint32Array)
    const lengths = state.take("lengths", Uint32Array)
    this.#bytes = bytes.slice()
    this.#end = bytes.length
    this.#wasted = bytes.length - lengths.reduce((sum, length) => sum + length, 0)
    this.#count = starts.length
    this.#reserve(Math.max(0, starts.length - 1))
    this.#start.set(starts)
    this.#length.set(lengths)
    this.#size = 0
    lengths.forEach((length, index) => {
      this.nameless[index] = length === 0 ? 1 : 0
      if (length > 0) this.#size++
    })
    let slots = 128
    while (this.#size + 1 > FULLEST * slots) slots *= 2
    this.#rehash(slots)
  }
}

/** Others in every process: nobody can choose names that all fall into one place. */
const [BASIS, FACTOR] = [randomInt(2 ** 32), randomInt(2 ** 31) * 2 + 1]

/** FNV-1a with a basis and factor of its own, and the bits mixed once more: the table takes the lowest. */
function hash(bytes: Uint8Array, start: number, length: number): number {
  let value = BASIS
  for (let b = start; b < start + length; b++) value = Math.imul(value ^ bytes[b], FACTOR)
  value ^= value >>> 15
  value = Math.imul(value, 0x2c1b3c6d)
  return (value ^ (value >>> 12)) >>> 0
}
