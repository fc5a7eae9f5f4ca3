/**
 * Copies of a stream, interleaved event by event, each with ids of its own. Nothing about an id changes but its neighbours, so a
 * policy that is free of scale gives it the same size.
 */

import type { InteractionBatch } from "../types.ts"
import { emptyBatch } from "./columns.ts"
import type { Stream } from "./stream.ts"

/** Copy c of id i has the index copies · i + c. Names and item features are left out. */
export function copyStream(stream: Stream, copies: number): Stream {
  return {
    name: stream.name,
    ...(stream.interactions === undefined ? {} : { interactions: copies * stream.interactions }),
    async *batches() {
      for await (const batch of stream.batches()) yield interleave(batch, copies)
    },
  }
}

function interleave(batch: InteractionBatch, copies: number): InteractionBatch {
  const out = emptyBatch(batch.length * copies)
  for (let r = 0; r < out.length; r++) {
    const row = Math.floor(r / copies)
    const copy = r - row * copies
    out.user[r] = batch.user[row] * copies + copy
    out.item[r] = batch.item[row] * copies + copy
    out.rating[r] = batch.rating[row]
    out.timestamp[r] = batch.timestamp[row]
  }
  return out
}
