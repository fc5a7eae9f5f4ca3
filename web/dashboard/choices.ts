/** Ids to pick from, asked for when a view is opened. */

import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { getJson } from "./api.ts"

const MOST_OFFERED = 500

const asked: Partial<Record<Side, Promise<string[]>>> = {}

/** Names of known ids, and fills the list the fields for them point to. */
export async function offerIds(side: Side): Promise<string[]> {
  asked[side] ??= getJson<string[]>(`/v1/${side}s?count=${MOST_OFFERED}`)
  try {
    const ids = await asked[side]
    find(`#${side}-ids`).replaceChildren(...ids.map((id) => element("option", { value: id })))
    // Too few to keep: more are on their way.
    if (ids.length < MOST_OFFERED) delete asked[side]
    return ids
  } catch {
    delete asked[side]
    return []
  }
}
