/** Everything the service knows of one user or item. */

import type { Figure } from "../../src/figures/figure.ts"
import type { Side } from "../../src/types.ts"
import { element, find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { formatNumber } from "../components/stops.ts"
import { createTable } from "../components/table.ts"
import { linesPanel } from "../views/learning.ts"
import { formatBytes, showTiles } from "../views/tiles.ts"
import { getJson } from "./api.ts"
import type { Explanation, Recommendation, Status } from "./types.ts"

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
    const [explanation, list, status] = await Promise.all([
      getJson<Explanation>(path),
      getJson<Recommendation[]>(`${path}/${side === "user" ? "recommendations" : "similar"}`),
      getJson<Status>("/v1/status"),
    ])
    if (location.hash !== place) return
    message.textContent = ""
    holder.replaceChildren(...describe(explanation, list, status))
  } catch (error) {
    if (location.hash !== place) return
    holder.replaceChildren()
    message.textContent = (error as Error).message
  }
}

function describe(explanation: Explanation, list: readonly Recommendation[], status: Status): HTMLElement[] {
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
  const timeline = new FigureView(historyFigure(history, status.segments))
  const steps = createTable(
    [{ title: "Segment" }, { title: "Size" }, { title: "Why", text: true }],
    history.map(({ segment, size, reason = "" }) => [String(segment), String(size), reason]),
  )
  const items = createTable(
    [{ title: "Item", text: true }, { title: "Score" }, { title: "Source", text: true }],
    list.map(({ item, score, source }) => [idLink("item", item), score.toFixed(4), source]),
  )
  figures.append(
    element("section", {}, timeline.element, scroll(steps)),
    element("section", {}, element("b", {}, listTitle(side)), scroll(items)),
  )
  return [element("h2", {}, `${side === "user" ? "User" : "Item"} ${id}`), tiles, figures]
}

const listTitle = (side: Side) => (side === "user" ? "What would it be shown?" : "What is like it?")

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)

/** A step: each size holds until the next, the last until now. */
function historyFigure(history: Explanation["history"], now: number): Figure {
  const points = history.flatMap(({ segment, size }, i) => {
    const next = history[i + 1]?.segment ?? Math.max(now, segment)
    return [
      { x: segment, y: size },
      { x: next, y: size },
    ]
  })
  const { title: _, ...panel } = linesPanel("", "numbers", [{ label: "size", colour: "blue", points }])
  return {
    id: "history",
    title: "How did it grow?",
    caption: "Numbers in its vector.",
    panels: [{ ...panel, x: "segment" }],
  }
}
