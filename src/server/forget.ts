/** Forgetting a user: what was noted for clients of Gorse, then everything the recommender has, which finishes it after a crash. */

import type { Receipt } from "../engine/types.ts"
import type { Surroundings } from "./native.ts"

export async function forgetUser({ recommender, notes }: Surroundings, user: string): Promise<Receipt> {
  const live = recommender()
  const noted = notes.forget(user)
  const receipt = await live.forget(user)
  return { ...receipt, found: receipt.found || noted }
}
