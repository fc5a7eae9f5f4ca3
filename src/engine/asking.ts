/** Who a list or a prediction is for, as the model sees it: with what was accepted and is not learned yet. */

import type { Asker, LabelledTrial, Reader } from "../learning/reader.ts"
import type { Catalogue } from "./catalogue.ts"

/** How many of a user's latest unlearned items count. */
const MOST_RECENT = 20

/** A user's index (undefined for a guest), and the items that neither rows nor catalogue have yet, oldest first. */
export interface Someone {
  user: number | undefined
  recent?: readonly LabelledTrial[] | undefined
}

/** A user with a row, or with recent items the model knows; undefined for all others. */
export function findAsker(catalogue: Catalogue, reader: Reader, { user, recent = [] }: Someone): Asker | undefined {
  const isKnown = user !== undefined && reader.knows("user", user)
  if (!reader.follow) return isKnown ? { user } : undefined
  const liked = recent.filter(({ label }) => label === 1).map(({ item }) => item)
  const likedAfter = (segment: number) => {
    const pending = user === undefined ? [] : (catalogue.pending?.since(user, segment, MOST_RECENT) ?? [])
    return liked.length === 0 ? pending : [...pending, ...liked].slice(-MOST_RECENT)
  }
  if (isKnown) return { user, recent: likedAfter }
  const asker = { user, recent: likedAfter }
  const hasKnown = likedAfter(0).some((item) => reader.knows("item", item))
  return hasKnown || (reader.comeBack?.(asker).size ?? 0) > 0 ? asker : undefined
}

/** For models without latest items: the events a user without a row is fitted to, for one list. */
export function trialsOf(reader: Reader, { user, recent = [] }: Someone): readonly LabelledTrial[] {
  if (reader.follow || !reader.preview || (user !== undefined && reader.knows("user", user))) return []
  return recent.slice(-MOST_RECENT)
}
