/** Detects the encoding of a whole text file: UTF-8, or Latin-1 (as MovieLens titles before 2013). */

import { isAscii, isUtf8 } from "node:buffer"
import { DessError } from "../errors.ts"
import type { RecordBlock } from "./records.ts"

export type Encoding = "UTF-8" | "Latin-1"

/** UTF-8, or Latin-1 where the bytes are not UTF-8; in a file that was checked this is the file's encoding. */
export function decodeText(bytes: Buffer): string {
  return isAscii(bytes) || !isUtf8(bytes) ? bytes.toString("latin1") : bytes.toString("utf8")
}

/** Reads a file field by field: the first one beyond ASCII decides the encoding, and one in the other is refused. */
export class EncodingCheck {
  readonly #path: string
  #detected: { encoding: Encoding; line: number } | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** Undefined while all is ASCII. */
  get encoding(): Encoding | undefined {
    return this.#detected?.encoding
  }

  /** Takes the next records; they fill the first `used` bytes of the block. */
  take(block: RecordBlock, used: number): void {
    const bytes = block.bytes.subarray(0, used)
    if (isAscii(bytes)) return
    // Most files are UTF-8 throughout: then one look at the block is enough.
    if (this.encoding === "UTF-8" && isUtf8(bytes)) return
    for (let r = 0; r < block.count; r++)
      for (let f = block.first[r]; f < block.first[r + 1]; f++) {
        const field = block.bytes.subarray(block.start[f], block.end[f])
        if (!isAscii(field)) this.#tell(isUtf8(field) ? "UTF-8" : "Latin-1", block.line[r])
      }
  }

  #tell(encoding: Encoding, line: number): void {
    this.#detected ??= { encoding, line }
    if (encoding === this.#detected.encoding) return
    const [utf8, other] = encoding === "UTF-8" ? [line, this.#detected.line] : [this.#detected.line, line]
    throw new DessError(
      "INVALID_DATA",
      `data file: expected one encoding, got UTF-8 on line ${utf8} and bytes that are not on line ${other} (${this.#path}, line ${line}); save it as UTF-8 throughout`,
    )
  }
}
