/** f of an item by the equations of neighbours.ts, from the weights the neighbours have. */

import type { Neighbours } from "../../src/models/calibrated/neighbours.ts"

/** `latest`: at most 20, the latest first. */
export function neighbourScores(neighbours: Neighbours, latest: readonly number[], item: number): number[] {
  const [weight, total] = [(j: number) => neighbours.weight(j, item), (i: number) => neighbours.total(i)]
  const near = (j: number) => weight(j) / ((10 + total(j)) ** 0.75 * (1 + total(item)) ** 0.25)
  const asked = latest.slice(0, 10)
  const sum = asked.reduce((all, _, a) => all + 0.8 ** a, 0)
  const faded = asked.reduce((all, j, a) => all + 0.8 ** a * near(j), 0) / Math.max(sum, 1)
  return [faded, latest.length === 0 ? 0 : near(latest[0])].map((s) => Math.log(1 + 100 * s))
}
