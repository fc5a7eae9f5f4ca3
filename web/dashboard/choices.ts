/** Ids to pick from, asked for when a view is opened. */

import type { ItemView } from "../../src/engine/types.ts"
import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { getJson } from "./api.ts"
import { noteTitles, titleOf } from "./list-table.ts"
import type { Recommendation } from "./types.ts"

const MOST_OFFERED = 500
const MOST_FOUND = 24
const MOST_NAMED = 5

const asked: Partial<Record<Side, Promise<string[]>>> = {}

/** The item with this id or title; where there is none, those whose titles have these words. */
export async function findItems(text: string): Promise<string[]> {
  const query = text.trim().slice(0, 256)
  if (query === "") return []
  const found = await getJson<ItemView[]>(`/v1/items?count=${MOST_FOUND}&query=${encodeURIComponent(query)}`)
  noteTitles(found)
  const exact = found.find(({ item, title }) => item === text || title === query)
  return (exact ? [exact] : found).map(({ item }) => item)
}

/** The one item that is meant; refuses words that mean none or several. */
export async function findItem(text: string): Promise<string> {
  const found = await findItems(text)
  if (found.length === 1) return found[0]
  if (found.length === 0) throw new Error(`There is no item "${text}" yet.`)
  throw new Error(`Several items have these words: ${found.slice(0, MOST_NAMED).map(titleOf).join(" · ")}. Which one?`)
}

/** Items with their titles. */
const newest = () =>
  getJson<Recommendation[]>(`/v1/new?count=${MOST_OFFERED}&include=title&counted=false`).catch(
    () => [] as Recommendation[],
  )

/** Names of known ids, and fills the list the fields for them point to. */
export async function offerIds(side: Side): Promise<string[]> {
  asked[side] ??= getJson<string[]>(`/v1/${side}s?count=${MOST_OFFERED}`)
  try {
    let ids = await asked[side]
    if (side === "item") {
      const latest = await newest()
      noteTitles(latest)
      // With the newest first there are titles to show.
      ids = [...new Set([...latest.map(({ item }) => item), ...ids])].slice(0, MOST_OFFERED)
    }
    find(`#${side}-ids`).replaceChildren(...ids.map((id) => element("option", { value: id }, titleOf(id))))
    // Too few to keep: more are on their way.
    if (ids.length < MOST_OFFERED) delete asked[side]
    return ids
  } catch {
    delete asked[side]
    return []
  }
}
