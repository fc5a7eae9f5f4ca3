/** Everything the service knows of one user or item. */

import type { Properties } from "../../src/engine/types.ts"
import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { formatNumber } from "../components/stops.ts"
import { formatBytes, showTiles, type Tile } from "../views/tiles.ts"
import { ApiError, getJson, pathOf } from "./api.ts"
import { findItems, offerIds } from "./choices.ts"
import { titlesOf } from "./example.ts"
import { historyFigure, historyTable } from "./history.ts"
import { idLink, listTable, noteTitles, placeOf, titleOf, usersTable } from "./list-table.ts"
import { givenList } from "./lists.ts"
import { createPreview } from "./preview.ts"
import type { Explanation, Recommendation, SimilarUser, Status } from "./types.ts"

/** Links shown to somebody who has no id. */
const MOST_LINKS = 24
/** As many as a list beside it has. */
const MOST_MET = 10

export function startExplorer(): void {
  const form = find<HTMLFormElement>("#explore form")
  const side = find<HTMLSelectElement>("[name=side]", form)
  const offer = () => {
    find("[name=id]", form).setAttribute("list", `${side.value}-ids`)
    openExplorer()
  }
  side.addEventListener("change", offer)
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    const data = new FormData(form)
    const [side, text] = [data.get("side") === "item" ? "item" : "user", String(data.get("id"))] as const
    const id = side === "item" ? await chooseItem(text) : text
    if (id === undefined) return
    // The same id again: as it is by now.
    if (location.hash === placeOf(side, id)) explore(side, id)
    else location.hash = placeOf(side, id)
  })
}

/** The item of an id or a title; of several titles with these words, links are shown. */
async function chooseItem(text: string): Promise<string | undefined> {
  const found = await findItems(text)
  if (found.length < 2) return found[0] ?? text
  if (location.hash !== "#explore") history.pushState(null, "", "#explore")
  find("#explore .message").textContent = "Which one?"
  const links = found.map((item) => element("li", {}, idLink("item", item)))
  find("#explore .answer").replaceChildren(element("ul", { class: "chips" }, ...links))
  return undefined
}

/** Offers ids to pick from; where none is shown, as links. */
export async function openExplorer(): Promise<void> {
  const side = find<HTMLSelectElement>("#explore [name=side]").value === "item" ? "item" : "user"
  const holder = find("#explore .answer")
  const ids = await offerIds(side)
  if (location.hash.startsWith("#explore/") || !location.hash.startsWith("#explore")) return
  const links = ids.slice(0, MOST_LINKS).map((id) => element("li", {}, idLink(side, id)))
  find("#explore .message").textContent = links.length > 0 ? `A few ${side}s:` : `There are no ${side}s yet.`
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
    side === "user" ? givenList(id) : getJson<Recommendation[]>(`${path}/similar?include=title&counted=false`),
    side === "user" ? getJson<SimilarUser[]>(`${path}/similar`) : [],
  ])
  if (explanation.entry) noteTitles([explanation.entry])
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
    message.textContent = `As of ${answer.status.events.learned.toLocaleString("en")} events; press Explore to look again.`
    show(holder, answer)
  } catch (error) {
    if (location.hash !== place) return
    holder.replaceChildren()
    const isUnknown = error instanceof ApiError && error.status === 404
    message.textContent = isUnknown ? `There is no ${side} "${id}" yet.` : (error as Error).message
  }
}

function show(holder: HTMLElement, { explanation, status, list, users }: Answer): void {
  const { id, side, history } = explanation
  const tiles = element("div", { class: "tiles" })
  showTiles(tiles, tilesOf(explanation))
  const inner = element("div", { class: "tiles" })
  showTiles(inner, methodTiles(explanation))
  const figure = historyFigure(explanation, status)
  const timeline = new FigureView(figure)
  const titled = (title: string, ...rest: Node[]) => element("section", {}, element("b", {}, title), ...rest)
  const sections =
    side === "user"
      ? [
          titled(
            "What did they choose lately?",
            titlesOf((explanation.met ?? []).slice(0, MOST_MET), "No events yet."),
          ),
          titled("What are they recommended?", filled(list, listTable)),
          titled("Who is like them?", filled(users, usersTable)),
          createPreview(id),
        ]
      : [titled("What is like it?", filled(list, listTable))]
  holder.replaceChildren(
    element("h2", {}, side === "user" ? `User ${id}` : titleOf(id) === id ? `Item ${id}` : titleOf(id)),
    tiles,
    element("div", { class: "figures" }, ...sections),
    element(
      "details",
      { class: "inner" },
      element("summary", {}, "How the model holds it"),
      inner,
      element("section", {}, timeline.element, historyTable(history)),
    ),
  )
  // It has a width now, and is drawn before anything is painted.
  timeline.update(figure)
}

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)

/** A table, or why there is none. */
function filled<T>(rows: readonly T[], make: (rows: readonly T[]) => HTMLElement): HTMLElement {
  return rows.length > 0 ? scroll(make(rows)) : element("p", { class: "quiet" }, "Nothing to show yet: too few events.")
}

/** What its owner knows of it. */
function tilesOf({ id, side, events, indicators, entry }: Explanation): Tile[] {
  const note = side === "user" ? `with ${formatNumber(events)} items` : "with it"
  const tiles: Tile[] = [{ name: "Events", value: formatNumber(indicators.frequency), note }]
  if (!entry) return tiles
  if (entry.title) tiles.unshift({ name: "Id", value: id, note: describeProperties(entry.properties) })
  const categories = entry.categories.length > 0 ? entry.categories.join(", ") : "no categories"
  return [...tiles, { name: "Catalogue", value: entry.hidden ? "hidden" : "shown", note: categories }]
}

/** What the model and its policy know of it. */
function methodTiles({ side, size, bytes, indicators, bounds }: Explanation): Tile[] {
  const { diversity } = indicators
  const tiles: Tile[] = [
    { name: "Size", value: formatNumber(size), note: `${size === 1 ? "number" : "numbers"}, ${formatBytes(bytes)}` },
  ]
  if (diversity !== null)
    tiles.push({
      name: "Diversity",
      value: formatNumber(diversity),
      note: side === "user" ? "of the items they chose" : "of the users who chose it",
    })
  if (bounds !== null)
    tiles.push({
      name: "The policy would",
      value: bounds.grow > bounds.keep ? "grow it" : "keep it",
      note: `grow ${formatNumber(bounds.grow)}, keep ${formatNumber(bounds.keep)}`,
    })
  return tiles
}

function describeProperties(properties: Properties): string {
  const all = Object.entries(properties).map(([name, value]) => `${name}: ${[value].flat().join(", ")}`)
  return all.length > 0 ? all.join("; ") : "no properties"
}
