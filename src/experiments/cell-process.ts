/**
 * The program of a child process: takes one cell from its parent, runs it, hands back the outcome and ends.
 * It dies with its parent, and leaves Ctrl-C to it.
 */

import { type CellJob, type CellOutcome, runCell } from "./cell-run.ts"

export type ProcessMessage = { interactions: number; total?: number } | CellOutcome

function send(message: ProcessMessage): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(message, undefined, {}, () => resolve())
  })
}

process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit(1))
process.once("message", async (job: CellJob) => {
  const outcome = await runCell(job, (interactions, total) => {
    void send(total === undefined ? { interactions } : { interactions, total })
  }).catch((error: unknown): CellOutcome => {
    return { status: "failed", message: error instanceof Error ? error.message : String(error) }
  })
  await send(outcome)
  process.exit(0)
})
