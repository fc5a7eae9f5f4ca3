/**
 * `npm run bench -- train`: interactions per second of one NCF training step (hidden 512, batch 500), on a batch with a
 * dozen distinct users as a time-ordered segment has, and on one with all users distinct; on one and two threads, beside
 * PyTorch's step on the same model and batch where torch is installed. Best and mean are over chunks of 20 steps; ours is
 * measured before and after the peer, so that a busy minute meets both.
 *
 * The peer comes in two forms, each at its best: "plain autograd", the loop one writes, with distinct ids and sparse row
 * updates; and "by hand", with backward written out, the first layer split and buffers kept, as far as PyTorch goes.
 *
 * Ours starts from id columns every time: finding the distinct ids, gathering rows and writing them back are in the clock.
 * The ratio that counts ("same work") is to the peer with its planning of the batch, which is that work; beside it stand
 * the ratios to the peer that is charged only for finding distinct ids, and to its step alone, with nothing to find.
 */

import { openKernels } from "../dist/kernels/open.js"
import { Model } from "../dist/models/paper/model.js"
import { runPeer } from "./peers/peer.mjs"
import { makeBatch, measure, printTable, ratio, summarize } from "./report.mjs"

const CASES = [
  { name: "ladder, 12 users", options: { users: 12, items: 400, model: "ladder" } },
  { name: "ladder, 500 users", options: { users: 500, items: 400, model: "ladder" } },
  { name: "fixed-128, 12 users", options: { users: 12, items: 400, model: "fixed" } },
  { name: "fixed-128, 500 users", options: { users: 500, items: 400, model: "fixed" } },
]

/** A model in which every id of the batch holds a row of its size class. */
function buildModel(batch, threads) {
  const kernels = openKernels({ threads })
  const input = batch.model === "ladder" ? "ladder" : "plain"
  const model = new Model({ kernels, head: "ncf", input, sizes: batch.sizes, hidden: batch.hidden })
  for (const side of ["user", "item"]) {
    const { table } = model.inputs[side]
    const numbers = new Float32Array(batch.sizes.at(-1)).map((_, i) => Math.sin(i + 1))
    batch[side].sizes.forEach((step, id) => {
      table.ensure(id)
      table.replace(
        id,
        step,
        numbers.map((x) => x * Math.cos(id)),
        0,
      )
    })
  }
  return model
}

/** @param {string[]} options `--seconds n` per measurement, `--no-peer` */
export async function run(options = []) {
  const at = options.indexOf("--seconds")
  const seconds = at < 0 ? 2 : Number(options[at + 1])
  const rows = []
  for (const { name, options: shape } of CASES) {
    const batch = makeBatch(shape)
    const columns = {
      user: Int32Array.from(batch.rows.user),
      item: Int32Array.from(batch.rows.item),
      label: Float64Array.from(batch.rows.label),
    }
    const perSecond = (ms) => (1000 * columns.user.length) / ms
    const times = { 1: [], 2: [] }
    const measureOurs = () => {
      for (const threads of [1, 2]) {
        const model = buildModel(batch, threads)
        times[threads].push(...measure(() => model.train(columns).losses, { seconds, chunk: 20 }).times)
        model.kernels.close()
      }
    }
    measureOurs()
    const peer = options.includes("--no-peer") ? undefined : await runPeer(batch, { seconds })
    if (peer) measureOurs()
    const ours = { 1: summarize(times[1]), 2: summarize(times[2]) }
    for (const threads of [1, 2]) {
      const { best, mean, sd } = ours[threads]
      rows.push({
        batch: name,
        who: `dess, ${threads} thread${threads > 1 ? "s" : ""}`,
        "best /s": perSecond(best),
        "mean /s": perSecond(mean),
        "best ms": best,
        "mean ± sd ms": `${mean.toFixed(2)} ± ${sd.toFixed(2)}`,
        ratio: "",
      })
    }
    const best = Math.min(ours[1].best, ours[2].best)
    for (const { form, clock, ...result } of peer ?? []) {
      const threads = `${result.threads} thread${result.threads > 1 ? "s" : ""}`
      rows.push({
        batch: name,
        who: `PyTorch ${result.torch}, ${form} (${result.variant}), ${threads}, ${clock}`,
        "best /s": perSecond(result.best),
        "mean /s": perSecond(result.mean),
        "best ms": result.best,
        "mean ± sd ms": result.mean.toFixed(2),
        ratio: `dess ${ratio(result.best, best)}${clock === "with planning" ? ", same work" : ""}`,
      })
    }
  }
  printTable(rows)
}
