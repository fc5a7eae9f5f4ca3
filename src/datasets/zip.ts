/** Zip archives, as publishers pack data sets: the list of entries, and one entry at a time unpacked to a file. */

import { createReadStream, createWriteStream } from "node:fs"
import { type FileHandle, open, writeFile } from "node:fs/promises"
import { PassThrough, Transform } from "node:stream"
import { pipeline } from "node:stream/promises"
import { crc32, createInflateRaw } from "node:zlib"
import { DessError } from "../errors.ts"

export interface ZipEntry {
  /** With its folders. */
  name: string
  /** 0 stored, 8 deflated. */
  method: number
  crc: number
  packedBytes: number
  bytes: number
  /** Of the local header. */
  offset: number
}

const LOCAL = 0x04034b50
const CENTRAL = 0x02014b50
const END = 0x06054b50
const END_64 = 0x06064b50
const LOCATOR_64 = 0x07064b50
const WIDE = 0xffffffff

/** The files in an archive, folders left out. */
export async function listZip(path: string): Promise<ZipEntry[]> {
  const file = await open(path)
  try {
    const { count, offset, length } = await findDirectory(file, path)
    const directory = await readAt(file, offset, length)
    const entries: ZipEntry[] = []
    for (let k = 0, at = 0; k < count; k++) {
      if (at + 46 > directory.length || directory.readUInt32LE(at) !== CENTRAL) refuse(path, "a damaged list of files")
      const nameEnd = at + 46 + directory.readUInt16LE(at + 28)
      const extraEnd = nameEnd + directory.readUInt16LE(at + 30)
      const entry = {
        name: directory.toString("utf8", at + 46, nameEnd),
        method: directory.readUInt16LE(at + 10),
        crc: directory.readUInt32LE(at + 16),
        packedBytes: directory.readUInt32LE(at + 20),
        bytes: directory.readUInt32LE(at + 24),
        offset: directory.readUInt32LE(at + 42),
      }
      if (directory.readUInt16LE(at + 8) & 1) refuse(path, `${entry.name} encrypted`)
      widen(entry, directory.subarray(nameEnd, extraEnd))
      if (!entry.name.endsWith("/")) entries.push(entry)
      at = extraEnd + directory.readUInt16LE(at + 32)
    }
    return entries
  } finally {
    await file.close()
  }
}

/** Unpacks one entry to a file, and checks its length and checksum. */
export async function extractEntry(path: string, entry: ZipEntry, target: string): Promise<void> {
  const { name, method, packedBytes, bytes, crc } = entry
  if (method !== 0 && method !== 8) refuse(path, `${name} packed by method ${method}, which is not deflate`)
  let sum = 0
  let length = 0
  const check = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sum = crc32(chunk, sum)
      length += chunk.length
      done(null, chunk)
    },
  })
  const start = await findData(path, entry)
  if (packedBytes === 0) return writeFile(target, "")
  const packed = createReadStream(path, { start, end: start + packedBytes - 1, highWaterMark: 1 << 20 })
  const unpacker = method === 8 ? createInflateRaw({ chunkSize: 1 << 20 }) : new PassThrough()
  try {
    await pipeline(packed, unpacker, check, createWriteStream(target))
  } catch (error) {
    if (String((error as NodeJS.ErrnoException).code).startsWith("Z_")) refuse(path, `${name} damaged`)
    throw error
  }
  if (length !== bytes || sum !== crc) refuse(path, `${name} damaged`)
}

/** Where the list of entries stands: the last record of the file says it. */
async function findDirectory(
  file: FileHandle,
  path: string,
): Promise<{ count: number; offset: number; length: number }> {
  const { size } = await file.stat()
  const tailBytes = Math.min(size, 65_557) // the record and the longest comment
  const tail = await readAt(file, size - tailBytes, tailBytes)
  let at = tail.length - 22
  while (at >= 0 && tail.readUInt32LE(at) !== END) at--
  if (at < 0) refuse(path, "no list of files at its end; is the download complete?")
  let directory = {
    count: tail.readUInt16LE(at + 10),
    length: tail.readUInt32LE(at + 12),
    offset: tail.readUInt32LE(at + 16),
  }
  if (at >= 20 && tail.readUInt32LE(at - 20) === LOCATOR_64) {
    const record = await readAt(file, Number(tail.readBigUInt64LE(at - 12)), 56)
    if (record.length < 56 || record.readUInt32LE(0) !== END_64) refuse(path, "a damaged list of files")
    directory = {
      count: Number(record.readBigUInt64LE(32)),
      length: Number(record.readBigUInt64LE(40)),
      offset: Number(record.readBigUInt64LE(48)),
    }
  }
  if (directory.offset + directory.length > size) refuse(path, "a list of files that ends after the archive does")
  return directory
}

/** Lengths beyond 4 GiB stand in the extra field, in this order, those only that did not fit (zip64). */
function widen(entry: ZipEntry, extra: Buffer): void {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue
    let next = at + 4
    for (const key of ["bytes", "packedBytes", "offset"] as const) {
      if (entry[key] !== WIDE || next + 8 > extra.length) continue
      entry[key] = Number(extra.readBigUInt64LE(next))
      next += 8
    }
  }
}

/** The packed bytes begin after a local header whose length only it knows. */
async function findData(path: string, { name, offset }: ZipEntry): Promise<number> {
  const file = await open(path)
  try {
    const header = await readAt(file, offset, 30)
    if (header.length < 30 || header.readUInt32LE(0) !== LOCAL) refuse(path, `${name} damaged`)
    return offset + 30 + header.readUInt16LE(26) + header.readUInt16LE(28)
  } finally {
    await file.close()
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length)
  const { bytesRead } = await file.read(buffer, 0, length, position)
  return buffer.subarray(0, bytesRead)
}

function refuse(path: string, got: string): never {
  throw new DessError("INVALID_DATA", `zip file: expected a whole archive, got ${got} (${path})`)
}
