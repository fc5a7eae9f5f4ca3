/** Runs the PyTorch twin of our training step (train.py) on a batch, where Debian's python3-torch is installed. */

import { execFile } from "node:child_process"
import { existsSync, readdirSync, rmSync } from "node:fs"
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

/** The first Python that has torch, and what it needs to multiply well, as a promise; looked for once. */
let python

/** @returns {Promise<{command: string, env: NodeJS.ProcessEnv} | undefined>} undefined, with a notice, where there is none */
export function findPython() {
  python ??= lookForPython()
  return python
}

async function lookForPython() {
  for (const command of ["/usr/bin/python3", "python3"]) {
    try {
      await execute(command, ["-c", "import torch"])
      return { command, env: { ...process.env, ...(await findBlas(command)) } }
    } catch {}
  }
  console.log("PyTorch peer: not run, no python3 with torch (apt-get install python3-torch libopenblas0-openmp)")
  return undefined
}

/** GFLOP/s of torch's own product; Debian's torch takes the BLAS it finds, and the reference one does 2 to 5. */
const PRODUCT = `
import time, torch
torch.set_num_threads(1)
a = torch.randn(512, 512)
best = 1e9
for _ in range(5):
    start = time.perf_counter()
    a @ a
    best = min(best, time.perf_counter() - start)
print(2 * 512 ** 3 / best / 1e9)`

/** GFLOP/s of the peer's product on one thread: what vectors of the processor's full width reach. Undefined without torch. */
export async function measureNative() {
  const found = await findPython()
  if (!found) return undefined
  const program =
    "import torch; torch.set_num_threads(1); from product import fastest_product; print(fastest_product()[2])"
  const cwd = new URL(".", import.meta.url)
  const env = { ...found.env, OMP_NUM_THREADS: "1" }
  return Number((await execute(found.command, ["-c", program], { cwd, env })).stdout)
}

/** The variables under which torch multiplies by OpenBLAS: nothing where it does, else Debian's package, unpacked aside. */
async function findBlas(command) {
  const rate = async (env) =>
    Number((await execute(command, ["-c", PRODUCT], { env: { ...process.env, ...env } })).stdout)
  if ((await rate({})) > 10) return {}
  const folder = await mkdtemp(path.join(os.tmpdir(), "dess-blas-"))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  try {
    await execute("apt-get", ["download", "libopenblas0-openmp"], { cwd: folder })
    const [file] = readdirSync(folder)
    await execute("dpkg-deb", ["-x", file, "."], { cwd: folder })
    const libraries = globFolder(path.join(folder, "usr/lib"), "openblas-openmp")
    const env = { LD_LIBRARY_PATH: `${libraries}:${process.env.LD_LIBRARY_PATH ?? ""}` }
    if ((await rate(env)) > 10) return env
  } catch {}
  console.log("PyTorch peer: slow BLAS here, its figures are no match (apt-get install libopenblas0-openmp)")
  return {}
}

/** usr/lib/<machine>/<name> */
function globFolder(folder, name) {
  return readdirSync(folder)
    .map((machine) => path.join(folder, machine, name))
    .find((candidate) => existsSync(candidate))
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
  const found = await findPython()
  if (found === undefined) return undefined
  const { command, env } = found
  const rows = batch.rows.user.length
  const folder = await mkdtemp(path.join(os.tmpdir(), "dess-peer-"))
  try {
    const file = path.join(folder, "batch.json")
    await writeFile(file, JSON.stringify(batch))
    /** @type {(options: Record<string, string | number>, variants: string[]) => Promise<PeerReport>} */
    const run = async (options, variants) => {
      const words = Object.entries({ batch: file, seconds, ...options }).flatMap(([name, x]) => [`--${name}`, `${x}`])
      words.push("--variant", ...variants)
      return JSON.parse((await execute(command, [script, ...words], { env })).stdout)
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
      // Planning a plain step is finding distinct ids, so it has one clock.
      for (const [clock, beside] of Object.entries(CLOCKS).slice(0, form === "plain autograd" ? 1 : undefined))
        results.push({ form, clock, ...fastest(reports, beside, rows) })
    }
    if (slow) console.log("PyTorch peer: multiplied by oneDNN, which is faster than torch's BLAS here")
    return results
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
