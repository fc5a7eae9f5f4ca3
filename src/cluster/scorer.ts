/**
 * What a reader scores with, on top of a learner that holds the rows. Factors are read where they lie. Of a network
 * everything an item needs for ranking is worked out beforehand, for all items, into one of two rooms, while the other is
 * read; a little at a time, so that lists are given meanwhile.
 */

import { DessError } from "../errors.ts"
import type { Kernels } from "../kernels/kernels.ts"
import { openKernels } from "../kernels/open.ts"
import { createReader } from "../run/create.ts"
import { Factor } from "../run/factor.ts"
import { FactorReader } from "../run/factor-reader.ts"
import type { Run } from "../run/loop.ts"
import { Network } from "../run/network.ts"
import type { FullRunOptions } from "../run/options.ts"
import { packRows } from "../run/packed-rows.ts"
import { type NetworkReader, type Reader, type Room, roomPerItem, writingItems } from "../run/reader.ts"

export interface Scorer {
  readonly reader: Reader
  /** An item's row changed. */
  touch(item: number): void
  /** A user's row changed, or is gone. */
  putUser(user: number): void
  /** Has the items with a row read from now on, as they are; resolves when that is so. */
  refresh(items: Int32Array): Promise<void>
  /** Parameters changed that all scores depend on. */
  stale: boolean
  close(): void
}

export function createScorer(run: Run, options: FullRunOptions): Scorer {
  const { learner } = run
  if (learner instanceof Factor) return new FactorScorer(learner)
  if (learner instanceof Network) return new NetworkScorer(learner, options)
  throw new DessError("UNSUPPORTED", "method: expected one that many processes can share with --cluster, got another")
}

class FactorScorer implements Scorer {
  readonly reader: FactorReader
  readonly #kernels: Kernels
  stale = false

  constructor(learner: Factor) {
    this.#kernels = openKernels({ threads: 1 })
    this.reader = new FactorReader(learner.model, this.#kernels)
  }

  touch(item: number): void {
    this.reader.refresh([item])
  }

  putUser(): void {}

  async refresh(items: Int32Array): Promise<void> {
    this.reader.items = items
  }

  close(): void {
    this.#kernels.close()
  }
}

/** Items worked out between two pauses. */
const AT_ONCE = 256

class NetworkScorer implements Scorer {
  readonly reader: NetworkReader
  readonly #learner: Network
  readonly #kernels: Kernels
  #rooms: Room[] = []
  #closed = false
  stale = true
  /** No new version before this moment: working out takes a tenth of the time. */
  #next = 0

  constructor(learner: Network, options: FullRunOptions) {
    this.#learner = learner
    this.#kernels = openKernels({ shared: true, threads: 1 })
    this.reader = createReader(options, this.#kernels) as NetworkReader
  }

  touch(): void {
    this.stale = true
  }

  putUser(user: number): void {
    this.reader.putUsers(packRows(this.#learner.model.inputs.user.table, [user]))
  }

  async refresh(items: Int32Array): Promise<void> {
    const start = performance.now()
    if (!this.stale || start < this.#next) return
    this.stale = false
    const { model } = this.#learner
    const values = model.parameters.copyValues()
    const room = this.#room(items.length * roomPerItem(model))
    const writing = writingItems(model, { items, room, chunk: AT_ONCE })
    let busy = 0
    for (;;) {
      const from = performance.now()
      const { done, value } = writing.next()
      busy += performance.now() - from
      if (done) {
        const nobody = { userIds: new Int32Array(0), userSteps: new Uint8Array(0), userRows: new Float32Array(0) }
        this.reader.apply({ items, arrays: { ...values, ...nobody, powers: Uint8Array.of(value ? 1 : 0) } }, room)
        break
      }
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#closed) return
    }
    this.#next = performance.now() + 9 * busy
  }

  /** The room that is not read, large enough. */
  #room(length: number): Room {
    const free = this.#rooms.length < 2 ? undefined : this.#rooms.shift()
    const room = free && free.length >= length ? free : this.reader.reserve(2 * length)
    room.floats = this.#kernels.floats as Float32Array
    this.#rooms.push(room)
    return room
  }

  close(): void {
    this.#closed = true
    this.#kernels.close()
  }
}
