/** Forgetting a user: everything the recommender has, and what was noted for clients of Gorse. */

import type { Receipt } from "../engine/types.ts"
import type { Surroundings } from "./native.ts"

export async function forgetUser({ recommender, notes }: Surroundings, user: string): Promise<Receipt> {
  const receipt = await recommender().forget(user)
  const noted = notes.forget(user)
  return { ...receipt, found: receipt.found || noted }
}
