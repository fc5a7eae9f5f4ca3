/**
 * `npm run bench -- rank`: full ranking of 27,000 items (as many as MovieLens 20M has) for one user with the NCF head,
 * hidden 512, on one and two threads. The items' part is made ready once per model version; then a user costs one pass
 * over it. Beside it the same logits from `Model.predict`, which computes the items' part every time, and how far the
 * two are apart.
 */

import { openKernels } from "../dist/kernels/open.js"
import { Random } from "../dist/kernels/random.js"
import { Model } from "../dist/models/paper/model.js"
import { Ranking } from "../dist/models/paper/ranking.js"
import { measure, printTable, ratio } from "./report.mjs"

export const ITEMS = 27_000
const USERS = 200

/** A model that has learned a few batches, with rows of every size. */
export function buildModel(threads) {
  const model = new Model({ kernels: openKernels({ threads }), head: "ncf", hidden: 512, task: "topk" })
  const random = new Random("rank")
  const ids = (count, bound) => Int32Array.from({ length: count }, () => random.integer(bound))
  for (let step = 0; step < 40; step++) {
    const label = Float64Array.from({ length: 500 }, () => random.integer(2))
    model.train({ user: ids(500, USERS), item: ids(500, ITEMS), label })
    for (const side of ["user", "item"]) {
      const { table } = model.inputs[side]
      model.ladder(side).grow([...table.ids()].filter((id) => table.step(id) < table.top && random.next() < 0.1))
    }
  }
  return model
}

/** @param {string[]} options `--seconds n` per measurement */
export async function run(options = []) {
  const at = options.indexOf("--seconds")
  const seconds = at < 0 ? 2 : Number(options[at + 1])
  const item = Int32Array.from({ length: ITEMS }, (_, id) => id)
  const label = new Float64Array(ITEMS)
  const rows = []
  let furthest = 0
  for (const threads of [1, 2]) {
    const model = buildModel(threads)
    await model.kernels.ready()
    const row = (what, time, slower) => {
      rows.push({
        what: `${what}, ${threads} thread${threads > 1 ? "s" : ""}`,
        "best ms": time.best,
        "mean ± sd ms": `${time.mean.toFixed(2)} ± ${time.sd.toFixed(2)}`,
        ratio: slower === undefined ? "" : `${ratio(slower.best, time.best)} as fast as predict`,
      })
    }
    const predict = (user) => model.predict({ user: new Int32Array(ITEMS).fill(user), item, label }).logits
    const whole = measure(() => predict(3), { seconds, chunk: 1 })
    const once = measure(() => new Ranking(model, item).release(), { seconds, chunk: 1 })
    const ranking = new Ranking(model, item)
    let user = 0
    const each = measure(() => ranking.scores(user++ % USERS), { seconds, chunk: 1 })
    const scores = [3, 77, 150].map((user) => ranking.scores(user))
    const { items } = ranking
    ranking.release()
    ;[3, 77, 150].forEach((user, n) => {
      const want = predict(user)
      items.forEach((id, i) => {
        furthest = Math.max(furthest, Math.abs(scores[n][i] - want[id]))
      })
    })
    row("predict 27,000 pairs of one user", whole)
    row("make 27,000 items ready, once per model version", once)
    row("rank 27,000 items for one user", each, whole)
    model.kernels.close()
  }
  printTable(rows)
  console.log(`largest difference between a score and predict's logit: ${furthest.toExponential(1)}`)
}
