/** How an id came by its size: a timeline, and a table with the reason for each step. */

import type { Figure } from "../../src/figures/figure.ts"
import { element } from "../components/element.ts"
import { createTable } from "../components/table.ts"
import { linesPanel } from "../views/learning.ts"
import type { Explanation, Status } from "./types.ts"

type Step = Explanation["history"][number]

const REASONS: Record<Step["why"], string> = {
  met: "first met",
  grown: "worth it as measured",
  explored: "tried, to learn what it earns",
  released: "not worth its rent",
  idle: "no event for long",
  budget: "others needed the room",
  elsewhere: "decided by another process",
}

/** What decided: what the numbers earn as measured and at most, against what the smaller size earns. */
function reasonOf({ why, scores }: Step): string {
  if (!scores) return REASONS[why]
  const { keep, grow, estimate } = scores
  return `${REASONS[why]}: grow ${short(estimate)}, at most ${short(grow)}; keep ${short(keep)}`
}

function short(value: number): string {
  const small = value !== 0 && Math.abs(value) < 0.001
  return small ? value.toExponential(1) : String(Number(value.toPrecision(2)))
}

/** The time of day of what was today, the day of what was not. */
function formatTime(time: number | null): string {
  if (time === null) return "–"
  const [then, now] = [new Date(time), new Date()]
  return then.toDateString() === now.toDateString()
    ? then.toLocaleTimeString("en-GB")
    : then.toLocaleDateString("en-CA")
}

export function historyTable(history: readonly Step[]): HTMLElement {
  const table = createTable(
    [{ title: "Segment" }, { title: "When" }, { title: "Size" }, { title: "Why", text: true }],
    history.map((step) => [String(step.segment), formatTime(step.time), String(step.size), reasonOf(step)]),
  )
  return element("div", { class: "scroll steps" }, table)
}

/** Each size holds until the next, the last until now. Sizes stand in steps of equal height. */
export function historyFigure({ side, size, history }: Explanation, status: Status): Figure {
  const sizes = [...Object.keys(status.memory.sizes[side]).map(Number), ...history.map((step) => step.size), 0, size]
  const levels = [...new Set(sizes)].sort((a, b) => a - b)
  const points = history.flatMap((step, i) => {
    const y = levels.indexOf(step.size)
    const end = history[i + 1]?.segment ?? Math.max(status.segments, step.segment + 1)
    return [
      { x: step.segment, y, note: reasonOf(step) },
      { x: end, y },
    ]
  })
  const { title: _, ...panel } = linesPanel("", "numbers", [{ label: "size", colour: "blue", points }])
  return {
    id: "history",
    title: "How did it grow?",
    caption:
      "How many numbers its vector has had, and why that changed. The reason gives what growing was found to earn, the most it may earn, and what keeping the size may earn.",
    panels: [{ ...panel, levels, x: "segment" }],
  }
}
