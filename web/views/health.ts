/** Is it healthy? */

import type { Figure } from "../../src/figures/figure.ts"
import { formatNumber } from "../components/stops.ts"
import type { LiveMessage, Status } from "../dashboard/types.ts"
import { lineOf, linesPanel } from "./learning.ts"
import type { Tile } from "./tiles.ts"

/** Events per second over the reports of the last ten seconds. */
export function eventRate(reports: readonly LiveMessage[]): number {
  const last = reports[reports.length - 1]
  if (!last) return 0
  const recent = reports.filter(({ time }) => time >= last.time - 10_000)
  const seconds = (last.time - recent[0].time) / 1000
  const events = recent.slice(1).reduce((sum, report) => sum + report.events, 0)
  return seconds > 0 ? events / seconds : 0
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  const seconds = milliseconds / 1000
  if (seconds < 120) return `${seconds.toFixed(1)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}

export function healthTiles(reports: readonly LiveMessage[], status: Status | undefined): Tile[] {
  const last = reports[reports.length - 1]
  const duration = (value: number | null | undefined) => (value == null ? "–" : formatDuration(value))
  const known = status ? `${formatNumber(status.users.known)} users, ${formatNumber(status.items.known)} items` : ""
  return [
    { name: "State", value: status?.state ?? "–", note: status?.reason ?? (status ? status.method : "") },
    { name: "Events", value: status ? formatNumber(status.events.accepted) : "–", note: known },
    { name: "Events/s", value: last ? formatNumber(Math.round(eventRate(reports))) : "–", note: "last ten seconds" },
    { name: "Freshness", value: duration(last?.freshness), note: "accepted → in lists" },
    { name: "Queue", value: last ? formatNumber(last.queue) : "–", note: "events to be learned" },
    {
      name: "Journal",
      value: last?.journalEvents == null ? "–" : formatNumber(last.journalEvents),
      note: last?.journalEvents === null ? "in memory only" : "events to replay",
    },
    { name: "Snapshot", value: duration(last?.snapshotAge), note: last?.snapshotAge == null ? "none yet" : "ago" },
    { name: "Requests", value: duration(last?.latency?.p50), note: `p99 ${duration(last?.latency?.p99)}` },
  ]
}

export function healthFigure(reports: readonly LiveMessage[]): Figure {
  const live = (report: object) => report as LiveMessage
  return {
    id: "health",
    title: "Is it healthy?",
    caption: "Per segment: how soon an event shows in lists, and how many wait to be learned.",
    panels: [
      linesPanel("Freshness", "milliseconds", [
        lineOf(reports, { label: "freshness", colour: "blue" }, (report) => live(report).freshness),
      ]),
      linesPanel("Queue", "events", [
        lineOf(reports, { label: "queue", colour: "blue" }, (report) => live(report).queue),
      ]),
    ],
  }
}
