/** Runs the PyTorch twin of our training step (train.py) on a batch, where Debian's python3-torch is installed. */

import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

/**
 * What train.py prints: interactions per second of the step alone of each of its variants, beside it the milliseconds it
 * takes to plan a batch (distinct ids, index vectors, buffers), and those of distinct ids and index vectors alone.
 * @typedef {{indexMilliseconds: number, threads: number, idle: "sleep" | "spin", torch: string, product: string,
 *   productGflops: number, variants: Record<string, {best: number, mean: number, sd: number, planMilliseconds: number}>}} PeerReport
 *
 * The fastest of a form to train on a batch, by one clock: milliseconds of a step with what that clock counts beside it.
 * @typedef {{form: string, clock: string, best: number, mean: number, variant: string, threads: number, torch: string}} PeerResult
 */

const execute = promisify(execFile)
const script = fileURLToPath(new URL("train.py", import.meta.url))

/** The first Python that has torch, as a promise; looked for once. */
let python

async function findPython() {
  for (const command of ["/usr/bin/python3", "python3"]) {
    try {
      await execute(command, ["-c", "import torch"])
      return command
    } catch {}
  }
  console.log("PyTorch peer: not run, no python3 with torch (apt-get install python3-torch libopenblas0-openmp)")
  return undefined
}

/** The variants of each form. Plain: autograd, distinct ids, sparse row updates. By hand: as far as PyTorch goes (fast.py). */
const FORMS = { "plain autograd": ["plain", "plain-split"], "by hand": ["manual", "manual-split"] }

/** What is counted beside the step, by the name of the clock. */
const CLOCKS = {
  "with planning": (_report, variant) => variant.planMilliseconds,
  "with finding distinct ids": (report, _variant) => report.indexMilliseconds,
  "step alone": () => 0,
}

/**
 * The fastest of the reports' variants by a clock.
 * @param {PeerReport[]} reports
 * @param {(report: PeerReport, variant: PeerReport["variants"][string]) => number} beside
 * @param {number} rows
 */
function fastest(reports, beside, rows) {
  const results = reports.flatMap((report) =>
    Object.entries(report.variants).map(([name, variant]) => ({
      best: (1000 * rows) / variant.best + beside(report, variant),
      mean: (1000 * rows) / variant.mean + beside(report, variant),
      variant: name,
      threads: report.threads,
      torch: report.torch,
    })),
  )
  return results.reduce((a, b) => (b.best < a.best ? b : a))
}

/**
 * PyTorch's training step on a batch, of each form by the fastest of its variants and thread counts, by each of the clocks.
 * @param {ReturnType<typeof import("../report.mjs").makeBatch>} batch
 * @param {{seconds?: number, threads?: number}} [options] `seconds` of measurement; without `threads` the better of one
 *   and two counts. Two threads run twice: idle threads asleep, which suits a busy machine, and spinning, a quiet one
 * @returns {Promise<PeerResult[] | undefined>} undefined, with a notice, where there is no torch
 */
export async function runPeer(batch, { seconds = 3, threads } = {}) {
  python ??= findPython()
  const command = await python
  if (command === undefined) return undefined
  const rows = batch.rows.user.length
  const folder = await mkdtemp(path.join(os.tmpdir(), "dess-peer-"))
  try {
    const file = path.join(folder, "batch.json")
    await writeFile(file, JSON.stringify(batch))
    /** @type {(options: Record<string, string | number>, variants: string[]) => Promise<PeerReport>} */
    const run = async (options, variants) => {
      const words = Object.entries({ batch: file, seconds, ...options }).flatMap(([name, x]) => [`--${name}`, `${x}`])
      words.push("--variant", ...variants)
      return JSON.parse((await execute(command, [script, ...words])).stdout)
    }
    const results = []
    let slow = false
    for (const [form, variants] of Object.entries(FORMS)) {
      const reports = []
      for (const count of threads === undefined ? [1, 2] : [threads]) {
        reports.push(await run({ threads: count, idle: "sleep" }, variants))
        if (count > 1) reports.push(await run({ threads: count, idle: "spin" }, variants))
      }
      slow ||= reports.some(({ product }) => product !== "torch.mm")
      for (const [clock, beside] of Object.entries(CLOCKS))
        results.push({ form, clock, ...fastest(reports, beside, rows) })
    }
    if (slow)
      console.log(
        "PyTorch peer: slow BLAS here, multiplied by oneDNN instead (better: apt-get install libopenblas0-openmp)",
      )
    return results
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
