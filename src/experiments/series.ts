/** A run along its timeline, thinned: rates are means over the segments of a point, counts are those at its end. */

import type { SegmentReport } from "../learning/report.ts"
import type { MemoryCurve } from "../policies/budget-controls.ts"

/** Columns of equal length, at most 200 points; null where nothing was tested. A column the task or method lacks is missing. */
export interface Series {
  interactions: number[]
  accuracy?: (number | null)[]
  loss?: (number | null)[]
  recall?: (number | null)[]
  ndcg?: (number | null)[]
  userSize: number[]
  itemSize: number[]
  embeddingBytes: number[]
  /** What a point weighs in the measure of the whole run: rows tested, or segments with a user to test. */
  weights?: number[]
  /** Of rows, in the bits they have. */
  userBytes?: number[]
  itemBytes?: number[]
  /** Cumulative. */
  userRegret?: number[]
  itemRegret?: number[]
}

export const MOST_POINTS = 200

/** What one segment leaves behind. */
type Point = Pick<
  SegmentReport,
  | "interactions"
  | "testRows"
  | "testUsers"
  | "accuracy"
  | "loss"
  | "recall"
  | "ndcg"
  | "meanSize"
  | "embeddingBytes"
  | "rowBytes"
  | "regret"
>

/** The bytes of rows along the run; undefined where they were not recorded. */
export function memoryCurve({ interactions, userBytes, itemBytes }: Series): MemoryCurve | undefined {
  return userBytes && itemBytes && { interactions, user: userBytes, item: itemBytes }
}

export class SeriesRecorder {
  readonly #points: Point[] = []

  add(report: SegmentReport): void {
    const { interactions, testRows, testUsers, accuracy, loss, recall, ndcg } = report
    const measured = { ...(recall === undefined ? { accuracy, loss } : { recall, ndcg }) } as Partial<Point>
    const { meanSize, embeddingBytes, rowBytes, regret } = report
    this.#points.push({ interactions, testRows, testUsers, ...measured, meanSize, embeddingBytes, rowBytes, regret })
  }

  series(most = MOST_POINTS): Series {
    const step = Math.max(1, Math.ceil(this.#points.length / most))
    const groups: Point[][] = []
    for (let i = 0; i < this.#points.length; i += step) groups.push(this.#points.slice(i, i + step))
    const last = (read: (point: Point) => number) => groups.map((group) => short(read(group[group.length - 1])))
    const rate = (name: "accuracy" | "loss" | "recall" | "ndcg") =>
      groups.map((group) => weightedMean(group, name, name === "recall" || name === "ndcg" ? testUsers : testRows))
    const first = this.#points[0]
    const decides = this.#points.some((point) => point.regret !== null)
    return {
      interactions: last((point) => point.interactions),
      ...(first?.accuracy === undefined ? {} : { accuracy: rate("accuracy"), loss: rate("loss") }),
      ...(first?.recall === undefined ? {} : { recall: rate("recall"), ndcg: rate("ndcg") }),
      userSize: last((point) => point.meanSize.user),
      itemSize: last((point) => point.meanSize.item),
      embeddingBytes: last((point) => point.embeddingBytes),
      weights: groups.map((group) =>
        group.reduce((sum, point) => sum + (first?.recall === undefined ? testRows(point) : testUsers(point)), 0),
      ),
      userBytes: last((point) => point.rowBytes.user),
      itemBytes: last((point) => point.rowBytes.item),
      ...(decides
        ? {
            userRegret: last((point) => point.regret?.user ?? 0),
            itemRegret: last((point) => point.regret?.item ?? 0),
          }
        : {}),
    }
  }
}

/** Rating tasks are means over rows; ranking is a mean over the segments that had a user to test. */
const testRows = (point: Point) => point.testRows
const testUsers = (point: Point) => (point.testUsers > 0 ? 1 : 0)

function weightedMean(
  points: readonly Point[],
  name: "accuracy" | "loss" | "recall" | "ndcg",
  weight: (point: Point) => number,
): number | null {
  let [sum, weights] = [0, 0]
  for (const point of points) {
    sum += weight(point) * (point[name] ?? 0)
    weights += weight(point)
  }
  return weights === 0 ? null : short(sum / weights)
}

/** Six digits are enough for a figure. */
function short(value: number): number {
  return Number(value.toPrecision(6))
}
