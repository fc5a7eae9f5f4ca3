/** Lists of ids as tables; one of recommendations beside another, with where each item stood there. */

import type { Side } from "../../src/types.ts"
import { element } from "../components/element.ts"
import { createTable } from "../components/table.ts"
import type { Recommendation, SimilarUser } from "./types.ts"

export const placeOf = (side: Side, id: string) => `#explore/${side}/${encodeURIComponent(id)}`

const titles = new Map<string, string>()

/** Notes the titles of items, to show them in place of ids from then on. */
export function noteTitles(list: readonly { item: string; title?: string | null }[]): void {
  for (const { item, title } of list) if (title) titles.set(item, title)
}

/** What an item is called, as far as it is known here. */
export const titleOf = (item: string) => titles.get(item) ?? item

/** A link that explores an id; an item is shown by its title. */
export function idLink(side: Side, id: string): HTMLElement {
  return element("a", { href: placeOf(side, id), title: id }, side === "item" ? titleOf(id) : id)
}

/** Four digits; what is less and not nothing is said to be so: somebody's chances may all be tiny. */
const formatScore = (score: number) => (score > 0 && score < 0.00005 ? "< 0.0001" : score.toFixed(4))

export function listTable(list: readonly Recommendation[], before?: readonly Recommendation[]): HTMLTableElement {
  noteTitles(list)
  const columns = [{ title: "Item", text: true }, { title: "Score" }, { title: "Source", text: true }]
  const stood = (name: string) => {
    const place = before?.findIndex(({ item }) => item === name) ?? -1
    return place < 0 ? "–" : String(place + 1)
  }
  return createTable(
    before ? [{ title: "Stood" }, ...columns] : columns,
    list.map(({ item, score, source }) => {
      const cells = [idLink("item", item), formatScore(score), source]
      return before ? [stood(item), ...cells] : cells
    }),
  )
}

export function usersTable(users: readonly SimilarUser[]): HTMLTableElement {
  return createTable(
    [{ title: "User", text: true }, { title: "Likeness" }],
    users.map(({ user, score }) => [idLink("user", user), formatScore(score)]),
  )
}
