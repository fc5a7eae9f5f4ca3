/** Runs the PyTorch twin of our training step (train.py) on a batch, where Debian's python3-torch is installed. */

import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

/**
 * What train.py prints: interactions per second of its fastest variant, `variants` the same for each, and beside it the
 * milliseconds it takes to plan a batch (distinct ids, index vectors, buffers), which are not in the clock.
 * @typedef {{best: number, mean: number, sd: number, prepareMilliseconds: number, variant: string, threads: number,
 *   idle: "sleep" | "spin", torch: string, product: string, productGflops: number,
 *   variants: Record<string, {best: number, mean: number, sd: number}>}} PeerResult
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

/**
 * Interactions per second of PyTorch's training step on a batch, by the fastest of its variants.
 * @param {ReturnType<typeof import("../report.mjs").makeBatch>} batch
 * @param {{seconds?: number, threads?: number}} [options] `seconds` of measurement; without `threads` the better of one
 *   and two counts. Two threads run twice: idle threads asleep, which suits a busy machine, and spinning, a quiet one
 * @returns {Promise<PeerResult | undefined>} undefined, with a notice, where there is no torch
 */
export async function runPeer(batch, { seconds = 3, threads } = {}) {
  python ??= findPython()
  const command = await python
  if (command === undefined) return undefined
  const folder = await mkdtemp(path.join(os.tmpdir(), "dess-peer-"))
  try {
    const file = path.join(folder, "batch.json")
    await writeFile(file, JSON.stringify(batch))
    /** @type {(options: Record<string, string | number>) => Promise<PeerResult>} */
    const run = async (options) => {
      const words = Object.entries({ batch: file, seconds, ...options }).flatMap(([name, x]) => [`--${name}`, `${x}`])
      return JSON.parse((await execute(command, [script, ...words])).stdout)
    }
    const results = []
    for (const count of threads === undefined ? [1, 2] : [threads]) {
      const result = await run({ threads: count, idle: "sleep" })
      results.push(result)
      if (count > 1) results.push(await run({ threads: count, idle: "spin", variant: result.variant }))
    }
    const fastest = results.reduce((a, b) => (b.best > a.best ? b : a))
    if (fastest.product !== "torch.mm") {
      console.log(
        "PyTorch peer: slow BLAS here, multiplied by oneDNN instead (better: apt-get install libopenblas0-openmp)",
      )
    }
    return fastest
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
