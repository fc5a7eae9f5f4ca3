/**
 * The tables of docs/lab/results.md, made of the raw figures beside it: method, seeds, and mean ± standard deviation of the two
 * measures. `npm run lab -- <name>` runs docs/lab/<name>.json into docs/results/<name>; tests/lab.test.ts compares what the
 * page says with what the raw figures are.
 */

/** @typedef {{ cell: { method: string, model: string, seed: number, task: string }, match?: { method: string }, status: string, result?: Record<string, number> }} LabRecord */

/** `.6274`: without the zero, as the pages print it. @param {number} value @param {number} digits */
const short = (value, digits) => value.toFixed(digits).replace(/^(-?)0\./, "$1.")

/** The beginning of each method's row, by method. @param {readonly LabRecord[]} records @param {string} model */
export function labRows(records, model) {
  const done = records.filter(({ status, cell }) => status === "done" && cell.model === model)
  const ranking = done[0]?.cell.task === "topk"
  const measures = ranking ? ["recall", "ndcg"] : ["accuracy", "loss"]
  /** @type {Map<string, string>} */
  const rows = new Map()
  for (const method of new Set(done.map(({ cell }) => cell.method))) {
    const runs = done.filter(({ cell }) => cell.method === method)
    const cells = measures.map((measure) => {
      const values = runs.map(({ result }) => result?.[measure] ?? Number.NaN)
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length
      const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
      const deviation = values.length < 2 ? 0 : Math.sqrt(squares / (values.length - 1))
      const digits = measure === "loss" && done[0].cell.task === "binary" ? 5 : 4
      return `${short(mean, digits)} ± ${short(deviation, digits)}`
    })
    rows.set(method, `| ${[method, runs.length, ...cells].join(" | ")} |`)
  }
  return rows
}
