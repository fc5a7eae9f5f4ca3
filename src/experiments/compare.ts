/** Runs a grid: cells in parallel, results kept as they come, finished cells never computed again. */

import { availableParallelism, cpus } from "node:os"
import { DessError, show } from "../errors.ts"
import { LEARNING } from "../learning/version.ts"
import type { CellOutcome, Reference } from "./cell-run.ts"
import { type Cell, cellKey, expandGrid, siblingKey } from "./cells.ts"
import { checksumOf } from "./data.ts"
import { type Grid, openGrid } from "./grid.ts"
import { type CellRunner, runInProcess } from "./processes.ts"
import { type CellRecord, isDone, packageVersion, ResultsFolder } from "./results.ts"
import { memoryCurve } from "./series.ts"

export interface CompareOptions {
  /** The results folder; without one the records are only returned. */
  out?: string
  /** Cells at a time; by default as many as there are cores. Results do not depend on it. */
  jobs?: number
  /** Threads per cell (1). Results do not depend on it. */
  threads?: number
  /** Where relative data paths start. */
  base?: string
  /** What was typed, to be kept with every result. */
  command?: string
  /** Stops the comparison: running cells are killed, finished ones kept. */
  signal?: AbortSignal
  /** Called for every cell that ends; first, with `kept`, for those the folder already holds. */
  onCell?: (record: CellRecord, kept: boolean) => void
  onStart?: (cell: Cell, key: string) => void
  onProgress?: (key: string, interactions: number, total?: number) => void
  /** How a cell is run; by default in a process of its own. */
  runCell?: CellRunner
}

export interface Comparison {
  /** Of the grid's cells that have ended, in the grid's order. */
  records: CellRecord[]
  /** Cells of the grid. */
  cells: number
  /** Run now, and found finished. */
  computed: number
  kept: number
  interrupted: boolean
}

/** Compares the methods of a grid. A cell that fails is recorded as failed and tried again the next time. */
export async function compare(grid: Grid, options: CompareOptions = {}): Promise<Comparison> {
  const { jobs = availableParallelism(), threads = 1 } = options
  for (const [name, count] of Object.entries({ jobs, threads }))
    if (!Number.isSafeInteger(count) || count < 1)
      throw new DessError("INVALID_ARGUMENT", `${name}: expected a whole number from 1, got ${show(count)}`)
  const full = await openGrid(grid, options.base)
  const cells = expandGrid(full)
  const sums = new Map<string, string>()
  for (const { path } of full.data) if (path !== "synthetic") sums.set(path, await checksumOf(path))
  const folder = options.out === undefined ? undefined : new ResultsFolder(options.out)
  try {
    return await new Comparing(cells, { ...options, jobs, threads, sums }, folder).run()
  } finally {
    folder?.close()
  }
}

/** Options with what they lack; `sums` by path of the data. */
interface WorkOptions extends CompareOptions {
  jobs: number
  threads: number
  sums: ReadonlyMap<string, string>
}

/** One comparison on its way. */
class Comparing {
  readonly #cells: Map<string, Cell>
  readonly #options: WorkOptions
  readonly #folder: ResultsFolder | undefined
  readonly #stop = new AbortController()
  /** Ended, now or before. */
  readonly #records = new Map<string, CellRecord>()
  readonly #waiting: Set<string>
  readonly #version = packageVersion()
  readonly #machine = describeMachine()
  #computed = 0
  #kept = 0

  constructor(cells: readonly Cell[], options: WorkOptions, folder: ResultsFolder | undefined) {
    this.#cells = new Map(cells.map((cell) => [cellKey(cell), cell]))
    this.#waiting = new Set(this.#cells.keys())
    this.#options = options
    this.#folder = folder
  }

  async run(): Promise<Comparison> {
    const { signal, jobs, onCell } = this.#options
    const stop = () => this.#stop.abort()
    if (signal?.aborted) stop()
    signal?.addEventListener("abort", stop, { once: true })
    for (const key of this.#cells.keys()) {
      const record = this.#folder?.records.get(key)
      if (record === undefined || record.status === "failed" || learnsOtherwise(record)) continue
      this.#records.set(key, record)
      this.#waiting.delete(key)
      this.#kept++
      onCell?.(record, true)
    }
    try {
      await this.#work(jobs)
    } finally {
      signal?.removeEventListener("abort", stop)
    }
    const records = [...this.#cells.keys()].flatMap((key) => this.#records.get(key) ?? [])
    const interrupted = this.#waiting.size > 0 || records.length < this.#cells.size
    return { records, cells: this.#cells.size, computed: this.#computed, kept: this.#kept, interrupted }
  }

  /** Keeps up to `jobs` cells running until none is left; the first error of ours (a full disk) ends everything. */
  async #work(jobs: number): Promise<void> {
    const running = new Set<Promise<void>>()
    let failure: unknown
    for (;;) {
      while (running.size < jobs && !this.#stop.signal.aborted) {
        const key = this.#nextReady()
        if (key === undefined) break
        const job = this.#runOne(key)
          .catch((error: unknown) => {
            failure ??= error
            this.#stop.abort()
          })
          .finally(() => running.delete(job))
        running.add(job)
      }
      if (running.size === 0) break
      await Promise.race(running)
    }
    if (failure !== undefined) throw failure
  }

  /** The first waiting cell that needs no other. */
  #nextReady(): string | undefined {
    for (const key of this.#waiting) if (this.#reference(this.#cells.get(key)!) !== "waiting") return key
    return undefined
  }

  /** The run a cell is to be matched with, or why there is none. */
  #reference(cell: Cell): Reference | "none" | "waiting" | CellOutcome {
    if (cell.match === undefined) return "none"
    for (const method of cell.match) {
      const record = this.#records.get(siblingKey(cell, method))
      if (record === undefined) return "waiting"
      if (isDone(record)) {
        const { embeddingBytesOverTime: bytes, rowBytesOverTime: rowBytes } = record.result
        const curve = memoryCurve(record.series)
        return { method, bytes, ...(curve && { rowBytes, curve }) }
      }
      if (record.status === "failed")
        return { status: "failed", message: `the run it is to be matched with, ${method}, failed` }
    }
    return { status: "unsupported", message: `there is no run on ${cell.data.name} to match` }
  }

  async #runOne(key: string): Promise<void> {
    const cell = this.#cells.get(key)!
    this.#waiting.delete(key)
    const { onStart, onProgress, onCell, threads, runCell = runInProcess } = this.#options
    const started = performance.now()
    const reference = this.#reference(cell)
    let outcome: CellOutcome
    if (typeof reference === "object" && "status" in reference) outcome = reference
    else {
      onStart?.(cell, key)
      const job = { cell, threads, ...(typeof reference === "object" ? { reference } : {}) }
      outcome = await runCell(job, {
        signal: this.#stop.signal,
        onProgress: (interactions, total) => onProgress?.(key, interactions, total),
      }).catch((error: unknown): CellOutcome => ({ status: "failed", message: (error as Error).message }))
    }
    if (this.#stop.signal.aborted && outcome.status !== "done") return
    const milliseconds = Math.round(performance.now() - started)
    const { command, sums } = this.#options
    const data = sums.get(cell.data.path)
    const { node, v8 } = process.versions
    const versions = { dess: this.#version, learning: LEARNING, node, v8 }
    const provenance = { ...(command === undefined ? {} : { command }), versions, ...(data && { data }) }
    const record = { key, version: this.#version, cell, milliseconds, machine: this.#machine, provenance, ...outcome }
    this.#records.set(key, record)
    this.#computed++
    // "There is nothing to match" may change with the grid's methods.
    if (outcome.status !== "unsupported" || cell.match === undefined) this.#folder?.append(record)
    onCell?.(record, false)
  }
}

/** Whether another build ran it that learns otherwise: beside today's it would compare builds and not methods. */
function learnsOtherwise({ provenance }: CellRecord): boolean {
  return (provenance?.versions.learning ?? LEARNING) !== LEARNING
}

function describeMachine(): string {
  const all = cpus()
  return `${all[0]?.model.trim() ?? "unknown processor"}, ${all.length} cores, Node ${process.version}, ${process.platform} ${process.arch}`
}
