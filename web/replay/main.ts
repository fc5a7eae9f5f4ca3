/** The replay: a visitor chooses a method and watches it along the embedded stream, in this tab. */

import "../style.css"
import type { RunResult, SegmentReport } from "../../src/learning/report.ts"
import type { Outlook } from "../../src/policies/outlook.ts"
import { find } from "../components/element.ts"
import { offerFile } from "../components/offer-file.ts"
import { startThemeSwitch } from "../components/theme.ts"
import { RunViews } from "../views/run-views.ts"
import { showTiles } from "../views/tiles.ts"
import type { FromWorker, ReplayOptions, ToWorker } from "./messages.ts"
import { type FinishedRun, showRuns, tilesOf } from "./results.ts"

startThemeSwitch(find("header.page .theme"))
const play = find<HTMLButtonElement>("#play")
const restart = find<HTMLButtonElement>("#restart")
const save = find<HTMLButtonElement>("#save")
const speed = find<HTMLSelectElement>("#speed")
const progress = find<HTMLProgressElement>("#progress")
const message = find("#message")
const form = find<HTMLFormElement>("#choices")
const recipe = find<HTMLSelectElement>("[name=recipe]", form)
const views = new RunViews(find("#figures"), { task: "binary", reports: [] })
/** Of finished runs. */
const finished: FinishedRun[] = []

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
    recipe: recipe.value === "paper" ? "paper" : "calibrated",
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
    tell(`Segment ${data.report.segment}, ${data.report.interactions.toLocaleString("en")} events.`)
    show()
  } else if (data.type === "end") {
    replay.result = data.result
    setPlaying(false)
    finished.push({ options: replay.options, result: data.result })
    showRuns(find("#runs"), finished)
    const speed = Math.round(data.result.interactionsPerSecond).toLocaleString("en")
    const kernels = data.kernels === "none" ? "plain TypeScript" : `${data.kernels} kernels (WebAssembly)`
    tell(`Done: ${speed} events/s, ${kernels}, one thread.`)
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
  views.show({ task: "binary", reports, outlook })
}

function setPlaying(playing: boolean): void {
  replay.playing = playing
  if (playing) showPictures()
  send(replay.worker, { type: "speed", speed: playing ? Number(speed.value) : 0 })
  refresh()
}

/** The first time it plays: before, they would be empty. The run's row is there from its start, so that nothing moves at its end. */
function showPictures(): void {
  for (const selector of ["#figures", "#runs"]) find(selector).hidden = false
  showRuns(find("#runs"), finished, replay.options)
  views.flush()
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

/** Some methods are networks: there is no choice of recipe for them. */
function offerRecipes(): void {
  const [method] = find<HTMLSelectElement>("[name=method]", form).selectedOptions
  if (!recipe.disabled) wantedRecipe = recipe.value
  recipe.disabled = method.dataset.recipe !== undefined
  recipe.value = method.dataset.recipe ?? wantedRecipe
}

let wantedRecipe = recipe.value

play.addEventListener("click", () => {
  if (!replay.playing && !form.reportValidity()) return
  if (replay.result) startAnew()
  setPlaying(!replay.playing)
})
restart.addEventListener("click", () => {
  if (form.reportValidity()) startAnew()
})
form.addEventListener("change", () => {
  offerRecipes()
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
