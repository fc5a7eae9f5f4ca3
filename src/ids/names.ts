/**
 * Outside ids to dense indices and back.
 *
 *   slab    one entry after the other: length of the name in UTF-8 (one byte, two from 128 on), then its bytes
 *   start   by index: where its entry is, 0 where it has no name
 *   table   open addressing by hash: index + 1 in the low bits, a tag of the hash above, 0 where nothing is
 *
 * An entry does not say whose it is: its own name, looked up, does. So the slab is packed in place, in order of address.
 * The home of a name in the table is its hash in proportion, so the table grows in place, too, from its end to its start.
 *
 * An index whose owner left is given to another id once it is recycled. Changes can be taken back until they are settled,
 * in order.
 */

import { randomInt } from "node:crypto"
import type { State } from "../kernels/state.ts"
import { Columns, enlarged, growable } from "./columns.ts"

/** A name in UTF-8 has at most this many bytes. */
const LONGEST = 4 * 512
/** The table is kept at most this full, and grows by this factor: 5.8 bytes a name on average, 7.1 at most. */
const FULLEST = 0.85
const GROWTH = 1.5
const FIRST_SLOTS = 64
/** Addresses reserved for the slab, in bytes. */
const RESERVED = 1_073_741_824
/** Bytes of an index beside its name: 4 of its start, 6 of the table. */
const INDEX_BYTES = 10
/** The slab is packed when more than an eighth of it, and this many bytes, belong to removed names. */
const LEAST_WASTE = 4096
/** The first byte of a removed name; UTF-8 has no such byte. */
const GONE = 0xff
const encoder = new TextEncoder()

export class Names {
  #slab = growable("u8", 1024, RESERVED)
  /** The same memory, to make texts from. */
  #text = Buffer.from(this.#slab.buffer, 0, this.#slab.length)
  /** Behind the last entry; the first is at 1. */
  #end = 1
  /** Bytes of removed entries. */
  #wasted = 0
  #ids = new Columns({ start: "u32" })
  /** Homes, and what had to stand behind the last of them; the last cell is 0. */
  #table = growable("u32", 2 * FIRST_SLOTS)
  #slots = FIRST_SLOTS
  /** Low bits of a cell, which hold the index. */
  #bits = 8
  #size = 0
  #free: number[] = []
  /** Changes: an index that was named, or −1 − an index whose name was taken away. Those before `#settled` stay. */
  readonly #changes: number[] = []
  #settled = 0
  /** Indices there have been but for changes that are not settled. */
  #known = 0
  /** By change: the name that was taken away, and how many of those are not settled. */
  readonly #removed: (string | undefined)[] = []
  #removals = 0
  /** A name on its way into the slab or the table, and its hash. */
  readonly #scratch = new Uint8Array(LONGEST)
  #hash = 0

  get size(): number {
    return this.#size
  }

  /** Indices there have been, named or not. */
  get count(): number {
    return this.#ids.length
  }

  /** Bytes needed: a function of the names and the indices alone. */
  get bytes(): number {
    return this.#end - 1 - this.#wasted + INDEX_BYTES * this.count
  }

  /** Bytes written to. */
  get heldBytes(): number {
    return this.#end + 4 * (this.count + this.#slots) + 8 * this.#free.length
  }

  /** Writes a name to the scratch in UTF-8, with its hash; returns its bytes. */
  #encode(name: string): number {
    const scratch = this.#scratch
    const { length } = name
    let value = BASIS
    for (let c = 0; c < length; c++) {
      const code = name.charCodeAt(c)
      if (code > 0x7f) return this.#encodeAny(name)
      scratch[c] = code
      value = Math.imul(value ^ code, FACTOR)
    }
    this.#hash = mixed(value)
    return length
  }

  #encodeAny(name: string): number {
    const { written } = encoder.encodeInto(name, this.#scratch)
    this.#hash = hash(this.#scratch, 0, written)
    return written
  }

  /** The first cell where a name of that hash may stand. */
  #home(hashed: number): number {
    return Math.floor((hashed / 4_294_967_296) * this.#slots)
  }

  /** What the table holds for an index. */
  #cell(index: number, hashed: number): number {
    return ((hashed << this.#bits) | (index + 1)) >>> 0
  }

  /** The place of the scratch's name in the table, or the empty one where it would stand. */
  #slotOfScratch(length: number): number {
    const [table, bits] = [this.#table, this.#bits]
    const tag = (this.#hash << bits) >>> bits
    const mask = (1 << bits) - 1
    for (let slot = this.#home(this.#hash); ; slot++) {
      const cell = table[slot]
      if (cell === 0 || (cell >>> bits === tag && this.#isScratch((cell & mask) - 1, length))) return slot
    }
  }

  #isScratch(index: number, length: number): boolean {
    const [slab, scratch] = [this.#slab, this.#scratch]
    const start = this.#ids.at.start[index]
    if (lengthAt(slab, start) !== length) return false
    const at = start + prefixBytes(length)
    for (let b = 0; b < length; b++) if (slab[at + b] !== scratch[b]) return false
    return true
  }

  find(name: string): number | undefined {
    const cell = this.#table[this.#slotOfScratch(this.#encode(name))]
    return cell === 0 ? undefined : (cell & ((1 << this.#bits) - 1)) - 1
  }

  has(index: number): boolean {
    return index < this.#ids.length && this.#ids.at.start[index] !== 0
  }

  name(index: number): string | undefined {
    return this.has(index) ? this.#read(this.#ids.at.start[index]) : undefined
  }

  /** Bytes of an index's name in UTF-8; 0 where it has none. */
  bytesOf(index: number): number {
    return this.has(index) ? lengthAt(this.#slab, this.#ids.at.start[index]) : 0
  }

  #read(start: number): string {
    const length = lengthAt(this.#slab, start)
    const at = start + prefixBytes(length)
    return this.#text.toString("utf8", at, at + length)
  }

  /** The index of a name that has none. */
  add(name: string): number {
    const index = this.#free.pop() ?? this.count
    this.#note(index)
    this.#put(index, name)
    return index
  }

  /** Gives an index a name, settled at once. */
  set(index: number, name: string): void {
    this.drop(index)
    this.#put(index, name)
    this.#know(index)
  }

  /** An index is there to stay. */
  #know(index: number): void {
    this.#ids.reserve(index)
    this.#known = Math.max(this.#known, index + 1)
  }

  #put(index: number, name: string): void {
    this.#ids.reserve(index)
    const length = this.#encode(name)
    if (this.#size + 1 > FULLEST * this.#slots) this.#rehash(Math.ceil(GROWTH * this.#slots))
    else if (index + 2 > 1 << this.#bits) this.#rehash(this.#slots)
    this.#enter(this.#cell(index, this.#hash), this.#slotOfScratch(length))
    this.#ids.at.start[index] = this.#end
    this.#append(length)
    this.#size++
  }

  /** Puts a cell into an empty slot. */
  #enter(cell: number, slot: number): void {
    if (slot + 2 > this.#table.length) this.#table = enlarged(this.#table, slot + 2)
    this.#table[slot] = cell
  }

  /** Puts the scratch's name behind the last entry. */
  #append(length: number): void {
    const at = this.#end + prefixBytes(length)
    if (at + length > this.#slab.length) {
      this.#slab = enlarged(this.#slab, at + length)
      this.#text = Buffer.from(this.#slab.buffer, 0, this.#slab.length)
    }
    const [slab, scratch] = [this.#slab, this.#scratch]
    writeLength(slab, this.#end, length)
    for (let b = 0; b < length; b++) slab[at + b] = scratch[b]
    this.#end = at + length
  }

  #hashAt(start: number): number {
    const length = lengthAt(this.#slab, start)
    return hash(this.#slab, start + prefixBytes(length), length)
  }

  /** The slot that holds an index. */
  #slotOf(index: number, hashed: number): number {
    const cell = this.#cell(index, hashed)
    let slot = this.#home(hashed)
    while (this.#table[slot] !== cell) slot++
    return slot
  }

  /**
   * Spreads the table over this many homes, no fewer than before. Cells without a gap between them move together, the last
   * first: no home comes to lie before where they stood, so nothing that is yet to move is in their way.
   */
  #rehash(slots: number): void {
    const mask = (1 << this.#bits) - 1
    let end = this.#table.length
    this.#slots = slots
    while (this.#ids.length + 1 > 1 << this.#bits) this.#bits++
    this.#table = enlarged(this.#table, slots + FIRST_SLOTS)
    const { start } = this.#ids.at
    const moving: number[] = []
    while (end-- > 0) {
      moving.length = 0
      for (; end >= 0 && this.#table[end] !== 0; end--) {
        moving.push((this.#table[end] & mask) - 1)
        this.#table[end] = 0
      }
      for (const index of moving) {
        const hashed = this.#hashAt(start[index])
        let slot = this.#home(hashed)
        while (this.#table[slot] !== 0) slot++
        this.#enter(this.#cell(index, hashed), slot)
      }
    }
  }

  /** Removes a name; its index is not reused before `recycle`. */
  remove(index: number): void {
    const before = this.name(index)
    if (before === undefined) return
    this.#note(-1 - index, before)
    this.#removals++
    this.#take(index)
  }

  #note(change: number, removed?: string): void {
    this.#changes.push(change)
    this.#removed.push(removed)
  }

  /** The name an index had before changes that are not settled. */
  settledName(index: number): string | undefined {
    if (this.#removals > 0)
      for (let c = this.#settled; c < this.#changes.length; c++)
        if (this.#changes[c] === -1 - index) return this.#removed[c]
    return this.name(index)
  }

  /** The same, settled at once. */
  drop(index: number): void {
    if (this.has(index)) this.#take(index)
  }

  #take(index: number): void {
    const { start } = this.#ids.at
    this.#leave(this.#slotOf(index, this.#hashAt(start[index])))
    this.#erase(start[index])
    start[index] = 0
    this.#size--
    if (this.#wasted > this.#end / 8 && this.#wasted > LEAST_WASTE) this.#pack()
  }

  /** Empties a slot. Those that stand behind it because it was taken move up. */
  #leave(slot: number): void {
    const [table, mask] = [this.#table, (1 << this.#bits) - 1]
    const { start } = this.#ids.at
    let hole = slot
    for (let at = slot + 1; table[at] !== 0; at++) {
      if (this.#home(this.#hashAt(start[(table[at] & mask) - 1])) > hole) continue
      table[hole] = table[at]
      hole = at
    }
    table[hole] = 0
  }

  /** Overwrites an entry, so that no name of a removed id stays in memory. */
  #erase(start: number): void {
    const length = lengthAt(this.#slab, start)
    const at = start + prefixBytes(length)
    this.#slab.fill(0, at, at + length)
    if (at + length === this.#end) {
      this.#slab.fill(0, start, at)
      this.#end = start
      return
    }
    this.#slab[at] = GONE
    this.#wasted += at + length - start
  }

  /** Moves the entries together. */
  #pack(): void {
    const slab = this.#slab
    let to = 1
    for (let from = 1, next = 1; from < this.#end; from = next) {
      const length = lengthAt(slab, from)
      const at = from + prefixBytes(length)
      next = at + length
      if (length === 0 || slab[at] === GONE) continue
      this.#ids.at.start[this.#ownerOf(from)] = to
      slab.copyWithin(to, from, next)
      to += next - from
    }
    slab.fill(0, to, this.#end)
    this.#end = to
    this.#wasted = 0
  }

  /** Whose entry it is. */
  #ownerOf(entry: number): number {
    const [table, mask] = [this.#table, (1 << this.#bits) - 1]
    const { start } = this.#ids.at
    for (let slot = this.#home(this.#hashAt(entry)); ; slot++) {
      const index = (table[slot] & mask) - 1
      if (start[index] === entry) return index
    }
  }

  /** Changes that are not settled. */
  get unsettled(): number {
    return this.#changes.length - this.#settled
  }

  /** The oldest this many changes are there to stay. */
  settle(count: number): void {
    const [changes, removed] = [this.#changes, this.#removed]
    const end = Math.min(this.#settled + count, changes.length)
    for (let c = this.#settled; c < end; c++)
      if (changes[c] >= 0) this.#know(changes[c])
      else {
        this.#removals--
        removed[c] = undefined
      }
    this.#settled = end
    if (2 * end < changes.length) return
    changes.copyWithin(0, end)
    removed.copyWithin(0, end)
    changes.length -= end
    removed.length -= end
    this.#settled = 0
  }

  /** Rolls back changes that are not settled. */
  rollback(): void {
    while (this.unsettled > 0) {
      const change = this.#changes.pop() as number
      const removed = this.#removed.pop()
      if (change < 0) {
        this.#put(-1 - change, removed as string)
        this.#removals--
        continue
      }
      this.#take(change)
      if (change >= this.#known && change === this.count - 1) this.#ids.length--
      else this.#free.push(change)
    }
  }

  recycle(index: number): void {
    this.#free.push(index)
  }

  /** After names were set: every index without one may be reused, except some. */
  recycleAll(but: ReadonlySet<number>): void {
    this.#free = []
    for (const index of but) this.#know(index)
    for (let index = this.count - 1; index >= 0; index--)
      if (!this.has(index) && !but.has(index)) this.#free.push(index)
  }

  /** Names by index from a place on, but for some. */
  list(offset: number, count: number, isOut: (index: number) => boolean = () => false): string[] {
    const found: string[] = []
    const { start } = this.#ids.at
    let skip = offset
    for (let index = 0; index < this.count && found.length < count; index++)
      if (start[index] !== 0 && !isOut(index) && skip-- <= 0) found.push(this.#read(start[index]))
    return found
  }

  /** Entries by index, of length 0 where there is no name; without changes that are not settled: they may be taken back. */
  save(state: State): void {
    const before = new Map<number, string | undefined>()
    for (let c = this.#changes.length - 1; c >= this.#settled; c--) {
      const change = this.#changes[c]
      if (change < 0) before.set(-1 - change, this.#removed[c])
      else before.set(change, undefined)
    }
    const count = this.#known
    const nameOf = (index: number) => (before.size > 0 && before.has(index) ? before.get(index) : null)
    // Both passes go over the same: what is written is made of what is here now.
    let length = 0
    for (let index = 0; index < count; index++) length += this.#entryBytes(index, nameOf(index))
    const pieces = function* (this: Names) {
      const entries = new Uint8Array(SLICE)
      let end = 0
      for (let index = 0; index < count; index++) {
        if (end + LONGEST_PREFIX + LONGEST > SLICE) {
          yield entries.subarray(0, end)
          end = 0
        }
        end += this.#writeEntry(entries, end, { index, name: nameOf(index) })
      }
      yield entries.subarray(0, end)
    }
    state.putSliced("entries", { kind: Uint8Array, length, pieces: pieces.bind(this) })
  }

  /** Bytes of an index's entry. `name`: another than the one it has; undefined for none. */
  #entryBytes(index: number, name: string | undefined | null): number {
    const start = name === null ? this.#ids.at.start[index] : 0
    const length = start > 0 ? lengthAt(this.#slab, start) : name ? this.#encode(name) : 0
    return length === 0 ? 1 : prefixBytes(length) + length
  }

  /** Writes the same; returns its bytes. */
  #writeEntry(entries: Uint8Array, at: number, { index, name }: { index: number; name: string | undefined | null }) {
    const bytes = this.#entryBytes(index, name)
    const start = name === null ? this.#ids.at.start[index] : 0
    if (start > 0) for (let b = 0; b < bytes; b++) entries[at + b] = this.#slab[start + b]
    else {
      const length = name ? this.#encode(name) : 0
      writeLength(entries, at, length)
      entries.set(this.#scratch.subarray(0, length), at + prefixBytes(length))
    }
    return bytes
  }

  load(state: State): void {
    const entries = state.take("entries", Uint8Array)
    this.#slab = enlarged(growable("u8", 1024, RESERVED), 1 + entries.length)
    this.#slab.set(entries, 1)
    this.#text = Buffer.from(this.#slab.buffer, 0, this.#slab.length)
    this.#end = 1 + entries.length
    this.#wasted = 0
    this.#size = 0
    this.#ids = new Columns({ start: "u32" })
    for (let at = 1, index = 0; at < this.#end; index++) {
      const length = lengthAt(this.#slab, at)
      this.#ids.reserve(index)
      this.#ids.at.start[index] = length === 0 ? 0 : at
      if (length === 0) this.#wasted++
      else this.#size++
      at += prefixBytes(length) + length
    }
    this.#known = this.count
    this.#fillTable()
  }

  #fillTable(): void {
    this.#slots = Math.max(FIRST_SLOTS, Math.ceil(this.#size / (FULLEST / Math.sqrt(GROWTH))))
    while (this.count + 1 > 1 << this.#bits) this.#bits++
    this.#table = enlarged(growable("u32"), this.#slots + FIRST_SLOTS)
    const { start } = this.#ids.at
    for (let index = 0; index < this.count; index++) {
      if (start[index] === 0) continue
      const hashed = this.#hashAt(start[index])
      let slot = this.#home(hashed)
      while (this.#table[slot] !== 0) slot++
      this.#enter(this.#cell(index, hashed), slot)
    }
  }
}

const LONGEST_PREFIX = 2
/** Bytes of entries that are saved at a time. */
const SLICE = 65_536

function prefixBytes(length: number): number {
  return length < 0x80 ? 1 : 2
}

function lengthAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at]
  return first < 0x80 ? first : (first & 0x7f) | (bytes[at + 1] << 7)
}

function writeLength(bytes: Uint8Array, at: number, length: number): void {
  bytes[at] = length < 0x80 ? length : (length & 0x7f) | 0x80
  if (length >= 0x80) bytes[at + 1] = length >> 7
}

/** Different in every process, so that nobody can choose names that collide. */
const [BASIS, FACTOR] = [randomInt(4_294_967_296), randomInt(2_147_483_648) * 2 + 1]

/** FNV-1a with a basis and factor of its own, and the bits mixed once more: the table takes the highest and the lowest. */
export function hash(bytes: Uint8Array, start: number, length: number): number {
  let value = BASIS
  for (let b = start; b < start + length; b++) value = Math.imul(value ^ bytes[b], FACTOR)
  return mixed(value)
}

function mixed(given: number): number {
  let value = given ^ (given >>> 16)
  value = Math.imul(value, 0x85ebca6b)
  value ^= value >>> 13
  value = Math.imul(value, 0xc2b2ae35)
  return (value ^ (value >>> 16)) >>> 0
}
