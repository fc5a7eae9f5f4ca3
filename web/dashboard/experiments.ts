/** What lists led to, by variant: only where they are counted. */

import { element, find } from "../components/element.ts"
import { formatNumber } from "../components/stops.ts"
import { createTable } from "../components/table.ts"
import { ApiError, getJson } from "./api.ts"
import type { ExperimentRate, ExperimentsView } from "./types.ts"

const KINDS: Record<string, string> = {
  recommend: "for a user",
  guest: "for a guest",
  similar: "similar items",
  popular: "popular",
  newest: "new",
}
const NOT_COUNTED =
  "Lists are not counted here. Start the service with --tracking, or with --variants to compare settings."
const RATES = { click: "clicks", conversion: "conversions", outcome: "all conversions" } as const

const hundredths = (share: number) => (100 * share).toFixed(2).replace("-", "−")

/** "4.20 % (3.90 to 4.51)"; a difference is in points. */
function formatRate({ estimate, low, high }: ExperimentRate, unit = "%"): string {
  if (estimate === null) return "–"
  const interval = low === null || high === null ? "" : ` (${hundredths(low)} to ${hundredths(high)})`
  return `${hundredths(estimate)} ${unit}${interval}`
}

/** What an interval of a difference says. */
function judgeDifference({ low, high }: ExperimentRate): string {
  if (low === null || high === null) return "too little to say"
  return low > 0 ? "more" : high < 0 ? "fewer" : "cannot be told apart"
}

export async function openExperiments(): Promise<void> {
  const message = find("#experiments .message")
  const holder = find("#experiments .answer")
  message.textContent = "Asking …"
  try {
    const view = await getJson<ExperimentsView>("/v1/experiments")
    const since = new Date(view.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })
    message.textContent = `Counted since ${since}. Conversions: events of type ${view.conversions.join(", ") || "none"}.`
    holder.replaceChildren(...show(view))
  } catch (error) {
    holder.replaceChildren()
    const isOff = error instanceof ApiError && error.status === 404
    message.textContent = isOff ? NOT_COUNTED : (error as Error).message
  }
}

function show({ variants, differences }: ExperimentsView): HTMLElement[] {
  if (variants.every(({ lists }) => lists.length === 0))
    return [element("p", { class: "quiet" }, "No lists were given yet.")]
  const rows = variants.flatMap(({ name, share, lists }) => {
    const users = `${Math.round(100 * share)} %`
    if (lists.length === 0) return [[name, "none yet", "–", "–", "–", ...["0", "0", "0"], users]]
    return lists.map((list) => [
      ...[name, KINDS[list.kind] ?? list.kind],
      ...[list.clickRate, list.conversionRate, list.outcomeRate].map((rate) => formatRate(rate)),
      ...[list.impressions, list.clicks, list.conversions].map(formatNumber),
      users,
    ])
  })
  const columns = [
    ...[
      { title: "Variant", text: true },
      { title: "List", text: true },
    ],
    ...[{ title: "Clicks per list" }, { title: "Conversions per list" }, { title: "All conversions per list" }],
    ...[{ title: "Lists given" }, { title: "Clicks" }, { title: "Conversions" }, { title: "Users" }],
  ]
  const parts = [element("h3", {}, "By variant"), scroll(createTable(columns, rows))]
  if (differences.length > 0)
    parts.push(
      element("h3", {}, `Against ${differences[0].against}`),
      scroll(
        createTable(
          [
            { title: "Variant", text: true },
            { title: "Per list", text: true },
            { title: "It has", text: true },
            { title: "Difference" },
          ],
          differences.map((one) => [one.variant, RATES[one.rate], judgeDifference(one), formatRate(one, "points")]),
        ),
      ),
      element(
        "p",
        { class: "quiet" },
        "A difference is told where its interval leaves out 0. Variants without lists are compared by all conversions.",
      ),
    )
  return parts
}

const scroll = (table: HTMLElement) => element("div", { class: "scroll" }, table)
