/**
 * A learner as one of many: each trains on users of its own, all on the same items. Rows of ids travel as bytes; training
 * leaves changes of items, which add up where the item is at home; the policy's evidence, the global biases and the clock
 * add up everywhere. Sums of changes are what one process would have learned, but for what each did not know yet of the
 * others (stale by the time between two exchanges).
 *
 * Bytes begin with a version, what they are, and a mark of the options both ends must share.
 */

import { DessError, show } from "../errors.ts"
import { Packer, Unpacker } from "../kernels/packing.ts"
import type { Side } from "../types.ts"

/** An item's index elsewhere; undefined for one that is not there. */
export type Renumber = (item: number) => number | undefined

export interface ItemChange {
  index: number
  change: Uint8Array
}

export interface SharedLearner {
  /** Whether a row is in memory. */
  has(side: Side, index: number): boolean
  /** Rows a segment needs that are not in memory; those of its users' latest items once the users are. */
  missing(segment: { user: ArrayLike<number>; item: ArrayLike<number> }): Record<Side, number[]>
  /** Everything held for one id; undefined without a row. `renumber`: for a process where items have other indices. */
  takeRow(side: Side, index: number, renumber?: Renumber): Uint8Array | undefined
  /** Adds or replaces a row. */
  putRow(side: Side, index: number, row: Uint8Array): void
  /** From memory only; a change not taken yet stays to be taken. */
  dropRow(side: Side, index: number): void
  /** Top-k: the items a user in memory has met. */
  met(user: number): readonly number[]
  /** From now on: items whose size and stay are decided here; the others only follow. Default: all. */
  decide(isHome: (item: number) => boolean): void
  /** Users whose rows changed here since the last call, and items at home here; those without a row are gone. */
  takeTouched(): Record<Side, number[]>
  /** What training here changed in items, at home or not, since the last call. An item may occur more than once. */
  takeChanges(): ItemChange[]
  /** Adds a change made elsewhere, to the first row of an item that has none. */
  addChange(item: number, change: Uint8Array): void
  /** What training here added to what belongs to no id since the last call. The rows judged last are learned first. */
  takeEvidence(): Uint8Array
  addEvidence(evidence: Uint8Array): void
  /** All that belongs to no id. */
  takeDense(): Uint8Array
  /** Takes the newest of others: all of it before the first segment, then only what does not add up by evidence. */
  putDense(dense: Uint8Array): void
  /** What training here changed in that since it was taken or put last; undefined where there is no such thing. */
  takeDenseChange(): Uint8Array | undefined
  /** Adds a change made elsewhere; what was learned here counts as taken then. `own`: made here, and to be taken again. */
  addDenseChange(change: Uint8Array, p?: { own: boolean }): void
  /** Goes over to the mean of what was learned here and elsewhere since the last time, weighed by events. */
  averageDense(parts: readonly DenseShare[], own: number): void
}

/** What one of many changed in the dense part, and the events it learned for that. */
export interface DenseShare {
  change: Uint8Array
  weight: number
}

/** What a learner gives to be shared: pieces of bytes without their beginning. `read…` checks all, and returns what applies it. */
export interface Sharing {
  /** The options that decide what rows mean. */
  readonly shape: string
  has(side: Side, id: number): boolean
  /** Items that are also read for a user. */
  latest(user: number): number[]
  writeRow(side: Side, id: number, out: Packer, renumber?: Renumber): void
  readRow(side: Side, id: number, from: Unpacker): () => void
  drop(side: Side, id: number): void
  decide(isHome: (item: number) => boolean): void
  takeTouched(): Record<Side, number[]>
  takeChanges(write: (write: (out: Packer) => void) => Uint8Array): ItemChange[]
  readChange(item: number, from: Unpacker): () => void
  writeEvidence(out: Packer): void
  readEvidence(from: Unpacker): () => void
  writeDense(out: Packer): void
  readDense(from: Unpacker): () => void
  takeDenseChange?(): ((out: Packer) => void) | undefined
  readDenseChange?(from: Unpacker): (own: boolean) => void
  readDenseMean?(parts: readonly { from: Unpacker; weight: number }[], own: number): () => void
}

/** Written by this release, and the only one read. */
const VERSION = 1

const KINDS = ["user row", "item row", "item change", "evidence", "dense part", "dense change"] as const
export type Kind = (typeof KINDS)[number]

/** Bytes with the beginning that says what they are. */
export class Envelope {
  readonly #mark: number

  constructor(shape: string) {
    let hash = 0x811c9dc5
    for (let c = 0; c < shape.length; c++) hash = Math.imul(hash ^ shape.charCodeAt(c), 0x01000193)
    this.#mark = (hash ^ (hash >>> 16)) & 0xffff
  }

  seal(kind: Kind, write: (out: Packer) => void): Uint8Array {
    const out = new Packer()
    out.byte(VERSION)
    out.byte(KINDS.indexOf(kind))
    out.short(this.#mark)
    write(out)
    return out.done()
  }

  /** Reads all before anything is applied. */
  open(kind: Kind, bytes: Uint8Array, read: (from: Unpacker) => () => void): void {
    const from = this.begin(kind, bytes)
    const apply = read(from)
    from.end()
    apply()
  }

  /** Bytes behind a beginning that is as it should be. */
  begin(kind: Kind, bytes: Uint8Array): Unpacker {
    const from = new Unpacker(bytes, kind)
    checkHead(from, kind)
    if (from.short() !== this.#mark)
      throw new DessError(
        "INVALID_DATA",
        `${kind}: expected one of a learner with the same options, got another's; every process needs the same method, task, sizes, features and seed`,
      )
    return from
  }
}

function checkHead(from: Unpacker, kind: Kind): void {
  const version = from.byte()
  if (version !== VERSION)
    throw new DessError(
      "INVALID_DATA",
      `${kind}: expected version ${VERSION}, got ${version}; it was written by another release`,
    )
  const found = from.byte()
  if (KINDS[found] !== kind) throw from.damaged(show(kind), KINDS[found] ?? found)
}
