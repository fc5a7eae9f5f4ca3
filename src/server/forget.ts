/**
 * Forgetting a user: what was noted for clients of Gorse, and everything the recommender has. The notes remember that it
 * has begun, so that a start after a crash finishes it.
 */

import type { Receipt } from "../engine/types.ts"
import { DessError } from "../errors.ts"
import type { Surroundings } from "./native.ts"

export async function forgetUser(
  { recommender, notes }: Pick<Surroundings, "recommender" | "notes">,
  user: string,
): Promise<Receipt> {
  // Refuses before the notes are there.
  const live = recommender()
  const noted = notes.beginForgetting(user)
  try {
    const receipt = await live.forget(user)
    notes.endForgetting(user)
    return { ...receipt, found: receipt.found || noted }
  } catch (error) {
    // What could not be done for now is done at the next start.
    if (!(error instanceof DessError && error.code === "CLOSED")) notes.endForgetting(user)
    throw error
  }
}
