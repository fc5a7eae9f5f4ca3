/** f of an item by the equations of neighbours.ts, from the weights the neighbours have. */

import type { Neighbours } from "../../src/models/calibrated/neighbours.ts"

/** `latest`: at most 20, the latest first. */
export function neighbourScores(neighbours: Neighbours, latest: readonly number[], item: number): number[] {
  const near = (j: number, kind: 0 | 1) => {
    const [row, own] = [neighbours.rowsOf(j)[kind], neighbours.rowsOf(item)[kind]]
    return neighbours.weight(row, item) / ((10 + neighbours.total(row)) ** 0.75 * (1 + neighbours.total(own)) ** 0.25)
  }
  const asked = latest.slice(0, 10)
  const sum = asked.reduce((all, _, a) => all + 0.9 ** a, 0)
  const soon = asked.reduce((all, j, a) => all + 0.9 ** a * near(j, 0), 0) / Math.max(sum, 1)
  const right = [0, 1, 2].map((a) => (a < latest.length ? near(latest[a], 1) : 0))
  return [soon, ...right].map((s) => Math.log(1 + 100 * s))
}
