/** The embedded stream, fed at a chosen rate, so that a newcomer sees the service live. */

import { setTimeout as wait } from "node:timers/promises"
import type { Event, ItemEntry, Recommender } from "../engine/types.ts"
import { type SyntheticStream, synthetic } from "../stream/synthetic/synthetic.ts"

const TICK = 100
const ITEMS_AT_ONCE = 2000

export interface DemoFeed {
  /** Names of the item features the recommender has to be opened with. */
  features: readonly string[]
  /** Puts the items, then observes events until the signal. */
  run(recommender: Recommender, options: { rate: number; signal: AbortSignal }): Promise<void>
}

export function createDemoFeed(interactions = 1_000_000): DemoFeed {
  const stream = synthetic({ interactions })
  return {
    features: stream.features.columns,
    async run(recommender, { rate, signal }) {
      for (const items of itemEntries(stream)) await recommender.putItems(items)
      const events = repeatEvents(stream)
      const started = performance.now()
      let sent = 0
      while (!signal.aborted) {
        const due = Math.floor(((performance.now() - started) / 1000) * rate)
        const batch: Event[] = []
        while (sent < due && batch.length < 5000) {
          batch.push(events.next().value as Event)
          sent++
        }
        // A full queue: these are left out, the demo goes on.
        if (batch.length > 0) await recommender.observe(batch).catch((error) => ignoreBusy(error))
        if (sent >= due) await wait(TICK, undefined, { signal }).catch(() => {})
      }
    },
  }
}

function ignoreBusy(error: unknown): void {
  if ((error as { code?: string }).code !== "BUSY") throw error
}

function* itemEntries({ features, items, itemName }: SyntheticStream): Generator<ItemEntry[]> {
  const width = features.columns.length
  for (let from = 0; from < items; from += ITEMS_AT_ONCE)
    yield Array.from({ length: Math.min(ITEMS_AT_ONCE, items - from) }, (_, k) => {
      const row = features.values.subarray((from + k) * width, (from + k + 1) * width)
      const genres = features.columns.filter((_, c) => row[c] > 0)
      return { item: itemName(from + k), features: Array.from(row), categories: genres }
    })
}

/** The stream from its beginning, again and again; the time is when it is sent. */
function* repeatEvents(stream: SyntheticStream): Generator<Event> {
  for (;;)
    for (const { length, user, item, rating } of stream.batches())
      for (let r = 0; r < length; r++)
        yield { user: stream.userName(user[r]), item: stream.itemName(item[r]), rating: rating[r] }
}
