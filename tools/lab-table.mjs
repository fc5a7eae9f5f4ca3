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

/** The runs of a head, by method. @param {readonly LabRecord[]} records @param {string} model */
export function labRuns(records, model) {
  const done = records.filter(({ status, cell }) => status === "done" && cell.model === model)
  const runsOf = (method) => done.filter(({ cell }) => cell.method === method).sort((a, b) => a.cell.seed - b.cell.seed)
  return new Map([...new Set(done.map(({ cell }) => cell.method))].map((method) => [method, runsOf(method)]))
}

/** Whom a table's tests are against. @param {ReadonlyMap<string, readonly LabRecord[]>} runs */
const againstOf = (runs) => (runs.has("dess-cv") ? "dess-cv" : "dess-fre")

/**
 * p of every method against the table's own by a measure, after Holm's correction.
 * @param {ReadonlyMap<string, readonly LabRecord[]>} runs @param {string} measure
 */
export function labPs(runs, measure) {
  const own = runs.get(againstOf(runs)) ?? []
  const tested = [...runs].flatMap(([method, theirs]) => {
    if (theirs === own) return []
    const pairs = theirs.flatMap(({ cell, result }) => {
      const other = own.find((run) => run.cell.seed === cell.seed)
      return other ? [[result[measure], other.result[measure]]] : []
    })
    const p = pairedTest(...[0, 1].map((side) => pairs.map((pair) => pair[side])))?.p
    return p === undefined ? [] : [{ method, p }]
  })
  const adjusted = holm(tested.map(({ p }) => p))
  return new Map(tested.map(({ method }, i) => [method, adjusted[i]]))
}

/** A table's lines. @param {readonly LabRecord[]} records @param {string} model */
export function labTable(records, model) {
  const all = labRuns(records, model)
  const [[{ cell }]] = all.values()
  const { task } = cell
  const [first, second] = task === "topk" ? ["recall", "ndcg"] : ["accuracy", "loss"]
  const digits = task === "binary" ? 5 : 4
  const methods = [...all].map(([method, runs]) => ({ method, runs }))
  const against = againstOf(all)
  const tested = task === "topk" ? [first, second] : [second]
  const columns = tested.map((measure) => new Map([...labPs(all, measure)].map(([method, p]) => [method, formatP(p)])))
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
