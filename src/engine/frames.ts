/**
 * A journal file: a header, then frames. A frame is one commit (or, once packed, many): a header of 28 bytes with a
 * checksum of its own, then the records, checksummed and perhaps deflated. So a frame that a crash cut short, which was
 * never acknowledged, can be distinguished from one that was damaged later.
 */

import { readSync } from "node:fs"
import { crc32, inflateRawSync } from "node:zlib"
import { DessError, show } from "../errors.ts"
import { ByteReader, ByteWriter } from "./byte-buffer.ts"

const FILE_MAGIC = Buffer.from("dess-journal")
const FILE_VERSION = 1
export const FILE_HEADER_BYTES = 56
const FRAME_MAGIC = 0x6d617266
const FRAME_HEADER_BYTES = 28
const DEFLATED = 0x8000_0000
const GAP = 0x4000_0000
const MOST_RECORDS = 0x3fff_ffff
/** The most a frame may have; more in one commit is several frames. */
export const MOST_PAYLOAD = 2 ** 28
const SECTOR = 512
const NOTHING = new Uint8Array(0)
/** Bytes that are read ahead. */
const WINDOW_BYTES = 2 ** 18

export interface FileHeader {
  /** Of the directory. */
  id: string
  /** Position of the first record, and of the first of the next file once this one is closed. */
  first: number
  end: number | undefined
  isPacked: boolean
  /** Whether ids leave in it; true where that is not known. */
  hasLeft: boolean
}

export function encodeFileHeader({ id, first, end, isPacked, hasLeft }: FileHeader): Buffer {
  const bytes = Buffer.alloc(FILE_HEADER_BYTES)
  FILE_MAGIC.copy(bytes)
  bytes.writeUInt32LE(FILE_VERSION, 12)
  Buffer.from(id.replaceAll("-", ""), "hex").copy(bytes, 16)
  bytes.writeBigUInt64LE(BigInt(first), 32)
  bytes.writeBigUInt64LE(BigInt(end ?? 0), 40)
  bytes.writeUInt32LE((isPacked ? 1 : 0) | (hasLeft ? 2 : 0), 48)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 52)), 52)
  return bytes
}

/** Undefined where it is not one. */
export function decodeFileHeader(bytes: Buffer): FileHeader | undefined {
  const isOne =
    bytes.length >= FILE_HEADER_BYTES &&
    bytes.subarray(0, 12).equals(FILE_MAGIC) &&
    crc32(bytes.subarray(0, 52)) === bytes.readUInt32LE(52)
  if (!isOne) return undefined
  const version = bytes.readUInt32LE(12)
  if (version > FILE_VERSION)
    throw new DessError("UNSUPPORTED", `journal: expected version ${FILE_VERSION}, got ${version}; use a newer dess`)
  const hex = bytes.toString("hex", 16, 32)
  const id = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-")
  const flags = bytes.readUInt32LE(48)
  const end = Number(bytes.readBigUInt64LE(40))
  return {
    id,
    first: Number(bytes.readBigUInt64LE(32)),
    end: end === 0 ? undefined : end,
    isPacked: (flags & 1) !== 0,
    hasLeft: (flags & 2) !== 0,
  }
}

interface FrameHeader {
  position: number
  count: number
  length: number
  isDeflated: boolean
  /** This many records are gone. */
  isGap: boolean
  checksum: number
}

/** The records as they stand in a frame, one after the other, each with its length before it. */
export function joinRecords(records: readonly Uint8Array[], begin: Uint8Array = NOTHING): Buffer {
  const writer = new ByteWriter(records.reduce((sum, record) => sum + record.length + 4, 16 + begin.length))
  writer.raw(begin)
  for (const record of records) {
    writer.whole(record.length)
    writer.raw(record)
  }
  return writer.bytes
}

export function encodeFrame(p: { position: number; count: number; payload: Uint8Array; isDeflated?: boolean }): Buffer {
  return encode({ ...p, flags: p.isDeflated ? DEFLATED : 0 })
}

/** Stands for records that are gone. */
export function encodeGap(position: number, count: number): Buffer {
  return encode({ position, count, payload: NOTHING, flags: GAP })
}

/** A frame of records, which are copied once. */
export function frameRecords(position: number, records: readonly Uint8Array[]): Buffer {
  const bytes = joinRecords(records, new Uint8Array(FRAME_HEADER_BYTES))
  writeHeader(bytes, { position, count: records.length, flags: 0 })
  return bytes
}

function encode(p: { position: number; count: number; payload: Uint8Array; flags: number }): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_HEADER_BYTES + p.payload.length)
  bytes.set(p.payload, FRAME_HEADER_BYTES)
  writeHeader(bytes, p)
  return bytes
}

/** The header of the payload that stands behind it. */
function writeHeader(bytes: Buffer, p: { position: number; count: number; flags: number }): void {
  const payload = bytes.subarray(FRAME_HEADER_BYTES)
  bytes.writeUInt32LE(FRAME_MAGIC, 0)
  bytes.writeUInt32LE(payload.length, 4)
  bytes.writeBigUInt64LE(BigInt(p.position), 8)
  bytes.writeUInt32LE((p.count | p.flags) >>> 0, 16)
  bytes.writeUInt32LE(crc32(payload), 20)
  bytes.writeUInt32LE(crc32(bytes.subarray(0, 24)), 24)
}

function decodeHeader(bytes: Buffer): FrameHeader | undefined {
  if (bytes.readUInt32LE(0) !== FRAME_MAGIC || crc32(bytes.subarray(0, 24)) !== bytes.readUInt32LE(24)) return undefined
  const count = bytes.readUInt32LE(16)
  return {
    position: Number(bytes.readBigUInt64LE(8)),
    count: count & MOST_RECORDS,
    length: bytes.readUInt32LE(4),
    isDeflated: count >= DEFLATED,
    isGap: (count & GAP) !== 0,
    checksum: bytes.readUInt32LE(20),
  }
}

export interface Frame {
  position: number
  count: number
  /** Encoded records; none where they are gone. */
  records: Uint8Array[]
  /** Where it ends in the file. */
  end: number
}

/** Where the frames of a file end, and why. */
export interface Ending {
  /** End of the last whole frame. */
  at: number
  /** Position behind its last record. */
  next: number
  /** torn: what follows was being written when the process or machine died. damaged: something else. */
  kind: "clean" | "torn" | "damaged"
}

/** The frames of an open file from a place on, until they end. */
export class FrameReader {
  readonly #file: number
  readonly #size: number
  #at: number
  #expected: number
  /** Some of the file, and where that begins. Never written to again: records are views of it. */
  #window: Buffer = Buffer.alloc(0)
  #windowAt = 0
  #ending: Ending["kind"] = "clean"

  constructor(p: { file: number; size: number; at: number; position: number }) {
    this.#file = p.file
    this.#size = p.size
    this.#at = p.at
    this.#expected = p.position
  }

  /** After the last frame: how it ended. */
  get ending(): Ending {
    return { at: this.#at, next: this.#expected, kind: this.#ending }
  }

  *[Symbol.iterator](): Generator<Frame> {
    while (this.#at < this.#size) {
      const frame = this.#next()
      if (!frame) return
      this.#at = frame.end
      this.#expected = frame.position + frame.count
      yield frame
    }
  }

  /** Bytes from a place on, fewer where the file ends. */
  #take(at: number, length: number): Buffer {
    const from = at - this.#windowAt
    if (from >= 0 && from + length <= this.#window.length) return this.#window.subarray(from, from + length)
    if (length > WINDOW_BYTES) return this.#read(at, length)
    this.#window = this.#read(at, WINDOW_BYTES)
    this.#windowAt = at
    return this.#window.subarray(0, length)
  }

  #read(at: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, this.#size - at)))
    let done = 0
    while (done < bytes.length) {
      const count = readSync(this.#file, bytes, done, bytes.length - done, at + done)
      if (count === 0) return bytes.subarray(0, done)
      done += count
    }
    return bytes
  }

  #next(): Frame | undefined {
    const at = this.#at
    const head = this.#take(at, FRAME_HEADER_BYTES)
    const header = head.length === FRAME_HEADER_BYTES ? decodeHeader(head) : undefined
    if (!header) return this.#end(head.length < FRAME_HEADER_BYTES ? isHeaderStart(head) : this.#isBlankTail(at, head))
    const start = at + FRAME_HEADER_BYTES
    if (header.position !== this.#expected || header.length > MOST_PAYLOAD) return this.#end(false)
    const payload = this.#take(start, header.length)
    // Its header is right, so its length is, too.
    if (payload.length < header.length) return this.#end(true)
    if (crc32(payload) !== header.checksum) {
      const isLast = start + header.length === this.#size
      return this.#end(isLast && endsBlank(payload, start))
    }
    return {
      position: header.position,
      count: header.count,
      records: this.#split(header, payload),
      end: start + header.length,
    }
  }

  #split(header: FrameHeader, payload: Buffer): Uint8Array[] {
    if (header.isGap) return []
    const records: Uint8Array[] = []
    const reader = new ByteReader(header.isDeflated ? inflateRawSync(payload) : payload)
    while (!reader.isAtEnd) records.push(reader.raw(reader.whole()))
    if (records.length !== header.count)
      throw new DessError("INVALID_DATA", `journal: expected ${header.count} records in a frame, got ${records.length}`)
    return records
  }

  #end(isTorn: boolean): undefined {
    this.#ending = isTorn ? "torn" : "damaged"
    return undefined
  }

  /** After power failed: room was made for a frame and its beginning, or all of it, never got there. */
  #isBlankTail(at: number, head: Buffer): boolean {
    return endsBlank(head, at) && this.findFrame(at + 1) === undefined
  }

  /** Where the next whole header stands, from a place on. */
  findFrame(from: number): { at: number; position: number } | undefined {
    const step = 2 ** 20
    for (let at = from; at < this.#size; at += step) {
      const bytes = this.#read(at, step + FRAME_HEADER_BYTES - 1)
      for (let i = 0; i + FRAME_HEADER_BYTES <= bytes.length; i++) {
        if (bytes[i] !== (FRAME_MAGIC & 0xff)) continue
        const header = decodeHeader(bytes.subarray(i, i + FRAME_HEADER_BYTES))
        if (header && header.position >= this.#expected) return { at: at + i, position: header.position }
      }
    }
    return undefined
  }
}

/** Whether bytes are the beginning of a frame's header, or nothing. */
function isHeaderStart(bytes: Buffer): boolean {
  const magic = Buffer.alloc(4)
  magic.writeUInt32LE(FRAME_MAGIC)
  const length = Math.min(4, bytes.length)
  return bytes.subarray(0, length).equals(magic.subarray(0, length)) || bytes.every((byte) => byte === 0)
}

/** Whether whole sectors at the end, or all of it, were never written. */
function endsBlank(bytes: Buffer, at: number): boolean {
  const end = at + bytes.length
  const from = Math.max(at, Math.floor((end - 1) / SECTOR) * SECTOR)
  return bytes.length > 0 && bytes.subarray(from - at).every((byte) => byte === 0)
}

export function damagedJournal(file: string, ending: Ending): DessError {
  return new DessError(
    "INVALID_DATA",
    `journal: expected record ${ending.next} at byte ${ending.at} of ${show(file)}, got damaged bytes; bring the file back from a copy, or open the directory with recover (--recover): that keeps every record before and after that is whole and says what is gone`,
  )
}
