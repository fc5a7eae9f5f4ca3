/**
 * `npm run bench -- train`: interactions per second of one NCF training step (hidden 512, batch 500), on a batch with a
 * dozen distinct users as a time-ordered segment has, and on one with all users distinct; on one and two threads, beside
 * PyTorch's step on the same model and batch where torch is installed. Best and mean are over chunks of 20 steps. Ours
 * starts from id columns every time: finding the distinct ids, gathering rows and writing them back are in the clock. The
 * peer plans a batch outside its clock; it is shown without and with that planning, and so is the ratio.
 */

import { openKernels } from "../dist/kernels/open.js"
import { Model } from "../dist/models/model.js"
import { runPeer } from "./peers/peer.mjs"
import { makeBatch, measure, printTable, ratio } from "./report.mjs"

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
    let best = 0
    for (const threads of [1, 2]) {
      const model = buildModel(batch, threads)
      const time = measure(() => model.train(columns).losses, { seconds, chunk: 20 })
      model.kernels.close()
      const perSecond = (ms) => (1000 * columns.user.length) / ms
      best = Math.max(best, perSecond(time.best))
      rows.push({
        batch: name,
        who: `dess, ${threads} thread${threads > 1 ? "s" : ""}`,
        "best /s": perSecond(time.best),
        "mean /s": perSecond(time.mean),
        "best ms": time.best,
        "mean ± sd ms": `${time.mean.toFixed(2)} ± ${time.sd.toFixed(2)}`,
        ratio: "",
      })
    }
    if (options.includes("--no-peer")) continue
    const peer = await runPeer(batch, { seconds })
    if (peer === undefined) continue
    const ms = (perSecond) => (1000 * columns.user.length) / perSecond
    for (const [clock, planning] of [
      ["step alone", 0],
      ["with planning", peer.prepareMilliseconds],
    ]) {
      const [least, mean] = [ms(peer.best) + planning, ms(peer.mean) + planning]
      const bestPerSecond = (1000 * columns.user.length) / least
      rows.push({
        batch: name,
        who: `PyTorch ${peer.torch}, ${peer.variant}, ${peer.threads} thread${peer.threads > 1 ? "s" : ""}, ${clock}`,
        "best /s": bestPerSecond,
        "mean /s": (1000 * columns.user.length) / mean,
        "best ms": least,
        "mean ± sd ms": mean.toFixed(2),
        ratio: `dess ${ratio(best, bestPerSecond)}`,
      })
    }
  }
  printTable(rows)
}
