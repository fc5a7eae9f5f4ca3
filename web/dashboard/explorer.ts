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
import { offerIds } from "./choices.ts"
import { idLink, listTable, placeOf } from "./list-table.ts"
import { createPreview } from "./preview.ts"
import type { Explanation, Recommendation, Status } from "./types.ts"

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
    location.hash = placeOf(data.get("side") === "item" ? "item" : "user", String(data.get("id")))
  })
}

/** Offers ids to pick from; where none is shown, as links. */
export async function openExplorer(): Promise<void> {
  const side = find<HTMLSelectElement>("#explore [name=side]").value === "item" ? "item" : "user"
  const holder = find("#explore .answer")
  const ids = await offerIds(side)
  if (location.hash.startsWith("#explore/") || !location.hash.startsWith("#explore")) return
  const links = ids.slice(0, MOST_LINKS).map((id) => element("li", {}, idLink(side, id)))
  holder.replaceChildren(
    element("p", { class: "quiet" }, links.length > 0 ? `Some of the ${side}s:` : `There are no ${side}s yet.`),
    element("ul", { class: "chips" }, ...links),
  )
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
      note:
        bounds === null
          ? "largest size, or no bounds"
          : `grow ${formatNumber(bounds.grow)}, keep ${formatNumber(bounds.keep)}`,
    },
  ])
  const figures = element("div", { class: "figures" })
  const timeline = new FigureView(historyFigure(history, status.segments))
  const steps = createTable(
    [{ title: "Segment" }, { title: "Time", text: true }, { title: "Size" }, { title: "Why", text: true }],
    history.map(({ segment, time, size, why, scores }) => [
      String(segment),
      time === null ? "–" : new Date(time).toLocaleString(),
      String(size),
      reasonOf(why, scores),
    ]),
  )
  figures.append(
    element("section", {}, timeline.element, scroll(steps)),
    element(
      "section",
      {},
      element("b", {}, listTitle(side)),
      scroll(listTable(list)),
      ...(side === "user" ? [createPreview(id, list)] : []),
    ),
  )
  return [element("h2", {}, `${side === "user" ? "User" : "Item"} ${id}`), tiles, figures]
}

type Step = Explanation["history"][number]

const REASONS: Record<Step["why"], string> = {
  met: "met",
  grown: "grew: worth it",
  explored: "grew: to find out",
  released: "let go: saves too little",
  idle: "let go: idle",
  budget: "let go: to make room",
  elsewhere: "decided by another trainer",
}

function reasonOf(why: Step["why"], scores: Step["scores"]): string {
  if (!scores) return REASONS[why]
  const { keep, grow, estimate } = scores
  return `${REASONS[why]} (saves ${formatNumber(estimate)}, at most ${formatNumber(grow)}; keeping ${formatNumber(keep)})`
}

const listTitle = (side: Side) => (side === "user" ? "What would it be shown?" : "What is like it?")

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)

/** A step from nothing: each size holds until the next, the last until now. */
function historyFigure(history: Explanation["history"], now: number): Figure {
  const steps = history.flatMap(({ segment, size }, i) => {
    const next = history[i + 1]?.segment ?? Math.max(now, segment + 1)
    return [
      { x: segment, y: size },
      { x: next, y: size },
    ]
  })
  const points = [...steps.slice(0, 1).map(({ x }) => ({ x, y: 0 })), ...steps]
  const { title: _, ...panel } = linesPanel("", "numbers", [{ label: "size", colour: "blue", points }])
  return {
    id: "history",
    title: "How did it grow?",
    caption: "Numbers in its vector.",
    panels: [{ ...panel, x: "segment" }],
  }
}
