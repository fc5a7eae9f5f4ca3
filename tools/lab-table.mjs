/**
 * The whole tables of docs/lab/results.md, made of the raw figures beside it: mean ± standard deviation of the two measures over
 * the seeds, and paired t-tests over them, after Holm's correction for all methods of the table.
 */

import { holm, pairedTest, standardDeviation } from "../dist/experiments/statistics.js"

/** @typedef {{ cell: { method: string, model: string, seed: number, task: string }, match?: { method: string }, status: string, result?: any }} LabRecord */

/** `.6274`: without the zero, as the pages print it. @param {number} value @param {number} digits */
export const short = (value, digits) => value.toFixed(digits).replace(/^(-?)0\./, "$1.")
/** @param {number[]} values */
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
/** @param {number} p */
const formatP = (p) => (p < 0.001 ? "< .001" : short(p, 3))

/** A table's lines. @param {readonly LabRecord[]} records @param {string} model */
export function labTable(records, model) {
  const done = records.filter(({ status, cell }) => status === "done" && cell.model === model)
  const { task } = done[0].cell
  const [first, second] = task === "topk" ? ["recall", "ndcg"] : ["accuracy", "loss"]
  const digits = task === "binary" ? 5 : 4
  const runsOf = (method) => done.filter(({ cell }) => cell.method === method).sort((a, b) => a.cell.seed - b.cell.seed)
  const methods = [...new Set(done.map(({ cell }) => cell.method))].map((method) => ({ method, runs: runsOf(method) }))
  const against = methods.some(({ method }) => method === "dess-cv") ? "dess-cv" : "dess-fre"
  const others = methods.filter(({ method }) => method !== against)
  const tested = task === "topk" ? [first, second] : [second]
  const columns = tested.map((measure) => {
    const ps = others.map(({ runs }) => {
      const pairs = runs.flatMap(({ cell, result }) => {
        const other = runsOf(against).find((run) => run.cell.seed === cell.seed)
        return other ? [[result[measure], other.result[measure]]] : []
      })
      return pairedTest(...[0, 1].map((side) => pairs.map((pair) => pair[side])))?.p
    })
    const known = others.filter((_, i) => ps[i] !== undefined)
    const adjusted = holm(ps.filter((p) => p !== undefined))
    return new Map(known.map(({ method }, i) => [method, formatP(adjusted[i])]))
  })
  const rows = methods.map(({ method, runs }) => {
    /** @param {(result: any) => number} read @param {number} decimals */
    const over = (read, decimals) => short(mean(runs.map(({ result }) => read(result))), decimals)
    const measured = (name, decimals) => {
      const deviation = short(standardDeviation(runs.map(({ result }) => result[name])), decimals)
      return `${over((result) => result[name], decimals)}${Number(deviation) > 0 ? ` ± ${deviation}` : ""}`
    }
    return [
      method,
      runs.length,
      measured(first, 4),
      measured(second, digits),
      columns[0].has(method) ? columns.map((p) => p.get(method)).join(" / ") : "–",
      [first, second].map((name) => over((result) => result.lastQuarter[name], 4)).join(" / "),
      ["user", "item"].map((side) => mean(runs.map(({ result }) => result.meanSize[side])).toFixed(1)).join(" / "),
      over((result) => result.embeddingBytes / 1000, 0),
      over((result) => result.heldBytes / 1000, 0),
    ]
  })
  const titles = task === "topk" ? ["Recall@10", "NDCG@10"] : ["accuracy", "loss"]
  const p = `p, ${tested.join(" / ")} against ${against}`
  const head = ["method", "seeds", ...titles, p, "last quarter", "numbers user/item", "embedding kB", "held kB"]
  return [head, head.map((_, c) => (c === 0 ? "---" : "---:")), ...rows].map((cells, l) =>
    l === 1 ? `|${cells.join("|")}|` : `| ${cells.join(" | ")} |`,
  )
}
