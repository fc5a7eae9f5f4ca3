/**
 * A file of keys and values in order, written once; rows can be taken out of it where they stand. Its blocks have a
 * checksum each; an index of their first keys and a filter that tells which keys it has not are held in memory. Keys and values are texts with one character per byte.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs"
import { basename } from "node:path"
import { crc32 } from "node:zlib"
import { DessError } from "../errors.ts"
import { diskError, replaceFileSlowly } from "./disk.ts"
import { applyOverlay, type OverlayPart, overlaidLength, readOverlay, saveOverlay } from "./overlay.ts"
import { createPause } from "./turns.ts"

export interface Row {
  key: string
  /** null: what older files have under the key is deleted. */
  value: string | null
}

export interface KeyRange {
  start: string
  /** Not in it; undefined for no end. */
  end: string | undefined
}

/** Numbers kept with a file. */
export interface RunNotes {
  /** Changes of records before this position of the journal are in it or in older ones. */
  applied: number
  nextKey: number
  keysFrom: number
}

/** 2: with rows that were taken out. */
const VERSION = 2
const BLOCK_BYTES = 4096
/** Bytes written at a time: others get a turn in between. */
const CHUNK_BYTES = 131_072
/** Lengths of key and value before each row. */
const ROW_HEAD = 6
const DELETED = 0xffffffff
/** Behind the keys of all rows. */
const LAST_KEY = "\xff"
/** Eight numbers, checksum of the tail, checksum of itself. */
const FOOTER_BYTES = 72
const FILTER_BITS = 10
const FILTER_PROBES = 5
/** Larger ones have no filter, so that memory is bounded: one block is read for nothing. */
const MOST_FILTERED = 4_000_000

/** The error of a file that cannot be used as it is. */
export function damagedRun(path: string, problem: string): DessError {
  return new DessError("INVALID_DATA", `lookup table, ${basename(path)}: ${problem}`)
}

export class SortedRun {
  readonly path: string
  readonly notes: RunNotes
  #bytes: number
  /** Keys that can be asked for one by one, about. */
  readonly filtered: number
  readonly #file: number
  /** Where blocks begin, with the end of the last; their checksums; where their first keys end in `#keys`. */
  #starts: Float64Array
  #checksums: Uint32Array
  #keyEnds: Uint32Array
  #keys: Buffer
  #filter: Buffer
  /** What counts already and is yet to be written over the file. */
  #overlay: readonly OverlayPart[] = []
  /** For blocks that are read and left again at once. */
  #scratch: Buffer = Buffer.alloc(0)

  /** Opens a file; its blocks are checked when they are read. */
  constructor(path: string) {
    this.path = path
    this.#file = openSync(path, "r")
    try {
      const overlay = readOverlay(path)
      if (!overlay)
        throw damagedRun(path, "expected what is to be written over it with its checksum, got a damaged one")
      this.#overlay = overlay
      this.#bytes = overlaidLength(overlay) ?? fstatSync(this.#file).size
      if (this.bytes < FOOTER_BYTES) throw damagedRun(path, `expected ${FOOTER_BYTES} bytes or more, got ${this.bytes}`)
      const footer = this.#read(this.bytes - FOOTER_BYTES, FOOTER_BYTES)
      const isWhole = crc32(footer.subarray(0, -4)) === footer.readUInt32LE(FOOTER_BYTES - 4)
      if (!isWhole) throw damagedRun(path, "expected an end with its checksum, got a damaged one")
      const [version, blocks, keyBytes, filterBytes, filtered, applied, nextKey, keysFrom] = Array.from(
        { length: 8 },
        (_, n) => footer.readDoubleLE(8 * n),
      )
      if (version !== 1 && version !== VERSION) throw damagedRun(path, `expected format ${VERSION}, got ${version}`)
      this.filtered = filtered
      this.notes = { applied, nextKey, keysFrom }
      const length = 8 * (blocks + 1) + 8 * blocks + keyBytes + filterBytes
      const tail = this.#read(this.bytes - FOOTER_BYTES - length, length)
      if (crc32(tail) !== footer.readUInt32LE(FOOTER_BYTES - 8))
        throw damagedRun(path, "expected an index with its checksum, got a damaged one")
      const parts = viewTail(tail, { blocks, keyBytes, filterBytes })
      this.#starts = parts.starts
      this.#checksums = parts.checksums
      this.#keyEnds = parts.keyEnds
      this.#keys = parts.keys
      this.#filter = parts.filter
    } catch (cause) {
      this.close()
      throw cause
    }
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Bytes it holds in memory. */
  get heldBytes(): number {
    return this.#starts.buffer.byteLength + BLOCK_BYTES
  }

  /** The value of a key; null for a deleted one, undefined for none. */
  get(key: string): string | null | undefined {
    if (!probe(this.#filter, key, false)) return undefined
    const number = this.#find(key)
    if (number < 0) return undefined
    const block = this.#readBlock(number, this.#scratch)
    this.#scratch = block
    for (let at = 0, end = this.#lengthOf(number); at < end; ) {
      const keyEnd = at + ROW_HEAD + (block[at] | (block[at + 1] << 8))
      const valueLength = lengthAt(block, at + 2)
      const order = compareBytes(block, at + ROW_HEAD, keyEnd, key)
      if (order > 0) return undefined
      at = keyEnd + (valueLength === DELETED ? 0 : valueLength)
      if (order === 0) return valueLength === DELETED ? null : block.toString("latin1", keyEnd, at)
    }
    return undefined
  }

  *rows({ start, end }: KeyRange): Generator<Row> {
    let block: Buffer = Buffer.alloc(0)
    for (let number = Math.max(0, this.#find(start)); number < this.#checksums.length; number++) {
      block = this.#readBlock(number, block)
      for (let at = 0, length = this.#lengthOf(number); at < length; ) {
        const keyEnd = at + ROW_HEAD + (block[at] | (block[at + 1] << 8))
        const valueLength = lengthAt(block, at + 2)
        const key = block.toString("latin1", at + ROW_HEAD, keyEnd)
        at = keyEnd + (valueLength === DELETED ? 0 : valueLength)
        if (key === "" || key < start) continue
        if (end !== undefined && key >= end) return
        yield { key, value: valueLength === DELETED ? null : block.toString("latin1", keyEnd, at) }
      }
    }
  }

  /**
   * Takes rows out where they stand: blanks of the same length come in their place, of rows without a key. It counts once
   * it is on disk beside the file; where writing it over the file fails, `settle` tries it again.
   */
  async takeOut(keys: ReadonlySet<string>): Promise<void> {
    const parts: OverlayPart[] = []
    const checksums = this.#checksums.slice()
    /** By block: the first key that stays; undefined where none does. */
    const firsts = new Map<number, string | undefined>()
    const pause = createPause()
    for (const number of [...new Set(Array.from(keys, (key) => this.#find(key)))].sort((a, b) => a - b)) {
      if (number < 0) continue
      const block = Buffer.from(this.#readBlock(number, this.#scratch).subarray(0, this.#lengthOf(number)))
      const { isChanged, first } = blankRows(block, keys)
      if (!isChanged) continue
      parts.push({ at: this.#starts[number], bytes: block })
      checksums[number] = crc32(block)
      firsts.set(number, first)
      await pause()
    }
    if (parts.length === 0) return
    const { filtered, notes } = this
    const index = { starts: this.#starts, checksums, ...this.#keysWith(firsts), filter: this.#filter }
    const { tail, footer } = encodeEnd({ ...index, filtered, notes })
    parts.push({ at: this.#starts[checksums.length], bytes: Buffer.concat([tail, footer]) })
    await saveOverlay(this.path, parts)
    const { starts, keyEnds, keys: firstKeys, filter, ...own } = viewTail(tail, sizesOf(index))
    this.#starts = starts
    this.#checksums = own.checksums
    this.#keyEnds = keyEnds
    this.#keys = firstKeys
    this.#filter = filter
    this.#overlay = parts
    this.#bytes = overlaidLength(parts) as number
    await this.settle()
  }

  /** Ends what taking out rows began. */
  async settle(): Promise<void> {
    if (this.#overlay.length === 0) return
    await applyOverlay(this.path, this.#overlay)
    this.#overlay = []
  }

  /** First keys of blocks, with others for some of them: one without a row has that of the next. */
  #keysWith(firsts: ReadonlyMap<number, string | undefined>): { keys: Buffer; keyEnds: Uint32Array } {
    const changed = new Map<number, string>()
    const keyOf = (number: number) => changed.get(number) ?? this.#firstKey(number)
    for (const [number, first] of [...firsts].reverse()) {
      const key = first ?? keyOf(number + 1)
      // Blocks before it that had its key have no rows.
      const before = this.#firstKey(number)
      for (let n = number; n >= 0 && this.#firstKey(n) === before; n--) changed.set(n, key)
    }
    const keyEnds = this.#keyEnds.slice()
    const pieces: Buffer[] = []
    let [from, grown, next] = [0, 0, 0]
    for (const number of [...changed.keys()].sort((a, b) => a - b)) {
      const key = changed.get(number) as string
      const begin = number === 0 ? 0 : this.#keyEnds[number - 1]
      for (; next < number; next++) keyEnds[next] += grown
      pieces.push(this.#keys.subarray(from, begin), Buffer.from(key, "latin1"))
      from = this.#keyEnds[number]
      grown += key.length - (from - begin)
    }
    for (; next < keyEnds.length; next++) keyEnds[next] += grown
    pieces.push(this.#keys.subarray(from))
    return { keys: Buffer.concat(pieces), keyEnds }
  }

  #firstKey(number: number): string {
    if (number >= this.#keyEnds.length) return LAST_KEY
    return this.#keys.toString("latin1", number === 0 ? 0 : this.#keyEnds[number - 1], this.#keyEnds[number])
  }

  /** The last block that does not begin behind a key; -1 for none. */
  #find(key: string): number {
    let [low, high] = [0, this.#checksums.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      const from = middle === 0 ? 0 : this.#keyEnds[middle - 1]
      if (compareBytes(this.#keys, from, this.#keyEnds[middle], key) <= 0) low = middle + 1
      else high = middle
    }
    return low - 1
  }

  #lengthOf(number: number): number {
    return this.#starts[number + 1] - this.#starts[number]
  }

  /** Reads a block into a buffer, or into a new one where it does not fit. */
  #readBlock(number: number, into: Buffer): Buffer {
    const length = this.#lengthOf(number)
    const block = into.length < length ? Buffer.allocUnsafeSlow(Math.max(length, BLOCK_BYTES)) : into
    this.#readInto(block, this.#starts[number], length)
    if (crc32(length === block.length ? block : block.subarray(0, length)) !== this.#checksums[number])
      throw damagedRun(this.path, `expected block ${number} with its checksum, got a damaged one`)
    return block
  }

  #read(from: number, length: number): Buffer {
    // Checked before: a length of a damaged file may be anything.
    this.#checkPlace(from, length)
    // Not of a pool: views of numbers need its beginning.
    const bytes = Buffer.allocUnsafeSlow(length)
    this.#readInto(bytes, from, length)
    return bytes
  }

  #checkPlace(from: number, length: number): void {
    if (!(from >= 0 && length >= 0 && from + length <= this.bytes))
      throw damagedRun(this.path, `expected ${length} bytes at ${from}, got a file of ${this.bytes}`)
  }

  #readInto(bytes: Buffer, from: number, length: number): void {
    const over = this.#overlay.find((part) => part.at <= from && from + length <= part.at + part.bytes.length)
    if (over) {
      bytes.set(over.bytes.subarray(from - over.at, from - over.at + length))
      return
    }
    try {
      for (let done = 0; done < length; ) {
        const count = readSync(this.#file, bytes, done, length - done, from + done)
        if (count === 0) throw damagedRun(this.path, `expected ${length} bytes at ${from}, got ${done}`)
        done += count
      }
    } catch (cause) {
      throw diskError("lookup table", cause, "give")
    }
  }

  close(): void {
    closeSync(this.#file)
  }
}

/** Four bytes, lowest first; half the time of the buffer's own, which checks more. */
function lengthAt(bytes: Buffer, at: number): number {
  return (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0
}

/** Compares some bytes with a text of one character per byte. An object for the range would be made for every row. */
function compareBytes(bytes: Buffer, from: number, to: number, text: string): number {
  const length = Math.min(to - from, text.length)
  for (let n = 0; n < length; n++) {
    const difference = bytes[from + n] - text.charCodeAt(n)
    if (difference !== 0) return difference
  }
  return to - from - text.length
}

function hashOf(key: string): number {
  let hash = 0x811c9dc5
  for (let n = 0; n < key.length; n++) hash = Math.imul(hash ^ key.charCodeAt(n), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x21f0aaad)
  hash = Math.imul(hash ^ (hash >>> 15), 0x735a2d97)
  return hash ^ (hash >>> 15)
}

/** A Bloom filter: whether a key may have been marked, or marks it. One without bytes knows nothing. */
function probe(filter: Buffer, key: string, marks: boolean): boolean {
  const bits = 8 * filter.length
  if (bits === 0) return true
  const hash = hashOf(key)
  const step = Math.imul(hash, 0x9e3779b1) | 1
  for (let n = 0, at = hash; n < FILTER_PROBES; n++, at = (at + step) | 0) {
    const bit = (at >>> 0) % bits
    if (marks) filter[bit >>> 3] |= 1 << (bit & 7)
    else if ((filter[bit >>> 3] & (1 << (bit & 7))) === 0) return false
  }
  return true
}

export interface RunOptions {
  notes: RunNotes
  /** Whether a key may be asked for alone, and at most how many of them there are. */
  isFiltered(key: string): boolean
  mostFiltered: number
}

/** Writes rows, which are in order, as a file that appears as a whole; the folder is to be flushed afterwards. */
export async function writeRun(path: string, rows: Iterable<Row>, p: RunOptions): Promise<SortedRun> {
  const hasFilter = p.mostFiltered <= MOST_FILTERED
  const filter = Buffer.alloc(hasFilter ? Math.ceil((p.mostFiltered * FILTER_BITS) / 8) : 0)
  const [starts, checksums, keys]: [number[], number[], string[]] = [[0], [], []]
  let filtered = 0
  let [length, at, blockAt] = [0, 0, 0]
  let chunk = Buffer.allocUnsafe(2 * CHUNK_BYTES)
  let run: SortedRun | undefined
  const endBlock = () => {
    if (at === blockAt) return
    checksums.push(crc32(chunk.subarray(blockAt, at)))
    blockAt = at
    starts.push(length + at)
  }
  try {
    await replaceFileSlowly(path, async (append) => {
      const flush = async () => {
        await append(chunk.subarray(0, at))
        length += at
        at = blockAt = 0
      }
      for (const { key, value } of rows) {
        const size = ROW_HEAD + key.length + (value?.length ?? 0)
        if (at > blockAt && at - blockAt + size > BLOCK_BYTES) {
          endBlock()
          if (at >= CHUNK_BYTES) await flush()
        }
        if (at + size > chunk.length) {
          const larger = Buffer.allocUnsafe(at + size + CHUNK_BYTES)
          chunk.copy(larger, 0, 0, at)
          chunk = larger
        }
        if (at === blockAt) keys.push(key)
        chunk.writeUInt16LE(key.length, at)
        chunk.writeUInt32LE(value === null ? DELETED : value.length, at + 2)
        at += ROW_HEAD + chunk.write(key, at + ROW_HEAD, "latin1")
        if (value !== null) at += chunk.write(value, at, "latin1")
        if (!p.isFiltered(key)) continue
        filtered++
        probe(filter, key, true)
      }
      endBlock()
      await flush()
      let end = 0
      const keyEnds = Uint32Array.from(keys, (key) => {
        end += key.length
        return end
      })
      const { tail, footer } = encodeEnd({
        starts: Float64Array.from(starts),
        checksums: Uint32Array.from(checksums),
        keyEnds,
        keys: Buffer.from(keys.join(""), "latin1"),
        filter,
        filtered,
        notes: p.notes,
      })
      await append(tail)
      await append(footer)
      // Before it gets its name: once it has it, nothing can fail.
      run = new SortedRun(`${path}.part`)
    })
    return Object.assign(run as unknown as SortedRun, { path })
  } catch (cause) {
    run?.close()
    throw diskError("lookup table", cause)
  }
}

/** What is held in memory of a file: its index and its filter. */
interface Tail {
  starts: Float64Array
  checksums: Uint32Array
  keyEnds: Uint32Array
  keys: Buffer
  filter: Buffer
}

interface TailSizes {
  blocks: number
  keyBytes: number
  filterBytes: number
}

function sizesOf({ checksums, keys, filter }: Tail): TailSizes {
  return { blocks: checksums.length, keyBytes: keys.length, filterBytes: filter.length }
}

function viewTail({ buffer, byteOffset }: Buffer, { blocks, keyBytes, filterBytes }: TailSizes): Tail {
  const checksumsAt = byteOffset + 8 * (blocks + 1)
  const keysAt = checksumsAt + 8 * blocks
  return {
    starts: new Float64Array(buffer, byteOffset, blocks + 1),
    checksums: new Uint32Array(buffer, checksumsAt, blocks),
    keyEnds: new Uint32Array(buffer, checksumsAt + 4 * blocks, blocks),
    keys: Buffer.from(buffer, keysAt, keyBytes),
    filter: Buffer.from(buffer, keysAt + keyBytes, filterBytes),
  }
}

function encodeEnd(p: Tail & { filtered: number; notes: RunNotes }): { tail: Buffer; footer: Buffer } {
  const numbers = [p.starts, p.checksums, p.keyEnds]
  const views = numbers.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength))
  const pieces = [...views, p.keys, p.filter]
  // Not of a pool: views of numbers need its beginning.
  const tail = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    tail.set(piece, at)
    at += piece.length
  }
  const footer = Buffer.alloc(FOOTER_BYTES)
  const { blocks, keyBytes, filterBytes } = sizesOf(p)
  const { applied, nextKey, keysFrom } = p.notes
  const written = [VERSION, blocks, keyBytes, filterBytes, p.filtered, applied, nextKey, keysFrom]
  for (const [n, number] of written.entries()) footer.writeDoubleLE(number, 8 * n)
  footer.writeUInt32LE(crc32(tail), FOOTER_BYTES - 8)
  footer.writeUInt32LE(crc32(footer.subarray(0, -4)), FOOTER_BYTES - 4)
  return { tail, footer }
}

/** Blanks the rows of a block that have one of the keys. */
function blankRows(block: Buffer, keys: ReadonlySet<string>): { isChanged: boolean; first: string | undefined } {
  let isChanged = false
  let first: string | undefined
  for (let at = 0; at < block.length; ) {
    const start = at
    const keyEnd = at + ROW_HEAD + block.readUInt16LE(at)
    const valueLength = lengthAt(block, at + 2)
    const key = block.toString("latin1", at + ROW_HEAD, keyEnd)
    at = keyEnd + (valueLength === DELETED ? 0 : valueLength)
    if (!keys.has(key)) {
      if (key !== "") first ??= key
      continue
    }
    isChanged = true
    block.fill(0, start, at)
    block.writeUInt32LE(at - start - ROW_HEAD, start + 2)
  }
  return { isChanged, first }
}

/** Rows of several sources, each in order, as one: of those with the same key the one of the last source. */
export function* mergeRows(sources: readonly Iterator<Row>[]): Generator<Row> {
  const heads = sources.map((source) => source.next().value as Row | undefined)
  for (;;) {
    let first: Row | undefined
    for (const head of heads) if (head && (first === undefined || head.key <= first.key)) first = head
    if (first === undefined) return
    for (let n = 0; n < heads.length; n++)
      if (heads[n]?.key === first.key) heads[n] = sources[n].next().value as Row | undefined
    yield first
  }
}
