/** The live view: every picture of the running recommender, a report at a time. */

import type { Outlook } from "../../src/policies/outlook.ts"
import { find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { fold } from "../components/fold.ts"
import { healthFigure, healthTiles, storageTiles } from "../views/health.ts"
import { memoryFigure } from "../views/memory.ts"
import { judgeLists, qualityFigure } from "../views/quality.ts"
import { RunViews } from "../views/run-views.ts"
import { showTiles } from "../views/tiles.ts"
import { ApiError, getJson, serviceTime } from "./api.ts"
import { type Connection, listen } from "./events.ts"
import { showExample } from "./example.ts"
import type { LiveMessage, Status } from "./types.ts"

/** Reports kept, and asked for at the start. */
const MOST_REPORTS = 600
const STATUS_INTERVAL = 5000
/** Draws at most this often. */
const DRAW_INTERVAL = 100
/** Ages count on. */
const TILES_INTERVAL = 1000
const RETRY_DELAY = 1000

const WORDS: Record<Connection, string> = {
  connecting: "Connecting …",
  connected: "Connected: drawn as events are learned.",
  lost: "The connection is lost; trying again …",
}

const NOTHING_YET = "Connected. No events yet."

class Live {
  readonly #reports: LiveMessage[] = []
  #status: Status
  #outlook: Outlook | null = null
  #lost: number | undefined
  #isListening = false
  #waiting = false
  readonly #views: RunViews
  readonly #health = new FigureView(healthFigure([]))
  readonly #quality: FigureView
  readonly #memory: FigureView

  /** What is asked of the service first says which pictures there are. */
  constructor(status: Status) {
    this.#status = status
    const method = find("#method .figures")
    this.#views = new RunViews(method, { task: status.task, reports: [] })
    this.#quality = new FigureView(qualityFigure([], status.task))
    this.#quality.element.id = "quality"
    this.#memory = new FigureView(memoryFigure(status))
    this.#health.element.id = "health"
    this.#memory.element.id = "memory"
    method.append(fold(this.#memory.element, "Where is the memory?"), fold(this.#health.element, "Is it healthy?"))
    find("#figures").prepend(this.#quality.element)
    this.#draw()
    setInterval(() => this.#drawTiles(), TILES_INTERVAL)
    setInterval(() => this.#refresh(), STATUS_INTERVAL)
    listen<LiveMessage>(`/v1/events?last=${MOST_REPORTS}`, {
      hear: (report) => this.#hear(report),
      connection: (state) => this.#listening(state),
    })
  }

  async #refresh(): Promise<void> {
    try {
      this.#status = await getJson<Status>("/v1/status")
      if (this.#isListening && this.#lost !== undefined) this.#tell("connected")
      this.#show()
    } catch (error) {
      // A line that has gone silent looks like one on which nothing happens.
      if (isSilence(error)) this.#tell("lost")
    }
  }

  #hear(report: LiveMessage): void {
    const reports = this.#reports
    // After a restart, or a new connection, segments come again.
    while ((reports.at(-1)?.segment ?? 0) >= report.segment) reports.pop()
    if (reports.length === 0) tell("connected")
    reports.push(report)
    if (reports.length > MOST_REPORTS) reports.shift()
    this.#outlook = report.outlook
    this.#show()
  }

  #listening(state: Connection): void {
    this.#isListening = state === "connected"
    this.#tell(state)
    if (!this.#isListening) return
    // All there are come again. It may be another service, without what this one knew.
    this.#reports.length = 0
    this.#refresh()
    showExample()
  }

  #tell(state: Connection): void {
    this.#lost = state === "lost" ? (this.#lost ?? serviceTime()) : undefined
    tell(state)
    if (state === "connected" && this.#reports.length === 0) find("#connection").textContent = NOTHING_YET
    this.#drawTiles()
  }

  /** Soon: past reports come all at once. */
  #show(): void {
    if (this.#waiting) return
    this.#waiting = true
    setTimeout(() => this.#draw(), DRAW_INTERVAL)
  }

  #draw(): void {
    this.#waiting = false
    const { task, memory } = this.#status
    const budget = memory.budget ?? undefined
    this.#drawTiles()
    this.#views.show({ task, reports: this.#reports, outlook: this.#outlook ?? undefined, budget })
    this.#memory.update(memoryFigure(this.#status))
    this.#quality.update(qualityFigure(this.#reports, task))
    find("#verdict").textContent = judgeLists(this.#reports, this.#status)
    find("#nav-experiments").hidden = !this.#status.experiments
    this.#health.update(healthFigure(this.#reports))
  }

  #drawTiles(): void {
    const tiles = find("#tiles")
    tiles.classList.toggle("stale", this.#lost !== undefined)
    const health = { reports: this.#reports, status: this.#status, now: serviceTime(), lost: this.#lost }
    showTiles(tiles, healthTiles(health))
    showTiles(find("#method .tiles"), storageTiles(health))
  }
}

const isSilence = (error: unknown) => error instanceof ApiError && error.status === 0

function tell(state: Connection): void {
  const connection = find("#connection")
  connection.textContent = WORDS[state]
  connection.classList.toggle("wrong", state === "lost")
}

export async function startLive(): Promise<void> {
  tell("connecting")
  showTiles(find("#tiles"), healthTiles({ reports: [], status: undefined, now: 0 }))
  for (;;)
    try {
      new Live(await getJson<Status>("/v1/status"))
      return
    } catch (error) {
      if (error instanceof Error && !isSilence(error)) find("#connection").textContent = error.message
      else tell("lost")
      await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY))
    }
}
