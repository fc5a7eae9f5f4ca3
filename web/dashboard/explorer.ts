/** Everything the service knows of one user or item. */

import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { formatNumber } from "../components/stops.ts"
import { createTable } from "../components/table.ts"
import { linesPanel } from "../views/learning.ts"
import { formatBytes, showTiles } from "../views/tiles.ts"
import { getJson } from "./api.ts"
import type { Explanation, Recommendation } from "./types.ts"

const placeOf = (side: Side, id: string) => `#explore/${side}/${encodeURIComponent(id)}`

/** A link that explores an id. */
export function idLink(side: Side, id: string): HTMLElement {
  return element("a", { href: placeOf(side, id) }, id)
}

export function startExplorer(): void {
  const form = find<HTMLFormElement>("#explore form")
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const data = new FormData(form)
    location.hash = placeOf(data.get("side") === "item" ? "item" : "user", String(data.get("id")))
  })
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
    const path = `/v1/${side}s/${encodeURIComponent(id)}`
    const [explanation, list] = await Promise.all([
      getJson<Explanation>(path),
      getJson<Recommendation[]>(`${path}/${side === "user" ? "recommendations" : "similar"}`),
    ])
    if (location.hash !== place) return
    message.textContent = ""
    holder.replaceChildren(...describe(explanation, list))
  } catch (error) {
    if (location.hash !== place) return
    holder.replaceChildren()
    message.textContent = (error as Error).message
  }
}

function describe(explanation: Explanation, list: readonly Recommendation[]): HTMLElement[] {
  const { id, side, size, bytes, history, indicators, bounds, events } = explanation
  const tiles = element("div", { class: "tiles" })
  showTiles(tiles, [
    { name: "Size", value: formatNumber(size), note: formatBytes(bytes) },
    { name: side === "user" ? "Items met" : "Events", value: formatNumber(events) },
    { name: "Frequency", value: formatNumber(indicators.frequency) },
    { name: "Diversity", value: indicators.diversity === null ? "–" : formatNumber(indicators.diversity) },
    {
      name: "The policy would",
      value: bounds === null ? "–" : bounds.grow > bounds.keep ? "grow it" : "keep it",
      note: bounds === null ? "" : `grow ${formatNumber(bounds.grow)}, keep ${formatNumber(bounds.keep)}`,
    },
  ])
  const figures = element("div", { class: "figures" })
  const timeline = new FigureView(historyFigure(history))
  const steps = createTable(
    [{ title: "Segment" }, { title: "Size" }, { title: "Why", text: true }],
    history.map(({ segment, size, reason = "" }) => [String(segment), String(size), reason]),
  )
  const items = createTable(
    [{ title: "Item", text: true }, { title: "Score" }, { title: "Source", text: true }],
    list.map(({ item, score, source }) => [idLink("item", item), score.toFixed(4), source]),
  )
  figures.append(timeline.element, element("section", {}, element("h3", {}, listTitle(side)), scroll(items)))
  return [element("h2", {}, `${side === "user" ? "User" : "Item"} ${id}`), tiles, figures, scroll(steps)]
}

const listTitle = (side: Side) => (side === "user" ? "What would it be shown?" : "What is like it?")

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)

function historyFigure(history: Explanation["history"]) {
  // A step: each size holds until the next.
  const points = history.flatMap(({ segment, size }, i) => [
    ...(i > 0 ? [{ x: segment, y: history[i - 1].size }] : []),
    { x: segment, y: size },
  ])
  const panel = { ...linesPanel("", "numbers", [{ label: "size", colour: "blue" as const, points }]), x: "segment" }
  return { id: "history", title: "How did it grow?", caption: "Numbers in its vector.", panels: [panel] }
}
