/**
 * Worker threads over one shared memory. A worker's whole life is `work()` of the Wasm module: it sleeps until there is
 * something to do. Until they are up the work is done without them, which changes no bit.
 */

import { READY } from "./layout.ts"
import type { WasmMemory, WasmModule } from "./webassembly.ts"

/** Runs in Node (CommonJS) and in a browser's worker. A failure ends all workers: none waits for a dead one. */
const WORKER_CODE = `
const start = ({ module, memory, worker }) => {
  const words = new Int32Array(memory.buffer, 0, 1024)
  const sleep = (word, old) => { Atomics.wait(words, word >> 2, old) }
  const { work, stop } = new WebAssembly.Instance(module, { env: { memory, sleep } }).exports
  try { work(worker) } catch { stop() }
}
if (typeof require === "function") start(require("node:worker_threads").workerData)
else onmessage = (event) => { start(event.data); close() }
`

interface BrowserWorker {
  onerror: (() => void) | null
  postMessage(message: unknown): void
}

const browser = globalThis as {
  Worker?: new (url: string) => BrowserWorker
  Blob?: new (parts: string[], options: { type: string }) => object
  URL: { createObjectURL(blob: object): string; revokeObjectURL(url: string): void }
}

interface NodeModules {
  "node:os": typeof import("node:os")
  "node:v8": typeof import("node:v8")
  "node:worker_threads": typeof import("node:worker_threads")
}

/** A module of Node, or undefined where there is no Node. Bundlers see no import. */
export function nodeModule<Name extends keyof NodeModules>(name: Name): NodeModules[Name] | undefined {
  return typeof process === "undefined" ? undefined : process.getBuiltinModule?.(name)
}

/** Cores this process may use; 1 where that is unknown. */
export function availableCores(): number {
  const { navigator } = globalThis as { navigator?: { hardwareConcurrency?: number } }
  return nodeModule("node:os")?.availableParallelism() ?? navigator?.hardwareConcurrency ?? 1
}

export function canStartWorkers(): boolean {
  if (typeof SharedArrayBuffer === "undefined") return false
  return nodeModule("node:worker_threads") !== undefined || (browser.Worker !== undefined && browser.Blob !== undefined)
}

/** Sleeping for the calling thread; one that may not sleep, such as a browser's main thread, goes on looking. */
export function sleepOn(memory: WasmMemory): (word: number, old: number) => void {
  const words = new Int32Array(memory.buffer, 0, 1024)
  try {
    Atomics.wait(words, 0, -1)
  } catch {
    return () => {}
  }
  return (word, old) => {
    Atomics.wait(words, word >> 2, old)
  }
}

export class Pool {
  readonly workers: number
  readonly #control: Int32Array
  #failed = 0

  constructor(module: WasmModule, memory: WasmMemory, workers: number) {
    this.workers = workers
    this.#control = new Int32Array(memory.buffer, 0, 1024)
    const onFailure = () => {
      this.#failed++
    }
    for (let worker = 1; worker <= workers; worker++) startWorker({ module, memory, worker }, onFailure)
  }

  /** Workers that are up. */
  get ready(): number {
    return Atomics.load(this.#control, READY / 4)
  }

  /** Resolves when all workers are up, or have failed to start. */
  async allReady(): Promise<void> {
    while (this.ready + this.#failed < this.workers) await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

interface WorkerData {
  module: WasmModule
  memory: WasmMemory
  worker: number
}

/** Starts one worker, which does not keep the process alive. One that cannot start is never ready, and is not missed. */
function startWorker(workerData: WorkerData, onFailure: () => void): void {
  const node = nodeModule("node:worker_threads")
  if (node) {
    const worker = new node.Worker(WORKER_CODE, { eval: true, workerData, execArgv: [], name: "dess kernels" })
    worker.on("error", onFailure)
    worker.unref()
  } else if (browser.Worker && browser.Blob) {
    const url = browser.URL.createObjectURL(new browser.Blob([WORKER_CODE], { type: "text/javascript" }))
    const worker = new browser.Worker(url)
    worker.onerror = onFailure
    worker.postMessage(workerData)
    setTimeout(() => browser.URL.revokeObjectURL(url), 60_000)
  }
}
