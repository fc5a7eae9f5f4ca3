/** Names of keys, and where an id belongs. The part in braces decides the slot: all keys of a partition share one. */

import { createHash } from "node:crypto"

/** Rows in one list, and entries of the catalogue in one hash. */
export const ROWS_PER_BUCKET = 64
export const ENTRIES_PER_BUCKET = 512

/** Where an id belongs: 32 bits of its name's hash. */
export function hashOf(name: string): number {
  return createHash("sha1").update(name).digest().readUInt32LE(0)
}

export class Keys {
  readonly prefix: string
  readonly partitions: number
  readonly #nameBuckets: number

  constructor(p: { prefix: string; partitions: number; nameBuckets: number }) {
    this.prefix = p.prefix
    this.partitions = p.partitions
    this.#nameBuckets = p.nameBuckets
  }

  partitionOf(name: string): number {
    return hashOf(name) % this.partitions
  }

  /** The partition of an index, and its number there. */
  place(index: number): { partition: number; number: number } {
    return { partition: index % this.partitions, number: Math.floor(index / this.partitions) }
  }

  index(partition: number, number: number): number {
    return number * this.partitions + partition
  }

  of(partition: number, what: string): string {
    return `${this.prefix}:{${partition}}:${what}`
  }

  /** The list with a row. */
  rows(side: "users" | "items", partition: number, number: number): string {
    return this.of(partition, `${side}:${Math.floor(number / ROWS_PER_BUCKET)}`)
  }

  /** The hash with an item's entry in the catalogue. */
  entries(partition: number, number: number): string {
    return this.of(partition, `entries:${Math.floor(number / ENTRIES_PER_BUCKET)}`)
  }

  /** The hash with an id's number. */
  names(side: "users" | "items", partition: number, name: string): string {
    const bucket = Math.floor(hashOf(name) / this.partitions) % this.#nameBuckets
    return this.of(partition, `${side}:names:${bucket}`)
  }

  get members(): string {
    return `${this.prefix}:members`
  }
}

export function metaKey(prefix: string): string {
  return `${prefix}:meta`
}
