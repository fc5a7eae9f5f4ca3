/** Ids to pick from, asked for when a view is opened. */

import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { getJson } from "./api.ts"
import { noteTitles, titleOf } from "./list-table.ts"
import type { Recommendation } from "./types.ts"

const MOST_OFFERED = 500

const asked: Partial<Record<Side, Promise<string[]>>> = {}

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
