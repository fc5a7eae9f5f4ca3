/**
 * Delimited text as blocks of records. A block holds the bytes of many lines and the bounds of their fields, so that
 * a reader can take numbers and ids straight from the bytes; no string is made for a line or a field it does not need.
 */

import { DessError, show } from "../errors.ts"
import type { TextFile } from "./bytes.ts"
import { decodeText, EncodingCheck } from "./encoding.ts"

export interface RecordFormat {
  /** One or two ASCII characters; the empty string makes a whole line one field. */
  delimiter: string
  /** Whether a field may stand in double quotes, with delimiters and line ends inside (CSV). */
  quoted: boolean
}

/** Records `0 … count-1`; the fields of record r are `first[r] … first[r+1]-1`. Valid until the next block is asked for. */
export interface RecordBlock {
  bytes: Buffer
  count: number
  first: Int32Array
  start: Int32Array
  end: Int32Array
  /** Line of the file on which each record begins, from 1. */
  line: Int32Array
  /** False for the one record of a file that lacks its line end: it may be cut. */
  ended: boolean
}

const LINE_FEED = 10
const RETURN = 13
const SPACE = 32
const QUOTE = 34
const LONGEST_RECORD_BYTES = 16 << 20

/** The records of a file, blank lines left out; the last may lack its line end. */
export async function* readRecords(file: TextFile, format: RecordFormat): AsyncGenerator<RecordBlock> {
  const { path } = file
  const scanner = new RecordScanner(path, format)
  const check = new EncodingCheck(path)
  const checked = (used: number) => {
    check.take(scanner.block, used)
    if (check.encoding === "Latin-1") file.latin1 = true
    return used
  }
  let carry: Buffer = Buffer.alloc(0)
  let opening = true
  for await (let chunk of file.chunks()) {
    if (opening) chunk = skipMark(path, chunk)
    opening = false
    const bytes = carry.length === 0 ? chunk : Buffer.concat([carry, chunk])
    refuseBinary(path, bytes, scanner)
    carry = bytes.subarray(checked(scanner.scan(bytes, false)))
    if (scanner.block.count > 0) yield scanner.block
    if (carry.length > LONGEST_RECORD_BYTES) scanner.refuseLong()
  }
  if (carry.length === 0) return
  checked(scanner.scan(carry, true))
  if (scanner.block.count > 0) yield scanner.block
}

/** Text of one field. */
export function fieldText({ bytes, start, end }: RecordBlock, field: number): string {
  return decodeText(bytes.subarray(start[field], end[field]))
}

/** Texts of all fields of a record. */
export function recordTexts(block: RecordBlock, record: number): string[] {
  const texts: string[] = []
  for (let f = block.first[record]; f < block.first[record + 1]; f++) texts.push(fieldText(block, f))
  return texts
}

/** The number written in `bytes[start … end-1]`, or NaN. */
export function parseNumber(bytes: Buffer, start: number, end: number): number {
  let p = start
  const negative = bytes[p] === 45
  if (negative) p++
  let digits = 0
  let mantissa = 0
  let fraction = -1
  for (; p < end; p++) {
    const c = bytes[p]
    if (c >= 48 && c <= 57) {
      mantissa = mantissa * 10 + (c - 48)
      digits++
      if (fraction >= 0) fraction++
    } else if (c === 46 && fraction < 0) fraction = 0
    else break
  }
  // Up to 15 digits the quotient of two exact numbers is correctly rounded; the rest goes the slow way.
  if (p === end && digits > 0 && digits <= 15) {
    const value = fraction > 0 ? mantissa / TEN[fraction] : mantissa
    return negative ? -value : value
  }
  const text = bytes.toString("latin1", start, end)
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN
}

const TEN = Array.from({ length: 16 }, (_, k) => Number(`1e${k}`))

class RecordScanner {
  readonly block: RecordBlock
  readonly #path: string
  readonly #delimiter: number
  readonly #second: number
  readonly #quoted: boolean
  #line = 1

  constructor(path: string, { delimiter, quoted }: RecordFormat) {
    this.#path = path
    this.#delimiter = delimiter.length > 0 ? delimiter.charCodeAt(0) : -1
    this.#second = delimiter.length > 1 ? delimiter.charCodeAt(1) : -1
    this.#quoted = quoted
    this.block = {
      bytes: Buffer.alloc(0),
      count: 0,
      first: new Int32Array(1024),
      start: new Int32Array(4096),
      end: new Int32Array(4096),
      line: new Int32Array(1024),
      ended: true,
    }
  }

  get line(): number {
    return this.#line
  }

  /** Fills the block with the whole records of `bytes` and returns how many bytes they take. */
  scan(bytes: Buffer, final: boolean): number {
    const { block } = this
    const delimiter = this.#delimiter
    const second = this.#second
    const quoted = this.#quoted
    const { length } = bytes
    let { start, end } = block
    block.bytes = bytes
    block.count = 0
    block.ended = !final
    let fields = 0
    let opened = 0 // first field of the record at hand
    let used = 0
    let extraLines = 0
    let escaped = false
    let p = 0
    while (p < length || (final && used < length)) {
      let from = p
      let to = p
      if (quoted && bytes[p] === QUOTE) {
        let close = p + 1
        for (; close < length; close++) {
          const c = bytes[close]
          if (c === LINE_FEED) extraLines++
          else if (c === QUOTE) {
            if (bytes[close + 1] !== QUOTE) break
            escaped = true
            close++
          }
        }
        if (close >= length) {
          if (final) this.refuseLong()
          return used
        }
        from = p + 1
        to = close
        p = close + 1
        while (p < length && bytes[p] !== delimiter && bytes[p] !== LINE_FEED) {
          if (bytes[p] !== SPACE && bytes[p] !== RETURN) this.#refuseAfterQuote(bytes, p)
          p++
        }
      } else {
        for (; p < length; p++) {
          const c = bytes[p]
          if (c === LINE_FEED) break
          if (c === delimiter && (second < 0 || bytes[p + 1] === second)) break
        }
        to = p
        if (to > from && (p === length || bytes[p] === LINE_FEED) && bytes[to - 1] === RETURN) to--
        while (from < to && bytes[from] === SPACE) from++
        while (to > from && bytes[to - 1] === SPACE) to--
      }
      if (p === length && !final) return used
      if (fields === start.length) {
        start = block.start = grown(start)
        end = block.end = grown(end)
      }
      start[fields] = from
      end[fields++] = to
      if (p < length && bytes[p] !== LINE_FEED) {
        p += second < 0 ? 1 : 2
        continue
      }
      p++
      if (fields === opened + 1 && from === to) fields = opened
      else {
        if (block.count + 1 === block.first.length) {
          block.first = grown(block.first)
          block.line = grown(block.line)
        }
        if (escaped) unescapeFields(block, opened, fields)
        block.line[block.count++] = this.#line
        block.first[block.count] = fields
        opened = fields
      }
      this.#line += 1 + extraLines
      extraLines = 0
      escaped = false
      used = Math.min(p, length)
    }
    return used
  }

  refuseLong(): never {
    throw new DessError(
      "INVALID_DATA",
      `record: expected a line, got no end of it; is a quote opened and never closed? (${this.#path}, line ${this.#line})`,
    )
  }

  #refuseAfterQuote(bytes: Buffer, p: number): never {
    throw new DessError(
      "INVALID_DATA",
      `field: expected a delimiter after the closing quote, got ${show(String.fromCharCode(bytes[p]))} (${this.#path}, line ${this.#line})`,
    )
  }
}

/** Turns doubled quotes into single ones, in place: the text only gets shorter. */
function unescapeFields({ bytes, start, end }: RecordBlock, from: number, to: number): void {
  for (let f = from; f < to; f++) {
    if (start[f] === 0 || bytes[start[f] - 1] !== QUOTE) continue
    let write = start[f]
    for (let read = start[f]; read < end[f]; read++) {
      bytes[write++] = bytes[read]
      if (bytes[read] === QUOTE) read++
    }
    end[f] = write
  }
}

function grown(array: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * array.length)
  larger.set(array)
  return larger
}

function skipMark(path: string, chunk: Buffer): Buffer {
  if (chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf) return chunk.subarray(3)
  if ((chunk[0] === 0xff && chunk[1] === 0xfe) || (chunk[0] === 0xfe && chunk[1] === 0xff)) {
    throw new DessError("INVALID_DATA", `data file: expected UTF-8 text, got UTF-16 (${path}); save it as UTF-8`)
  }
  return chunk
}

function refuseBinary(path: string, bytes: Buffer, scanner: RecordScanner): void {
  const nul = bytes.indexOf(0)
  if (nul < 0) return
  let { line } = scanner
  for (let p = bytes.indexOf(LINE_FEED); p >= 0 && p < nul; p = bytes.indexOf(LINE_FEED, p + 1)) line++
  throw new DessError("INVALID_DATA", `data file: expected text, got a NUL byte (${path}, line ${line})`)
}

/** A JSON object in a text; undefined where it is none. */
export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // None.
  }
  return undefined
}
