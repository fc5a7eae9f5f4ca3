/** How a comparison looks while it runs: a live block on a terminal, a line per finished cell elsewhere. */

import type { Cell } from "../experiments/cells.ts"
import type { CellRecord } from "../experiments/results.ts"
import { formatBar, formatMeasure, formatPercent, formatSeconds, plain } from "./terminal.ts"

/** Where it is shown: stderr. */
export interface Screen {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

interface Running {
  cell: Cell
  started: number
  share: number
}

const REDRAW_MILLISECONDS = 150

export class CompareView {
  readonly #total: number
  readonly #jobs: number
  readonly #screen: Screen
  readonly #live: boolean
  readonly #running = new Map<string, Running>()
  /** Seconds of the cells that have ended, by what they were. */
  readonly #seconds = new Map<string, number[]>()
  readonly #left: Map<string, Cell>
  #ended = 0
  #drawn = 0
  #lines = 0

  constructor(cells: ReadonlyMap<string, Cell>, jobs: number, screen: Screen = process.stderr) {
    this.#screen = screen
    this.#live = screen.isTTY === true
    this.#left = new Map(cells)
    this.#total = cells.size
    this.#jobs = jobs
  }

  start(cell: Cell, key: string): void {
    this.#running.set(key, { cell, started: performance.now(), share: 0 })
    this.#draw()
  }

  progress(key: string, interactions: number, total: number | undefined): void {
    const running = this.#running.get(key)
    if (running && total) running.share = Math.min(1, interactions / total)
    this.#draw()
  }

  end(record: CellRecord, kept: boolean): void {
    this.#ended++
    this.#running.delete(record.key)
    this.#left.delete(record.key)
    if (record.status === "done")
      for (const name of groupsOf(record.cell)) {
        const known = this.#seconds.get(name) ?? []
        this.#seconds.set(name, [...known, record.milliseconds / 1000])
      }
    if (kept) return
    if (!this.#live || record.status !== "done") {
      this.#clear()
      const seconds = formatSeconds(record.milliseconds / 1000)
      this.#screen.write(
        `[${this.#ended}/${this.#total}] ${describeCell(record.cell)}: ${outcomeOf(record)}, ${seconds}\n`,
      )
    }
    this.#draw(true)
  }

  close(): void {
    this.#clear()
  }

  #draw(now = false): void {
    if (!this.#live || (!now && performance.now() - this.#drawn < REDRAW_MILLISECONDS)) return
    this.#drawn = performance.now()
    const width = this.#screen.columns || 80
    const lines = [...this.#running.values()].map(
      ({ cell, share }) => `${describeCell(cell).padEnd(Math.max(20, width - 34))} ${formatBar(share, 16)}`,
    )
    const share =
      this.#total === 0 ? 1 : (this.#ended + sum([...this.#running.values()].map((r) => r.share))) / this.#total
    const left = this.#secondsLeft()
    const rest = left === undefined ? "" : `, ${formatSeconds(left)} left`
    lines.push(`${this.#ended} of ${this.#total} cells ${formatBar(share)}${rest}`)
    this.#clear()
    this.#screen.write(`${lines.map((line) => line.slice(0, width - 1)).join("\n")}\n`)
    this.#lines = lines.length
  }

  #clear(): void {
    if (this.#lines > 0) this.#screen.write(`\u001b[${this.#lines}A\u001b[J`)
    this.#lines = 0
  }

  /** From the cells of the same kind that have ended, in this run or an earlier one. */
  #secondsLeft(): number | undefined {
    if (this.#seconds.size === 0) return undefined
    const now = performance.now()
    const each = [...this.#left].map(([key, cell]) => {
      const running = this.#running.get(key)
      const whole = this.#expected(cell)
      if (running === undefined) return whole
      const spent = (now - running.started) / 1000
      return running.share > 0.05 ? (spent * (1 - running.share)) / running.share : Math.max(0, whole - spent)
    })
    return sum(each) / this.#jobs
  }

  #expected(cell: Cell): number {
    const known = groupsOf(cell)
      .map((name) => this.#seconds.get(name))
      .find((seconds) => seconds !== undefined)
    return known ? sum(known) / known.length : 0
  }
}

/** What a cell's duration is likely to resemble, the nearest first. */
function groupsOf({ method, task, model, data }: Cell): string[] {
  return [
    JSON.stringify([method, task, model, data.name]),
    JSON.stringify([task, model, data.name]),
    JSON.stringify([data.name]),
    "",
  ]
}

export function describeCell({ method, task, model, data, seed }: Cell): string {
  return `${method} ${task} ${model} ${plain(data.name)} seed ${seed}`
}

function outcomeOf({ result, status, message }: CellRecord): string {
  if (status === "failed") return `failed (${plain(message ?? "")})`
  if (result === undefined) return `not possible (${plain(message ?? "")})`
  if (result.recall !== undefined) return `recall ${formatMeasure(result.recall)}, ndcg ${formatMeasure(result.ndcg)}`
  return `accuracy ${formatPercent(result.accuracy)}, loss ${formatMeasure(result.loss)}`
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
