/** A simulated shop that sends events at a chosen rate: a newcomer sees the service live, with a trained model. */

import { setTimeout as wait } from "node:timers/promises"
import type { Event, ServedRecommender } from "../engine/types.ts"
import { GENRES, happenings, listFilms } from "./demo-shop.ts"

const TICK = 100
const MOST_AT_ONCE = 2000
/** Events learned at full speed before the rate applies. */
const LEARNED_BEFORE = 50_000
/** Maximum queue of events meanwhile. */
const MOST_WAITING = 10_000

export interface FeedOptions {
  /** Events per second. */
  rate: number
  signal: AbortSignal
  /** Called with what is fed. */
  say?: ((text: string) => void) | undefined
}

export interface DemoFeed {
  /** Names of the item features; the recommender must be opened with them. */
  features: readonly string[]
  /** Puts the items, observes what is learned beforehand, then events at a rate until the signal. */
  run(recommender: ServedRecommender, options: FeedOptions): Promise<void>
}

export function createDemoFeed(): DemoFeed {
  return { features: GENRES, run }
}

async function run(recommender: ServedRecommender, { rate, signal, say }: FeedOptions): Promise<void> {
  await recommender.putItems(listFilms())
  const events = happenings()
  const take = (count: number) => Array.from({ length: count }, (): Event => events.next().value)
  // After a restart it continues where it stopped.
  let sent = recommender.status().events.accepted
  for (let skipped = 0; skipped < sent; skipped++) events.next()
  const first = sent === 0 ? "its first" : "the rest of its first"
  const begin =
    sent < LEARNED_BEFORE ? `${first} ${LEARNED_BEFORE.toLocaleString("en")} events at once, then` : "it goes on with"
  say?.(`feeding a simulated film shop: ${begin} ${rate} per second`)
  while (sent < LEARNED_BEFORE && !signal.aborted) {
    if (recommender.status().events.queue > MOST_WAITING) await pause(signal)
    else {
      const batch = take(Math.min(MOST_AT_ONCE, LEARNED_BEFORE - sent))
      await recommender.observe(batch)
      sent += batch.length
    }
  }
  const started = performance.now()
  const before = sent
  while (!signal.aborted) {
    const due = before + Math.floor(((performance.now() - started) / 1000) * rate)
    const batch = take(Math.min(MOST_AT_ONCE, due - sent))
    sent += batch.length
    // The queue is full: skip these and go on.
    if (batch.length > 0) await recommender.observe(batch).catch((error) => ignoreBusy(error))
    if (sent >= due) await pause(signal)
  }
}

const pause = (signal: AbortSignal) => wait(TICK, undefined, { signal }).catch(() => {})

function ignoreBusy(error: unknown): void {
  if ((error as { code?: string }).code !== "BUSY") throw error
}
