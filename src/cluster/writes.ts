/** The arguments of a fenced write, put together piece by piece in the order its script takes them. */

import { randomBytes } from "node:crypto"
import { DessError } from "../errors.ts"
import type { Cluster } from "./cluster.ts"
import type { Argument, Reply } from "./redis.ts"

/** The lease is another trainer's, or Redis is in another state than this trainer left it: memory must be read again. */
export class Fenced extends Error {
  constructor(what: string, reason: string) {
    super(`${what}: ${reason}`)
    this.name = "Fenced"
  }
}

type FencedScript = "segment" | "forget" | "owner"

export interface Fence {
  owner: string
  fence: string
  /** Number of the write before. */
  seq: number
  duration: string
}

/** Attempts of a write that got no answer, or for which Redis had no memory. */
const TRIES = 30
const PAUSE = 100
const LONGEST_PAUSE = 500

export class FencedWrite {
  readonly #script: FencedScript
  readonly #keys: string[]
  readonly #args: Argument[]
  readonly #places = new Map<string, number>()

  constructor(script: FencedScript, keys: string[], fence: Fence) {
    this.#script = script
    this.#keys = [...keys]
    this.#args = [fence.owner, fence.fence, String(fence.seq), randomBytes(9), fence.duration]
  }

  add(...args: (Argument | number)[]): void {
    for (const arg of args) this.#args.push(typeof arg === "number" ? String(arg) : arg)
  }

  /** A list with its length before it. */
  addAll<T>(all: readonly T[], toArgs: (one: T) => (Argument | number)[]): void {
    this.add(all.length)
    for (const one of all) this.add(...toArgs(one))
  }

  /** Rows in one argument: hundreds of small ones take as long to send as all the rest. */
  addRows(rows: Iterable<{ list: string; place: number; record: Buffer }>): void {
    const parts: Buffer[] = []
    for (const { list, place, record } of rows) {
      const head = Buffer.allocUnsafe(7)
      head.writeUInt16LE(this.key(list), 0)
      head[2] = place
      head.writeUInt32LE(record.length, 3)
      parts.push(head, record)
    }
    this.add(Buffer.concat(parts))
  }

  /** The place of a key among the keys. */
  key(name: string): number {
    let place = this.#places.get(name)
    if (place === undefined) {
      place = this.#keys.push(name)
      this.#places.set(name, place)
    }
    return place
  }

  /** The number of this write. Tried again while Redis does not answer or is full: it is the same write. */
  async send(cluster: Cluster, onTrouble: (error: DessError) => void): Promise<number> {
    const what = `${this.#script} ${this.#keys[0]}`
    for (let tries = 1; ; tries++) {
      try {
        const [seq, theirs] = (await cluster.run(this.#script, this.#keys, this.#args)) as Reply[]
        if (seq === -1) throw new Fenced(what, "another trainer has the lease")
        if (seq === -2) throw new Fenced(what, `expected write ${this.#args[2]} to be the last, got ${theirs}`)
        return seq as number
      } catch (error) {
        if (!(error instanceof DessError && error.code === "UNAVAILABLE") || tries >= TRIES) throw error
        onTrouble(error)
        await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_PAUSE, PAUSE * tries)))
      }
    }
  }
}
