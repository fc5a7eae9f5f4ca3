/** The replay: a visitor chooses a method and watches it along the embedded stream, in this tab. */

import "../style.css"
import type { Outlook } from "../../src/run/outlook.ts"
import type { RunResult, SegmentReport } from "../../src/run/report.ts"
import { find } from "../components/element.ts"
import { offerFile } from "../components/offer-file.ts"
import { addThemeSwitch } from "../components/theme.ts"
import { RunViews } from "../views/run-views.ts"
import { showTiles } from "../views/tiles.ts"
import type { FromWorker, ReplayOptions, ToWorker } from "./messages.ts"
import { addRun, startRuns, tilesOf } from "./results.ts"

addThemeSwitch(find("header.page"))
const play = find<HTMLButtonElement>("#play")
const restart = find<HTMLButtonElement>("#restart")
const save = find<HTMLButtonElement>("#save")
const speed = find<HTMLSelectElement>("#speed")
const progress = find<HTMLProgressElement>("#progress")
const message = find("#message")
const form = find<HTMLFormElement>("#choices")
startRuns(find("#runs"))
const views = new RunViews(find("#figures"))

interface Replay {
  worker: Worker
  options: ReplayOptions
  reports: SegmentReport[]
  outlook: Outlook | undefined
  result: RunResult | undefined
  playing: boolean
}

let replay = begin()

function readOptions(): ReplayOptions {
  const data = new FormData(form)
  return {
    method: String(data.get("method")),
    preset: data.get("preset") === "paper" ? "paper" : "calibrated",
    interactions: Number(data.get("interactions")),
    seed: Number(data.get("seed")),
  }
}

/** A new run, paused at its start. */
function begin(): Replay {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" })
  const options = readOptions()
  const started: Replay = { worker, options, reports: [], outlook: undefined, result: undefined, playing: false }
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => hear(started, data)
  worker.onerror = () => hear(started, { type: "error", message: "the worker could not be started" })
  send(worker, { type: "start", options })
  progress.max = options.interactions
  tell("Press play.")
  return started
}

function send(worker: Worker, data: ToWorker): void {
  worker.postMessage(data)
}

function tell(text: string, wrong = false): void {
  message.textContent = text
  message.classList.toggle("wrong", wrong)
}

function hear(from: Replay, data: FromWorker): void {
  if (from !== replay) return
  if (data.type === "segment") {
    replay.reports.push(data.report)
    replay.outlook = data.outlook
    tell(`Segment ${data.report.segment}, ${data.report.interactions.toLocaleString("en")} interactions.`)
    show()
  } else if (data.type === "end") {
    replay.result = data.result
    setPlaying(false)
    addRun(find("#runs"), replay.options, data.result)
    const speed = Math.round(data.result.interactionsPerSecond).toLocaleString("en")
    const kernels = data.kernels === "none" ? "" : `${data.kernels} kernels, `
    tell(`Done: ${speed} interactions per second while it ran, ${kernels}one thread.`)
    views.flush()
  } else {
    setPlaying(false)
    tell(`It failed: ${data.message}`, true)
  }
  refresh()
}

function show(): void {
  const { reports, outlook } = replay
  progress.value = reports[reports.length - 1]?.interactions ?? 0
  showTiles(find("#tiles"), tilesOf(reports))
  views.show({ reports, outlook })
}

function setPlaying(playing: boolean): void {
  replay.playing = playing
  send(replay.worker, { type: "speed", speed: playing ? Number(speed.value) : 0 })
  refresh()
}

function refresh(): void {
  play.textContent = replay.playing ? "Pause" : replay.result ? "Again" : "Play"
  save.disabled = replay.reports.length === 0
}

function startAnew(): void {
  replay.worker.terminate()
  replay = begin()
  show()
  refresh()
}

play.addEventListener("click", () => {
  if (replay.result) startAnew()
  setPlaying(!replay.playing)
})
restart.addEventListener("click", startAnew)
form.addEventListener("change", () => {
  if (form.reportValidity()) startAnew()
})
form.addEventListener("submit", (event) => event.preventDefault())
speed.addEventListener("change", () => setPlaying(replay.playing))
save.addEventListener("click", () => {
  const { options, result, reports } = replay
  offerFile(`${options.method}.json`, JSON.stringify({ options, result, segments: reports }, null, 1))
})
show()
refresh()
