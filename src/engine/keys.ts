/** Idempotency keys: which events have been accepted. Kept as hashes, the newest so many. */

import { createHash } from "node:crypto"
import type { Journal } from "./journal.ts"
import type { Store } from "./store.ts"

export class Keys {
  readonly #most: number
  readonly #store: Store | undefined
  readonly #journal: Journal
  /** Those on their way to the disk; without a store, all. */
  readonly #held = new Map<string, number>()
  #next: number

  constructor(most: number, journal: Journal, store: Store | undefined) {
    this.#most = most
    this.#journal = journal
    this.#store = store
    this.#next = store?.nextKey ?? 0
  }

  /** Remembers a key; false when it was known. */
  admit(key: string): boolean {
    if (this.#most === 0) return true
    const hash = createHash("sha256").update(key).digest().subarray(0, 16)
    const name = hash.toString("latin1")
    if (this.#held.has(name) || this.#store?.hasKey(hash)) return false
    const order = this.#next++
    this.#held.set(name, order)
    if (this.#store) {
      this.#journal.change("keys", { hash, order })
      this.#journal.after(() => this.#held.delete(name))
    } else if (this.#held.size > this.#most) {
      const [oldest] = this.#held.keys()
      this.#held.delete(oldest)
    }
    return true
  }

  /** Drops the oldest from the disk. */
  async trim(): Promise<void> {
    if (this.#next > this.#most) await this.#store?.dropKeys(this.#next - this.#most)
  }
}
