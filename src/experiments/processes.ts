/** Runs cells in child processes. */

import { extname, join } from "node:path"
import type { ProcessMessage } from "./cell-process.ts"
import type { CellJob, CellOutcome } from "./cell-run.ts"

/** Runs one cell somewhere; ends early, with any outcome, once the signal says so. */
export type CellRunner = (
  job: CellJob,
  options: { signal: AbortSignal; onProgress: (interactions: number, total?: number) => void },
) => Promise<CellOutcome>

/** A process of its own per cell: nothing is shared, and its peak memory is its own. */
export const runInProcess: CellRunner = async (job, { signal, onProgress }) => {
  const { fork } = await import("node:child_process")
  return new Promise((resolve) => {
    // Bundled or not, the program lies beside this module (tools/build-bundle.mjs).
    const program = join(import.meta.dirname, `cell-process${extname(import.meta.filename)}`)
    const child = fork(program, { stdio: ["ignore", "ignore", "pipe", "ipc"], execArgv: flagsFor(process.execArgv) })
    let outcome: CellOutcome | undefined
    let complaint = ""
    const kill = () => child.kill("SIGKILL")
    signal.addEventListener("abort", kill, { once: true })
    child.stderr?.on("data", (text: Buffer) => {
      complaint = (complaint + text.toString()).slice(-2000)
    })
    child.on("message", (message: ProcessMessage) => {
      if ("status" in message) outcome = message
      else onProgress(message.interactions, message.total)
    })
    const end = (reason: string) => {
      signal.removeEventListener("abort", kill)
      const last = complaint.trim().split("\n").at(-1) ?? ""
      resolve(outcome ?? { status: "failed", message: last === "" ? reason : `${reason}: ${last}` })
    }
    child.on("error", (error) => end(`the cell's process: ${error.message}`))
    child.on("close", (code, by) => end(`the cell's process ended with ${by ?? `code ${code}`}`))
    child.send(job, (error) => {
      if (error) kill()
    })
  })
}

/** Node's flags of this process without those of its debugger or its own program (`node -e "…"`). */
function flagsFor(execArgv: readonly string[]): string[] {
  const program = execArgv.findIndex((flag) => /^(-e|-p|-pe|--eval|--print)$/.test(flag))
  const flags = program < 0 ? execArgv : execArgv.toSpliced(program, 2)
  return flags.filter((flag) => !/^--(inspect|input-type)/.test(flag))
}
