/** Lists shown to the owner: previews, which write nothing and are not counted. */

import { ApiError, getJson, pathOf, postJson } from "./api.ts"
import type { Recommendation } from "./types.ts"

interface Trial {
  item: string
  rating?: number
}

/** The list a user is given, by its variant where there are any. */
export const givenList = (user: string, count = 10) =>
  getJson<Recommendation[]>(`${pathOf("user", user)}/recommendations?count=${count}&include=title&counted=false`)

/** The model's list of a user, as it is or as it would be after doing something with items. */
export async function previewList(user: string, items: readonly Trial[] = [], count = 10): Promise<Recommendation[]> {
  try {
    return await postJson<Recommendation[]>(`${pathOf("user", user)}/preview`, { items, count, include: ["title"] })
  } catch (error) {
    // Some models cannot preview; they still have the current list.
    if (items.length > 0 || !(error instanceof ApiError) || error.status === 404) throw error
    return givenList(user, count)
  }
}
