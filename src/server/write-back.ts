/** Feedback that Gorse's clients want written when a list is given, now or after a delay. */

import type { Event, Recommender } from "../engine/types.ts"
import { DessError } from "../errors.ts"

const MOST_WAITING = 100_000
const LONGEST_DELAY = 24 * 3_600_000
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Milliseconds of 10m or 1h30m0s. */
export function parseDelay(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)]
  const delay = parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit as keyof typeof UNITS], 0)
  if (delay <= LONGEST_DELAY) return delay
  throw new DessError("INVALID_ARGUMENT", `write-back-delay: expected at most 24h, got ${text}`)
}

interface Waiting {
  events: readonly Event[]
  /** Whether the user was known when it was asked for. */
  known: boolean
}

export class WriteBack {
  readonly #recommender: () => Recommender
  readonly #waiting = new Map<NodeJS.Timeout, Waiting>()
  #count = 0

  /** What is still waiting when the service stops is written then. */
  constructor(recommender: () => Recommender, stopping: AbortSignal) {
    this.#recommender = recommender
    stopping.addEventListener("abort", () => {
      for (const timer of [...this.#waiting.keys()]) this.#write(timer)
    })
  }

  /** All events are of one user. */
  async add(events: readonly Event[], delay: number): Promise<void> {
    if (delay === 0) {
      await this.#recommender().observe(events)
      return
    }
    if (this.#count + events.length > MOST_WAITING)
      throw new DessError("BUSY", `write-back: expected at most ${MOST_WAITING} waiting, got more; try again later`)
    const timer = setTimeout(() => this.#write(timer), delay)
    timer.unref()
    this.#waiting.set(timer, { events, known: this.#recommender().has("user", events[0].user) })
    this.#count += events.length
  }

  #write(timer: NodeJS.Timeout): void {
    const { events, known } = this.#waiting.get(timer) as Waiting
    clearTimeout(timer)
    this.#waiting.delete(timer)
    this.#count -= events.length
    // Forgotten in the meantime: stays forgotten.
    if (known && !this.#recommender().has("user", events[0].user)) return
    // No caller waits for it: a full queue loses a note of what was shown, no acknowledged event.
    this.#recommender()
      .observe(events)
      .catch(() => {})
  }
}
