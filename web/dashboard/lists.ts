/** Lists shown to the owner: previews, which write nothing and are not counted. */

import { ApiError, getJson, pathOf, postJson } from "./api.ts"
import type { Recommendation } from "./types.ts"

interface Trial {
  item: string
  rating?: number
}

/** The list of a user, as it is or as it would be after doing something with items. */
export async function previewList(user: string, items: readonly Trial[] = [], count = 10): Promise<Recommendation[]> {
  const path = pathOf("user", user)
  try {
    return await postJson<Recommendation[]>(`${path}/preview`, { items, count, include: ["title"] })
  } catch (error) {
    // Some models cannot preview; they still have the current list.
    if (items.length > 0 || !(error instanceof ApiError) || error.status === 404) throw error
    return getJson<Recommendation[]>(`${path}/recommendations?count=${count}&include=title&counted=false`)
  }
}
