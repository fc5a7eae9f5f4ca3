/** Zip archives, as publishers pack data sets: the list of entries, and one entry at a time unpacked to a file. */

import { createReadStream, createWriteStream } from "node:fs"
import { writeFile } from "node:fs/promises"
import { PassThrough, Transform } from "node:stream"
import { pipeline } from "node:stream/promises"
import { crc32, createInflateRaw } from "node:zlib"
import type { Entry, ZipFile } from "yauzl"
import { DessError, missingPackage } from "../errors.ts"

export interface ZipEntry {
  /** With its folders. */
  name: string
  entry: Entry
}

/** The files in an archive, folders left out. */
export async function listZip(path: string): Promise<ZipEntry[]> {
  const { getFileNameLowLevel } = await loadPackage()
  const archive = await openArchive(path)
  try {
    const entries: ZipEntry[] = []
    for await (const entry of archive.eachEntry()) {
      const { generalPurposeBitFlag, fileNameRaw, extraFields } = entry
      const name = getFileNameLowLevel(generalPurposeBitFlag, fileNameRaw, extraFields, false)
      if (!name.endsWith("/")) entries.push({ name, entry })
    }
    return entries
  } catch (error) {
    throw describe(error, path, "a damaged list of files")
  } finally {
    archive.close()
  }
}

/** Unpacks one entry to a file, and checks its length and checksum. */
export async function extractEntry(path: string, { name, entry }: ZipEntry, target: string): Promise<void> {
  const { compressionMethod, compressedSize, uncompressedSize } = entry
  if (entry.isEncrypted()) throw refusal(path, `${name} encrypted`)
  if (!entry.canDecodeFileData())
    throw refusal(path, `${name} packed by method ${compressionMethod}, which is not deflate`)
  let sum = 0
  let length = 0
  const check = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sum = crc32(chunk, sum)
      length += chunk.length
      done(length > uncompressedSize ? refusal(path, `${name} damaged`) : null, chunk)
    },
  })
  const archive = await openArchive(path)
  try {
    const { fileDataStart: start } = await archive.readLocalFileHeaderPromise(entry, { minimal: true })
    if (compressedSize === 0 && uncompressedSize === 0) return await writeFile(target, "")
    // In larger pieces than the archive's own stream has, which takes twice as long.
    const packed = createReadStream(path, { start, end: start + compressedSize - 1, highWaterMark: 1 << 20 })
    const unpacker = compressionMethod === 8 ? createInflateRaw({ chunkSize: 1 << 20 }) : new PassThrough()
    await pipeline(packed, unpacker, check, createWriteStream(target))
    if (length !== uncompressedSize || sum !== entry.crc32) throw refusal(path, `${name} damaged`)
  } catch (error) {
    throw describe(error, path, `${name} damaged`)
  } finally {
    archive.close()
  }
}

async function openArchive(path: string): Promise<ZipFile> {
  const { openPromise } = await loadPackage()
  try {
    // Names undecoded: it refuses an archive for a name that leads out of it, and none of them is used as a path here.
    return await openPromise(path, { autoClose: false, decodeStrings: false })
  } catch (error) {
    throw describe(error, path, "no list of files at its end; is the download complete?")
  }
}

async function loadPackage(): Promise<typeof import("yauzl")> {
  try {
    return await import("yauzl")
  } catch (cause) {
    throw missingPackage("zip file", "yauzl", cause)
  }
}

/** A DessError for a bad archive; errors of the disk keep their own message. */
function describe(error: unknown, path: string, got: string): unknown {
  const { errno, code } = error as NodeJS.ErrnoException
  const isDamage = errno === undefined || code?.startsWith("Z_")
  return isDamage && !(error instanceof DessError) ? refusal(path, got, error) : error
}

function refusal(path: string, got: string, cause?: unknown): DessError {
  return new DessError("INVALID_DATA", `zip file: expected a whole archive, got ${got} (${path})`, { cause })
}
