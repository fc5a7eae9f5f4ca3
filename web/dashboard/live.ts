/** The live view: every picture of the running recommender, a report at a time. */

import { find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { healthFigure, healthTiles } from "../views/health.ts"
import { RunViews } from "../views/run-views.ts"
import { showTiles } from "../views/tiles.ts"
import { getJson } from "./api.ts"
import { type Connection, listen } from "./events.ts"
import type { LiveReport, Status } from "./types.ts"

/** Reports kept, and asked for at the start. */
const MOST_REPORTS = 600
const STATUS_INTERVAL = 5000

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
  let reports: LiveReport[] = []
  let status: Status | undefined
  const show = () => {
    showTiles(find("#tiles"), healthTiles(reports, status))
    const last = reports[reports.length - 1]
    views.show({ reports, outlook: last?.outlook, budget: status?.memory.budget ?? undefined })
    health.update(healthFigure(reports))
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
  show()
  refresh()
  listen<LiveReport>(`/v1/events?last=${MOST_REPORTS}`, {
    hear(report) {
      // After a restart, or a new connection, segments come again.
      reports = [...reports.filter(({ segment }) => segment < report.segment), report].slice(-MOST_REPORTS)
      show()
    },
    connection: tell,
  })
}
