/** Is it healthy? */

import type { Figure } from "../../src/figures/figure.ts"
import { formatNumber } from "../components/stops.ts"
import type { LiveMessage, Status } from "../dashboard/types.ts"
import { lineOf, linesPanel } from "./learning.ts"
import type { Tile } from "./tiles.ts"

/** Over this many milliseconds before now. */
const RATE_WINDOW = 10_000

export interface Health {
  reports: readonly LiveMessage[]
  status: Status | undefined
  /** The service's clock, in milliseconds since 1970. */
  now: number
  /** When the connection was lost, by the same clock. */
  lost?: number | undefined
}

/** Events learned per second lately: from the first report of the last ten seconds to now. */
export function eventRate({ reports, now }: Pick<Health, "reports" | "now">): number {
  const recent = reports.filter(({ time }) => time >= now - RATE_WINDOW)
  if (recent.length === 0) return 0
  const events = recent.slice(1).reduce((sum, report) => sum + report.events, 0)
  return events / Math.max(1, (now - recent[0].time) / 1000)
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 10) return `${milliseconds.toFixed(1)} ms`
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  const seconds = milliseconds / 1000
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}

/** Ages and rates go on between two messages. */
export function healthTiles({ reports, status, now, lost }: Health): Tile[] {
  const last = reports[reports.length - 1]
  const duration = (value: number | null | undefined) => (value == null ? "–" : formatDuration(value))
  const count = (noun: string, many: number) => `${formatNumber(many)} ${noun}${many === 1 ? "" : "s"}`
  const known = status ? `${count("user", status.users.known)}, ${count("item", status.items.known)}` : " "
  const state =
    lost === undefined
      ? {
          value: status?.state ?? "–",
          note: status?.reason ?? (status ? `for ${formatDuration(Math.max(0, now - status.opened))}` : " "),
        }
      : { value: "offline", note: `for ${formatDuration(Math.max(0, now - lost))}` }
  return [
    { name: "State", ...state },
    { name: "Events", value: status ? formatNumber(status.events.accepted) : "–", note: known },
    {
      name: "Events/s",
      value: last ? formatNumber(Math.round(eventRate({ reports, now }))) : "–",
      note: "last ten seconds",
    },
    { name: "Freshness", value: duration(last?.freshness), note: "from an event to the lists" },
    { name: "Queue", value: last ? formatNumber(last.queue) : "–", note: "events to be learned" },
    {
      name: "Requests",
      value: duration(last?.latency?.p50),
      note: last?.latency ? `99 of 100 within ${duration(last.latency.p99)}` : "time to answer",
    },
  ]
}

/** What a restart would find. */
export function storageTiles({ reports, status, now }: Health): Tile[] {
  const last = reports[reports.length - 1]
  return [
    {
      name: "Journal",
      value: last?.journalEvents == null ? "–" : formatNumber(last.journalEvents),
      note: last?.journalEvents === null ? "in memory only" : "events to replay",
    },
    {
      name: "Snapshot",
      value: status?.snapshot ? formatDuration(Math.max(0, now - status.snapshot.time)) : "–",
      note: status?.snapshot ? "ago" : "none yet",
    },
  ]
}

/** Segments that were only replayed at the start have no freshness: nobody waited for them. */
export function healthFigure(reports: readonly LiveMessage[]): Figure {
  const live = (report: object) => report as LiveMessage
  const waited = reports.filter(({ freshness }) => freshness !== null)
  return {
    id: "health",
    title: "Is it healthy?",
    caption: "Per segment: how soon an event shows in lists, and how many wait to be learned.",
    panels: [
      linesPanel(
        "Freshness",
        "milliseconds",
        [lineOf(waited, { label: "freshness", colour: "blue" }, (report) => live(report).freshness)],
        { zero: true },
      ),
      linesPanel(
        "Queue",
        "events",
        [lineOf(waited, { label: "queue", colour: "blue" }, (report) => live(report).queue)],
        { zero: true },
      ),
    ],
  }
}
