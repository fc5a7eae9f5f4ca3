/**
 * Context vectors of the bandit (method §4), one per id and event, ‖x‖ ≤ 1:
 *
 *   fre   x = [log(1 + FRE)/log(1 + C)] / √d          cv   x = [log(1 + FRE)/log(1 + C), D/R] / √d
 *
 * each coordinate clipped to 1, D the diversity (IND or POD), R = √(feature columns), the largest distance between
 * vectors in [0, 1]; `constant` appends a 1 before the division.
 */

import { DessError, show } from "../errors.ts"
import { log } from "../kernels/math.ts"

export interface ContextOptions {
  /** "fre": the frequency alone; "cv": frequency and diversity. */
  kind: "fre" | "cv"
  /** Appends a coordinate that is always 1. */
  constant: boolean
  /** C: the frequency that counts as 1. */
  frequencyCap?: number
  /** How many feature columns the diversity was taken over; needed by "cv". */
  featureColumns?: number | undefined
}

export interface Context {
  readonly dimension: number
  /** Writes the vector of one id to `out` from `offset`. A "fre" context ignores the diversity. */
  write(out: Float64Array, offset: number, frequency: number, diversity: number): void
}

/** Builds the writer of one kind of context. */
export function createContext(options: ContextOptions): Context {
  const { kind, constant, frequencyCap = 10_000, featureColumns } = options
  if (kind !== "fre" && kind !== "cv") {
    throw new DessError("INVALID_ARGUMENT", `context kind: expected "fre" or "cv", got ${show(kind)}`)
  }
  if (!(frequencyCap > 0 && frequencyCap < Number.POSITIVE_INFINITY)) {
    throw new DessError(
      "INVALID_ARGUMENT",
      `context frequencyCap: expected a positive number, got ${show(frequencyCap)}`,
    )
  }
  if (kind === "cv" && !(Number.isInteger(featureColumns) && Number(featureColumns) > 0)) {
    throw new DessError(
      "INVALID_ARGUMENT",
      `context featureColumns: expected a whole number from 1 for "cv", got ${show(featureColumns)}; use "fre" for items without features`,
    )
  }
  const diverse = kind === "cv"
  const dimension = 1 + (diverse ? 1 : 0) + (constant ? 1 : 0)
  const length = 1 / Math.sqrt(dimension)
  const frequencyScale = length / log(1 + frequencyCap)
  const diversityScale = diverse ? length / Math.sqrt(Number(featureColumns)) : 0
  return {
    dimension,
    write(out, offset, frequency, diversity) {
      let at = offset
      out[at++] = Math.min(length, log(1 + frequency) * frequencyScale)
      if (diverse) out[at++] = Math.min(length, diversity * diversityScale)
      if (constant) out[at] = length
    },
  }
}
