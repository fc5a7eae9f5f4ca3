/** The live view: every picture of the running recommender, a report at a time. */

import type { Outlook } from "../../src/run/outlook.ts"
import { find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { healthFigure, healthTiles } from "../views/health.ts"
import { RunViews } from "../views/run-views.ts"
import { showTiles } from "../views/tiles.ts"
import { getJson } from "./api.ts"
import { type Connection, listen } from "./events.ts"
import type { LiveMessage, Status } from "./types.ts"

/** Reports kept, and asked for at the start. */
const MOST_REPORTS = 600
const STATUS_INTERVAL = 5000
/** Draws at most this often. */
const DRAW_INTERVAL = 100

const WORDS: Record<Connection, string> = {
  connecting: "Connecting …",
  connected: "Live",
  lost: "The connection is lost; trying again …",
}

export function startLive(): void {
  const views = new RunViews(find("#figures"))
  const health = new FigureView(healthFigure([]))
  health.element.id = "health"
  find("#figures").append(health.element)
  const connection = find("#connection")
  const reports: LiveMessage[] = []
  let status: Status | undefined
  let outlook: Outlook | null = null
  let waiting = false
  const draw = () => {
    waiting = false
    showTiles(find("#tiles"), healthTiles(reports, status))
    views.show({ reports, outlook: outlook ?? undefined, budget: status?.memory.budget ?? undefined })
    health.update(healthFigure(reports))
  }
  // Past reports come all at once.
  const show = () => {
    if (waiting) return
    waiting = true
    setTimeout(draw, DRAW_INTERVAL)
  }
  const tell = (state: Connection) => {
    connection.textContent = WORDS[state]
    connection.classList.toggle("wrong", state === "lost")
  }
  const refresh = async () => {
    try {
      status = await getJson<Status>("/v1/status")
      show()
    } catch {}
    setTimeout(refresh, STATUS_INTERVAL)
  }
  tell("connecting")
  draw()
  refresh()
  listen<LiveMessage>(`/v1/events?last=${MOST_REPORTS}`, {
    hear(report) {
      // After a restart, or a new connection, segments come again.
      while ((reports.at(-1)?.segment ?? 0) >= report.segment) reports.pop()
      reports.push(report)
      if (reports.length > MOST_REPORTS) reports.shift()
      outlook = report.outlook
      show()
    },
    connection: tell,
  })
}
