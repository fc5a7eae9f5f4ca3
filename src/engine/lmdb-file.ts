/**
 * Reads files of LMDB's (data version 2), in which earlier versions kept their journal and their lookup table. A file is
 * pages; two of them say where the tree of tables begins, and a table is a tree, too.
 */

import { closeSync, fstatSync, openSync, readSync } from "node:fs"
import { basename } from "node:path"
import { DessError } from "../errors.ts"

const MAGIC = 0xbeefc0de
const VERSION = 2
const PAGE_HEAD = 24
const NODE_HEAD = 8
const BRANCH = 1
const LEAF = 2
/** Flags of a node: its value lies on pages of its own, or is where a table begins. */
const ELSEWHERE = 1
const TABLE = 2
/** Where the root stands in the description of a tree, and that one in the first pages. */
const ROOT = 40
const MAIN = 96
/** No tree is as deep. */
const DEEPEST = 32

export interface LmdbRow {
  key: Buffer
  value: Buffer
}

export class LmdbFile {
  readonly #path: string
  readonly #file: number
  readonly #size: number
  #pageBytes = 4096
  /** By name: the root of each table. */
  readonly #roots = new Map<string, bigint>()

  constructor(path: string) {
    this.#path = path
    this.#file = openSync(path, "r")
    try {
      this.#size = fstatSync(this.#file).size
      const first = this.#read(0, 168)
      this.#pageBytes = first.readUInt32LE(48)
      const heads = [first, this.#read(this.#pageBytes, 168)]
      const valid = heads.filter((head) => head.readUInt32LE(24) === MAGIC && head.readUInt32LE(28) === VERSION)
      if (valid.length === 0) throw this.#damaged("expected a file of LMDB's, data version 2, got another")
      const newest = valid.reduce((a, b) => (a.readBigUInt64LE(152) >= b.readBigUInt64LE(152) ? a : b))
      for (const { key, value, flags } of this.#walk(newest.readBigUInt64LE(MAIN + ROOT), DEEPEST))
        if (flags & TABLE) this.#roots.set(key.toString().replace(/\0$/, ""), value.readBigUInt64LE(ROOT))
    } catch (cause) {
      this.close()
      throw cause
    }
  }

  /** The rows of a table, in order; none where there is no such table. */
  rows(table: string): Iterable<LmdbRow> {
    const root = this.#roots.get(table)
    return root === undefined ? [] : this.#walk(root, DEEPEST)
  }

  *#walk(page: bigint, depth: number): Generator<LmdbRow & { flags: number }> {
    if (page === 0xffff_ffff_ffff_ffffn) return
    const bytes = this.#read(Number(page) * this.#pageBytes, this.#pageBytes)
    const kind = bytes.readUInt16LE(18)
    if (depth === 0 || !(kind & (BRANCH | LEAF)))
      throw this.#damaged(`expected a tree, got page ${page} of kind ${kind}`)
    const count = bytes.readUInt16LE(20) >> 1
    for (let n = 0; n < count; n++) {
      const at = PAGE_HEAD + bytes.readUInt16LE(PAGE_HEAD + 2 * n)
      const [size, flags, keyLength] = [bytes.readUInt32LE(at), bytes.readUInt16LE(at + 4), bytes.readUInt16LE(at + 6)]
      if (kind & BRANCH) {
        yield* this.#walk(BigInt(size) + (BigInt(flags) << 32n), depth - 1)
        continue
      }
      const from = at + NODE_HEAD + keyLength
      const key = bytes.subarray(at + NODE_HEAD, from)
      const value =
        flags & ELSEWHERE
          ? this.#read(Number(bytes.readBigUInt64LE(from)) * this.#pageBytes + PAGE_HEAD, size)
          : bytes.subarray(from, from + size)
      if (value.length !== size) throw this.#damaged(`expected a value of ${size} bytes, got ${value.length}`)
      yield { key, value, flags }
    }
  }

  #read(at: number, length: number): Buffer {
    if (at + length > this.#size) throw this.#damaged(`expected ${length} bytes at ${at}, got a file of ${this.#size}`)
    const bytes = Buffer.allocUnsafeSlow(length)
    for (let done = 0; done < length; ) {
      const count = readSync(this.#file, bytes, done, length - done, at + done)
      if (count === 0) throw this.#damaged(`expected ${length} bytes at ${at}, got ${done}`)
      done += count
    }
    return bytes
  }

  #damaged(problem: string): DessError {
    return new DessError("INVALID_DATA", `${basename(this.#path)}: ${problem}`)
  }

  close(): void {
    closeSync(this.#file)
  }
}
