/**
 * Parts of a file that are written over where they stand. They are kept in a file beside it until they are: what a crash
 * left half written is made good by them.
 */

import { closeSync, existsSync, ftruncateSync, openSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { crc32 } from "node:zlib"
import { removeFile, replaceFileSlowly, syncData, syncFolder, writeAll } from "./disk.ts"

export interface OverlayPart {
  at: number
  bytes: Uint8Array
}

/** Place and length before each part, as float64. */
const PART_HEAD = 16
const CHECKSUM_BYTES = 4

export const overlayPath = (path: string) => `${path}.over`

/** Where a file ends once the parts, which are in order, are in it. */
export function overlaidLength(parts: readonly OverlayPart[]): number | undefined {
  const last = parts.at(-1)
  return last && last.at + last.bytes.length
}

/** Makes parts durable; from then on they count. */
export async function saveOverlay(path: string, parts: readonly OverlayPart[]): Promise<void> {
  let checksum = 0
  await replaceFileSlowly(overlayPath(path), async (append) => {
    for (const { at, bytes } of parts) {
      const head = Buffer.alloc(PART_HEAD)
      head.writeDoubleLE(at, 0)
      head.writeDoubleLE(bytes.length, 8)
      for (const some of [head, bytes]) {
        checksum = crc32(some, checksum)
        await append(some)
      }
    }
    const end = Buffer.alloc(CHECKSUM_BYTES)
    end.writeUInt32LE(checksum)
    await append(end)
  })
  await syncFolder(dirname(path))
}

/** What is yet to be written over a file; undefined where that is damaged. */
export function readOverlay(path: string): OverlayPart[] | undefined {
  if (!existsSync(overlayPath(path))) return []
  const bytes = readFileSync(overlayPath(path))
  const end = bytes.length - CHECKSUM_BYTES
  if (end < 0 || crc32(bytes.subarray(0, end)) !== bytes.readUInt32LE(end)) return undefined
  const parts: OverlayPart[] = []
  for (let at = 0; at < end; ) {
    const from = at + PART_HEAD
    at = from + bytes.readDoubleLE(from - 8)
    parts.push({ at: bytes.readDoubleLE(from - PART_HEAD), bytes: bytes.subarray(from, at) })
  }
  return parts
}

/** Writes parts over a file, which ends with the last of them. */
export async function applyOverlay(path: string, parts: readonly OverlayPart[]): Promise<void> {
  const file = openSync(path, "r+")
  try {
    for (const { at, bytes } of parts) await writeAll(file, bytes, at)
    ftruncateSync(file, overlaidLength(parts))
    await syncData(file)
  } finally {
    closeSync(file)
  }
  await removeFile(overlayPath(path))
  await syncFolder(dirname(path))
}
