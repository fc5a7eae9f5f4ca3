/** Everything the service knows of one user or item. */

import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { formatNumber } from "../components/stops.ts"
import { formatBytes, showTiles, type Tile } from "../views/tiles.ts"
import { getJson, pathOf } from "./api.ts"
import { offerIds } from "./choices.ts"
import { historyFigure, historyTable } from "./history.ts"
import { idLink, listTable, placeOf, usersTable } from "./list-table.ts"
import { createPreview } from "./preview.ts"
import type { Explanation, Recommendation, SimilarUser, Status } from "./types.ts"

/** Links shown to somebody who has no id. */
const MOST_LINKS = 24

export function startExplorer(): void {
  const form = find<HTMLFormElement>("#explore form")
  const side = find<HTMLSelectElement>("[name=side]", form)
  const offer = () => {
    find("[name=id]", form).setAttribute("list", `${side.value}-ids`)
    openExplorer()
  }
  side.addEventListener("change", offer)
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const data = new FormData(form)
    const [side, id] = [data.get("side") === "item" ? "item" : "user", String(data.get("id"))] as const
    // The same id again: as it is by now.
    if (location.hash === placeOf(side, id)) explore(side, id)
    else location.hash = placeOf(side, id)
  })
}

/** Offers ids to pick from; where none is shown, as links. */
export async function openExplorer(): Promise<void> {
  const side = find<HTMLSelectElement>("#explore [name=side]").value === "item" ? "item" : "user"
  const holder = find("#explore .answer")
  const ids = await offerIds(side)
  if (location.hash.startsWith("#explore/") || !location.hash.startsWith("#explore")) return
  const links = ids.slice(0, MOST_LINKS).map((id) => element("li", {}, idLink(side, id)))
  find("#explore .message").textContent = links.length > 0 ? `Some of the ${side}s:` : `There are no ${side}s yet.`
  holder.replaceChildren(element("ul", { class: "chips" }, ...links))
}

interface Answer {
  explanation: Explanation
  status: Status
  /** Of a user: what it would be shown. Of an item: what is like it. */
  list: Recommendation[]
  /** Of a user. */
  users: SimilarUser[]
}

async function ask(side: Side, id: string): Promise<Answer> {
  const path = pathOf(side, id)
  const [explanation, status, list, users] = await Promise.all([
    getJson<Explanation>(path),
    getJson<Status>("/v1/status"),
    getJson<Recommendation[]>(`${path}/${side === "user" ? "recommendations" : "similar"}`),
    side === "user" ? getJson<SimilarUser[]>(`${path}/similar`) : [],
  ])
  return { explanation, status, list, users }
}

/** Shows one id; the place it is called for may have changed by the time it is known. */
export async function explore(side: Side, id: string): Promise<void> {
  const form = find<HTMLFormElement>("#explore form")
  find<HTMLSelectElement>("[name=side]", form).value = side
  find<HTMLInputElement>("[name=id]", form).value = id
  const place = location.hash
  const message = find("#explore .message")
  const holder = find("#explore .answer")
  message.textContent = "Asking …"
  try {
    const answer = await ask(side, id)
    if (location.hash !== place) return
    message.textContent = `After ${answer.status.segments.toLocaleString("en")} segments; Explore asks anew.`
    show(holder, answer)
  } catch (error) {
    if (location.hash !== place) return
    holder.replaceChildren()
    message.textContent = (error as Error).message
  }
}

function show(holder: HTMLElement, { explanation, status, list, users }: Answer): void {
  const { id, side, history } = explanation
  const tiles = element("div", { class: "tiles" })
  showTiles(tiles, tilesOf(explanation))
  const figure = historyFigure(explanation, status)
  const timeline = new FigureView(figure)
  const titled = (title: string, ...rest: Node[]) => element("section", {}, element("b", {}, title), ...rest)
  const sections =
    side === "user"
      ? [
          titled("What would it be shown?", scroll(listTable(list))),
          titled("Who is like it?", filled(users, usersTable)),
          createPreview(id),
        ]
      : [titled("What is like it?", filled(list, listTable))]
  holder.replaceChildren(
    element("h2", {}, `${side === "user" ? "User" : "Item"} ${id}`),
    tiles,
    element("div", { class: "figures" }, element("section", {}, timeline.element, historyTable(history)), ...sections),
  )
  // It has a width now, and is drawn before anything is painted.
  timeline.update(figure)
}

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)

/** A table, or why there is none. */
function filled<T>(rows: readonly T[], make: (rows: readonly T[]) => HTMLElement): HTMLElement {
  return rows.length > 0
    ? scroll(make(rows))
    : element("p", { class: "quiet" }, "Nobody to compare with: it holds no numbers, or it is alone.")
}

function tilesOf({ side, size, bytes, indicators, bounds, events, entry }: Explanation): Tile[] {
  const { frequency, diversity } = indicators
  const tiles: Tile[] = [
    { name: "Size", value: formatNumber(size), note: `${size === 1 ? "number" : "numbers"}, ${formatBytes(bytes)}` },
    {
      name: "Events",
      value: formatNumber(frequency),
      note: side === "user" ? `with ${formatNumber(events)} items` : "its frequency",
    },
    {
      name: "Diversity",
      value: diversity === null ? "–" : formatNumber(diversity),
      note: side === "user" ? "of the items it met" : "of the users who met it",
    },
    {
      name: "The policy would",
      value: bounds === null ? "–" : bounds.grow > bounds.keep ? "grow it" : "keep it",
      note:
        bounds === null
          ? "largest size, or no bounds"
          : `grow ${formatNumber(bounds.grow)}, keep ${formatNumber(bounds.keep)}`,
    },
  ]
  if (entry)
    tiles.push({
      name: "Catalogue",
      value: entry.hidden ? "hidden" : "shown",
      note: entry.categories.length > 0 ? entry.categories.join(", ") : "no categories",
    })
  return tiles
}
