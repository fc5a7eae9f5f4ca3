/**
 * Lists of whole numbers, one per id, seven bits to a byte: most take one to three bytes a number.
 *
 * A list lives in a chunk of 4, 8, 12, 16, 24, 32, 48, … bytes, the smallest that holds it, with zeros behind. Every
 * number is kept as one more, so no byte of a list is 0. A chunk that is left is given to another list; when too many
 * wait for one, all lists move together in place.
 */

import type { State } from "../kernels/state.ts"
import { Columns, enlarged, growable } from "./columns.ts"

/** Chunks are counted in units of this many bytes. */
const UNIT = 4
/** Units of a chunk, by its size: 1, 2, 3, 4, 6, 8, 12, 16, … */
const UNITS = [1, ...Array.from({ length: 56 }, (_, s) => (s % 2 === 0 ? 2 : 3) * (1 << (s >> 1)))]
/** Addresses reserved for the lists, in units. */
const RESERVED = 536_870_912
/** The lists move together when more than an eighth of the units is free, and this many. */
const LEAST_FREE = 1024
/** A part at a time, so that the extra memory is in proportion to a part. */
const PARTS = 16
const LEAST_PART = 262_144
/** Chunks of more bytes are searched by the system's own search. */
const LONG = 192
/** More than there are ids. */
const IDS = 268_435_456

/** Bytes of lists that are saved at a time, and the most of a number. */
const SLICE = 65_536
const LONGEST_NUMBER = 5

export class ByteLists {
  /** The same memory in units and in bytes. */
  #units = growable("u32", 1024, RESERVED)
  #bytes = new Uint8Array(this.#units.buffer, 0, this.#units.byteLength)
  /** `size`: 1 + the size of its chunk, 0 for an id without one. */
  #ids = new Columns({ start: "u32", size: "u8" })
  /** Of each size, 1 + the first chunk that is free, whose first unit says the next in the same way. */
  readonly #free = new Uint32Array(UNITS.length)
  #freeUnits = 0
  #end = 0
  /** A number that is looked for. */
  readonly #wanted = new Uint8Array(5)

  /** Ids from here on have never had a list. */
  get reach(): number {
    return this.#ids.length
  }

  /** Bytes needed: a function of the lists alone. */
  get bytes(): number {
    return UNIT * (this.#end - this.#freeUnits) + this.#ids.bytes
  }

  /** Bytes written to. */
  get heldBytes(): number {
    return UNIT * this.#end + this.#ids.bytes
  }

  /** Bytes an id's list has room for. */
  room(id: number): number {
    const size = id < this.#ids.length ? this.#ids.at.size[id] : 0
    return size === 0 ? 0 : UNIT * UNITS[size - 1]
  }

  /** How many numbers the id's list holds; 0 for an id never met. */
  count(id: number): number {
    const from = this.#from(id)
    const end = from + this.room(id)
    let count = 0
    for (let at = from; at < end && this.#bytes[at] !== 0; at++) if (this.#bytes[at] < 0x80) count++
    return count
  }

  has(id: number, value: number): boolean {
    return this.#find(id, value) >= 0
  }

  /** The id's numbers, in order. */
  of(id: number): Int32Array {
    const bytes = this.#bytes
    const room = this.room(id)
    const numbers = new Int32Array(room)
    let [at, count] = [this.#from(id), 0]
    const end = at + room
    while (at < end && bytes[at] !== 0) {
      let [number, shift] = [0, 0]
      for (; bytes[at] >= 0x80; shift += 7) number |= (bytes[at++] & 0x7f) << shift
      numbers[count++] = (number | (bytes[at++] << shift)) - 1
    }
    return numbers.subarray(0, count)
  }

  /** Adds a number at the end of the id's list. */
  append(id: number, value: number): void {
    this.#ids.reserve(id)
    const used = this.#used(id)
    const needed = used + bytesOf(value)
    if (needed > this.room(id)) this.#resize(id, used, needed)
    this.#write(this.#from(id) + used, value)
    this.#packWhenDue()
  }

  /** Makes a list of numbers the id's. */
  set(id: number, values: Iterable<number>): void {
    this.clear(id)
    this.#ids.reserve(id)
    const all = [...values]
    const needed = all.reduce((sum, value) => sum + bytesOf(value), 0)
    if (needed === 0) return
    this.#resize(id, 0, needed)
    let at = this.#from(id)
    for (const value of all) at = this.#write(at, value)
  }

  /** Puts a number into the id's ascending list, kept as what each adds to the one before; false where it is in it. */
  insertAscending(id: number, value: number): boolean {
    this.#ids.reserve(id)
    const bytes = this.#bytes
    const from = this.#from(id)
    const end = from + this.room(id)
    let [at, last] = [from, -1]
    while (at < end && bytes[at] !== 0) {
      const start = at
      let [gap, shift] = [0, 0]
      for (; bytes[at] >= 0x80; shift += 7) gap |= (bytes[at++] & 0x7f) << shift
      const next = last + (gap | (bytes[at++] << shift))
      if (next === value) return false
      if (next > value) {
        const place = this.#exchange(id, {
          at: start - from,
          removed: at - start,
          added: bytesOf(value - last - 1) + bytesOf(next - value - 1),
        })
        writeNumber(this.#bytes, writeNumber(this.#bytes, place, value - last), next - value)
        return true
      }
      last = next
    }
    const place = this.#exchange(id, { at: at - from, removed: 0, added: bytesOf(value - last - 1) })
    writeNumber(this.#bytes, place, value - last)
    return true
  }

  /** Makes an ascending list the id's. */
  setAscending(id: number, values: ArrayLike<number>): void {
    this.clear(id)
    if (values.length === 0) return
    this.#ids.reserve(id)
    let needed = 0
    for (let n = 0, last = -1; n < values.length; last = values[n++]) needed += bytesOf(values[n] - last - 1)
    this.#resize(id, 0, needed)
    let at = this.#from(id)
    for (let n = 0, last = -1; n < values.length; last = values[n++])
      at = writeNumber(this.#bytes, at, values[n] - last)
  }

  /** Writes the id's ascending list into an array, which has `room(id)` places; returns how many. */
  readAscending(id: number, out: Int32Array): number {
    const bytes = this.#bytes
    const from = this.#from(id)
    const end = from + this.room(id)
    let [count, last] = [0, -1]
    for (let at = from; at < end && bytes[at] !== 0; ) {
      let [gap, shift] = [0, 0]
      for (; bytes[at] >= 0x80; shift += 7) gap |= (bytes[at++] & 0x7f) << shift
      last += gap | (bytes[at++] << shift)
      out[count++] = last
    }
    return count
  }

  /** Exchanges bytes of the id's list for others, at least as many, which are to be written; returns where. */
  #exchange(id: number, { at, removed, added }: { at: number; removed: number; added: number }): number {
    const used = this.#used(id)
    const needed = used - removed + added
    if (needed > this.room(id)) this.#resize(id, used, needed)
    this.#packWhenDue()
    const from = this.#from(id)
    this.#bytes.copyWithin(from + at + added, from + at + removed, from + used)
    return from + at
  }

  /** Removes a number from the id's list, if it is there. */
  remove(id: number, value: number): void {
    const at = this.#find(id, value)
    if (at >= 0) this.#cut(id, at, bytesOf(value))
  }

  /** Takes the first number out of the id's list. */
  removeFirst(id: number): void {
    const from = this.#from(id)
    let end = from
    while (this.#bytes[end] >= 0x80) end++
    if (this.room(id) > 0) this.#cut(id, from, end + 1 - from)
  }

  /** Empties the id's list. */
  clear(id: number): void {
    if (this.room(id) === 0) return
    this.#release(this.#ids.at.start[id], this.#ids.at.size[id] - 1)
    this.#ids.clear(id)
    this.#packWhenDue()
  }

  /** By id: the bytes of the list, counted, and the list. */
  save(state: State): void {
    const { reach } = this
    const lengthBytes = new Uint8Array(LONGEST_NUMBER)
    let length = 0
    for (let id = 0; id < reach; id++) length += writeNumber(lengthBytes, 0, this.#used(id)) + this.#used(id)
    const pieces = function* (this: ByteLists) {
      let lists = new Uint8Array(SLICE)
      let end = 0
      for (let id = 0; id < reach; id++) {
        const used = this.#used(id)
        if (end + LONGEST_NUMBER + used > lists.length) {
          yield lists.subarray(0, end)
          end = 0
          if (LONGEST_NUMBER + used > lists.length) lists = new Uint8Array(LONGEST_NUMBER + used)
        }
        end = writeNumber(lists, end, used)
        const from = this.#from(id)
        for (let b = 0; b < used; b++) lists[end++] = this.#bytes[from + b]
      }
      yield lists.subarray(0, end)
    }
    state.putSliced("lists", { kind: Uint8Array, length, pieces: pieces.bind(this) })
  }

  load(state: State): void {
    const lists = state.take("lists", Uint8Array)
    this.#units = growable("u32", 1024, RESERVED)
    this.#bytes = new Uint8Array(this.#units.buffer, 0, this.#units.byteLength)
    this.#ids = new Columns({ start: "u32", size: "u8" })
    this.#free.fill(0)
    this.#freeUnits = 0
    this.#end = 0
    for (let at = 0, id = 0; at < lists.length; id++) {
      let [used, shift] = [0, 0]
      for (; lists[at] >= 0x80; shift += 7) used |= (lists[at++] & 0x7f) << shift
      used |= lists[at++] << shift
      this.#ids.reserve(id)
      if (used === 0) continue
      this.#resize(id, 0, used)
      const from = this.#from(id)
      for (let b = 0; b < used; b++) this.#bytes[from + b] = lists[at++]
    }
  }

  #from(id: number): number {
    return id < this.#ids.length ? UNIT * this.#ids.at.start[id] : 0
  }

  /** Bytes of the id's list. */
  #used(id: number): number {
    const from = this.#from(id)
    let end = from + this.room(id)
    while (end > from && this.#bytes[end - 1] === 0) end--
    return end - from
  }

  /** Where a number of the id's list begins; −1 where it is not in it. */
  #find(id: number, value: number): number {
    const bytes = this.#bytes
    const from = this.#from(id)
    const end = from + this.room(id)
    const wanted = value + 1
    if (end - from > LONG) return this.#findFar(from, end, wanted)
    for (let at = from; at < end && bytes[at] !== 0; ) {
      const start = at
      let [number, shift] = [0, 0]
      for (; bytes[at] >= 0x80; shift += 7) number |= (bytes[at++] & 0x7f) << shift
      if ((number | (bytes[at++] << shift)) === wanted) return start
    }
    return -1
  }

  /** The same by the bytes of the number, behind the last byte of another. */
  #findFar(from: number, end: number, wanted: number): number {
    const chunk = Buffer.from(this.#bytes.buffer, from, end - from)
    const bytes = this.#wanted.subarray(0, writeNumber(this.#wanted, 0, wanted))
    let at = chunk.indexOf(bytes)
    while (at > 0 && chunk[at - 1] >= 0x80) at = chunk.indexOf(bytes, at + 1)
    return at < 0 ? -1 : from + at
  }

  #write(at: number, value: number): number {
    return writeNumber(this.#bytes, at, value + 1)
  }

  /** Takes bytes out of the id's list. */
  #cut(id: number, at: number, count: number): void {
    const from = this.#from(id)
    const used = this.#used(id)
    this.#bytes.copyWithin(at, at + count, from + used)
    this.#bytes.fill(0, from + used - count, from + used)
    if (used === count) this.clear(id)
    else if (sizeOf(used - count) < this.#ids.at.size[id] - 1) this.#resize(id, used - count, used - count)
    this.#packWhenDue()
  }

  /** Moves the id's list, of `used` bytes, to a chunk for as many as `needed`. */
  #resize(id: number, used: number, needed: number): void {
    const { start, size: sizes } = this.#ids.at
    const size = sizeOf(needed)
    const [from, before] = [start[id], sizes[id]]
    const to = this.#allocate(size)
    if (used > 0) this.#bytes.copyWithin(UNIT * to, UNIT * from, UNIT * from + used)
    if (before > 0) this.#release(from, before - 1)
    start[id] = to
    sizes[id] = size + 1
  }

  /** A chunk of zeros. */
  #allocate(size: number): number {
    const units = UNITS[size]
    if (this.#free[size] > 0) {
      const start = this.#free[size] - 1
      this.#free[size] = this.#units[start]
      this.#units[start] = 0
      this.#freeUnits -= units
      return start
    }
    const start = this.#end
    this.#end += units
    if (this.#end > this.#units.length) {
      this.#units = enlarged(this.#units, this.#end)
      this.#bytes = new Uint8Array(this.#units.buffer, 0, this.#units.byteLength)
    }
    return start
  }

  #release(start: number, size: number): void {
    this.#units.fill(0, start, start + UNITS[size])
    this.#units[start] = this.#free[size]
    this.#free[size] = start + 1
    this.#freeUnits += UNITS[size]
  }

  #packWhenDue(): void {
    if (this.#freeUnits > LEAST_FREE && this.#freeUnits > this.#end / 8) this.#pack()
  }

  /** Moves the chunks together, in order of address. */
  #pack(): void {
    const { start, size } = this.#ids.at
    const part = Math.max(LEAST_PART, Math.ceil(this.#end / PARTS))
    const order = new Float64Array(Math.min(part, this.#ids.length))
    let to = 0
    for (let from = 0; from < this.#end; from += part) {
      let count = 0
      for (let id = 0; id < this.#ids.length; id++)
        if (size[id] !== 0 && start[id] >= from && start[id] < from + part)
          order[count++] = (start[id] - from) * IDS + id
      for (const place of order.subarray(0, count).sort()) {
        const id = place % IDS
        const units = UNITS[size[id] - 1]
        this.#units.copyWithin(to, start[id], start[id] + units)
        start[id] = to
        to += units
      }
    }
    this.#units.fill(0, to, this.#end)
    this.#end = to
    this.#free.fill(0)
    this.#freeUnits = 0
  }
}

/** The smallest size that holds this many bytes. */
function sizeOf(bytes: number): number {
  let size = 0
  while (UNIT * UNITS[size] < bytes) size++
  return size
}

/** Bytes a number takes in a list. */
function bytesOf(value: number): number {
  let bytes = 1
  for (let rest = value + 1; rest >= 0x80; rest >>>= 7) bytes++
  return bytes
}

/** Writes seven bits to a byte, lowest first; returns where it ends. */
function writeNumber(bytes: Uint8Array, from: number, number: number): number {
  let [at, rest] = [from, number]
  for (; rest >= 0x80; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80
  bytes[at++] = rest
  return at
}
