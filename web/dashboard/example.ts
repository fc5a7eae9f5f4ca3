/** One user on the front page: what they chose beside what they are recommended. */

import { element, find } from "../components/element.ts"
import { getJson, pathOf } from "./api.ts"
import { idLink, noteTitles } from "./list-table.ts"
import { givenList } from "./lists.ts"
import type { Explanation } from "./types.ts"

const SHOWN = 8
/** Users it is chosen from: the one who has met most. */
const TRIED = 8

/** Items by their titles, or why there are none. */
export function titlesOf(items: readonly { item: string; title?: string | null }[], none: string): HTMLElement {
  noteTitles(items)
  const rows = items.map(({ item }) => element("li", {}, idLink("item", item)))
  return rows.length > 0 ? element("ol", { class: "titles" }, ...rows) : element("p", { class: "quiet" }, none)
}

/** Fills the front page's example; without users there is none. */
export async function showExample(): Promise<void> {
  try {
    const users = await getJson<string[]>(`/v1/users?count=${TRIED}`)
    if (users.length === 0) return find("#example").replaceChildren()
    const all = await Promise.all(users.map((user) => getJson<Explanation>(pathOf("user", user))))
    const { id, met = [] } = all.reduce((most, one) => (one.events > most.events ? one : most))
    const list = await givenList(id)
    find("#example").replaceChildren(
      element("b", {}, "For example, user ", idLink("user", id)),
      element(
        "div",
        { class: "pair" },
        element(
          "section",
          {},
          element("p", {}, "recently chose or rated"),
          titlesOf(met.slice(0, SHOWN), "No events yet."),
        ),
        element("section", {}, element("p", {}, "is recommended now"), titlesOf(list.slice(0, SHOWN), "Nothing yet.")),
      ),
    )
  } catch {
    // An example is not worth an error.
  }
}
