/** The bytes of a data file, chunk by chunk, unpacked on the way when the file is gzip or zstd. */

import { createReadStream } from "node:fs"
import { open } from "node:fs/promises"
import type { Transform } from "node:stream"
import * as zlib from "node:zlib"
import { DessError, type ErrorCode } from "../errors.ts"

/** A file of text, wherever its bytes come from. */
export interface TextFile {
  /** For messages. */
  path: string
  /** The unpacked bytes, from the start each time it is called. */
  chunks(): AsyncIterable<Buffer>
  /** Set by the reader that has met bytes which are not UTF-8 and taken them as Latin-1. */
  latin1?: boolean
}

export type Packing = "none" | "gzip" | "zstd" | "zip" | "parquet"

const CHUNK = 1 << 20

const MAGIC: readonly [Packing, readonly number[]][] = [
  ["gzip", [0x1f, 0x8b]],
  ["zstd", [0x28, 0xb5, 0x2f, 0xfd]],
  ["zip", [0x50, 0x4b, 0x03, 0x04]],
  ["zip", [0x50, 0x4b, 0x05, 0x06]],
  ["parquet", [0x50, 0x41, 0x52, 0x31]],
]

/** How a file is compressed, detected from its first bytes and not from its name. */
export async function detectPacking(path: string): Promise<Packing> {
  try {
    const file = await open(path)
    try {
      const head = new Uint8Array(4)
      await file.read(head, 0, 4, 0)
      const packing = MAGIC.find(([, magic]) => magic.every((byte, i) => head[i] === byte))?.[0] ?? "none"
      const said = /\.(zip|parquet)$/i.exec(path)?.[1]
      if (packing === "none" && said !== undefined)
        throw new DessError(
          "INVALID_DATA",
          `data file: expected ${said.toLowerCase()} as its name says, got other bytes; is the download complete? (${path})`,
        )
      return packing
    } finally {
      await file.close()
    }
  } catch (error) {
    throw readingError(path, error)
  }
}

/** A text file on disk; `onRead` is told how many of its bytes, packed as they are, were read. */
export function textFile(path: string, onRead?: (bytes: number) => void): TextFile {
  return { path, chunks: () => readChunks(path, onRead) }
}

async function* readChunks(path: string, onRead?: (bytes: number) => void): AsyncGenerator<Buffer> {
  const packing = await detectPacking(path)
  if (packing === "zip" || packing === "parquet") {
    throw new DessError(
      "UNSUPPORTED",
      `data file: expected text, got ${packing} (${path}); bring it into form with: dess prepare ${path} --out <dir>`,
    )
  }
  const file = createReadStream(path, { highWaterMark: CHUNK })
  const unpacked = packing === "none" ? file : file.pipe(createUnpacker(path, packing))
  // An error of the file does not travel through the pipe by itself.
  if (unpacked !== file) file.on("error", (error) => unpacked.destroy(error))
  try {
    for await (const chunk of unpacked as AsyncIterable<Buffer>) {
      onRead?.(file.bytesRead)
      yield chunk
    }
  } catch (error) {
    throw readingError(path, error)
  } finally {
    file.destroy()
  }
}

function createUnpacker(path: string, packing: "gzip" | "zstd"): Transform {
  if (packing === "gzip") return zlib.createGunzip({ chunkSize: CHUNK })
  // Node 22.15 and later have it.
  const { createZstdDecompress } = zlib as { createZstdDecompress?: (options: { chunkSize: number }) => Transform }
  if (createZstdDecompress !== undefined) return createZstdDecompress({ chunkSize: CHUNK })
  throw new DessError(
    "UNSUPPORTED",
    `data file: this Node.js cannot unpack zstd (${path}); unpack it first, or use: dess prepare ${path} --out <dir>`,
  )
}

/** A DessError for an error of the file system or of the decompressor. */
function readingError(path: string, error: unknown): unknown {
  if (error instanceof DessError || !(error instanceof Error)) return error
  const { code = "" } = error as NodeJS.ErrnoException
  const [kind, message]: [ErrorCode, string] =
    code === "ENOENT"
      ? ["NOT_FOUND", `data: expected a file or folder, got nothing at ${path}`]
      : code === "EACCES" || code === "EPERM"
        ? ["NOT_FOUND", `data: expected a readable file or folder, got "permission denied" (${path})`]
        : code.startsWith("Z_") || code.startsWith("ZSTD_")
          ? ["INVALID_DATA", `data file: expected a whole compressed file, got "${error.message}" (${path})`]
          : ["INVALID_DATA", `data file: cannot be read: ${error.message} (${path})`]
  return new DessError(kind, message, { cause: error })
}
