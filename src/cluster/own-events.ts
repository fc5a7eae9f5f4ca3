/**
 * Events this process has appended to the log and trainers may not have learned yet: they count in its own lists at once.
 * A user's row says up to which entry of the log it has learned; what comes after is taken from here.
 */

import type { CheckedTrial } from "../engine/check.ts"
import { compareIds } from "./log.ts"

/** Events kept; of more the oldest users' go, and count when they are learned. */
const MOST = 100_000

interface OwnEvent extends CheckedTrial {
  id: string
}

export class OwnEvents {
  /** By user, in order of the log. */
  readonly #users = new Map<string, OwnEvent[]>()
  #count = 0

  get count(): number {
    return this.#count
  }

  add(user: string, event: OwnEvent): void {
    const own = this.#users.get(user)
    if (own) own.push(event)
    else this.#users.set(user, [event])
    this.#count++
    for (const oldest of this.#users.keys()) {
      if (this.#count <= MOST) return
      this.drop(oldest)
    }
  }

  /** A user's events after an entry of its log, oldest first. */
  after(user: string, id: string): CheckedTrial[] {
    return this.#users.get(user)?.filter((event) => compareIds(event.id, id) > 0) ?? []
  }

  /** Drops what is learned; `learned` gives the last entry learned of a user's log. */
  free(learned: (user: string) => string): void {
    for (const [user, events] of this.#users) {
      const last = learned(user)
      const left = events.filter(({ id }) => compareIds(id, last) > 0)
      if (left.length === events.length) continue
      this.#count -= events.length - left.length
      if (left.length > 0) this.#users.set(user, left)
      else this.#users.delete(user)
    }
  }

  drop(user: string): void {
    this.#count -= this.#users.get(user)?.length ?? 0
    this.#users.delete(user)
  }
}
