/** Methods from outside: what a run may be given instead of names. */

import { DessError, show } from "../errors.ts"
import type { PlainModel, PlainRanker } from "../models/controls/model.ts"
import type { OwnRowModel } from "../models/own/row-model.ts"
import type { CreatePolicy, OwnOptions } from "../policies/own.ts"
import type { SizePolicy } from "../policies/policy.ts"
import type { Task } from "../types.ts"

/** What a model is made for. */
export interface ModelStart {
  task: Task
  /** Logits per pair: 1, or one per class. */
  outputs: number
  seed: number
  /** Numbers of a vector, by step; for models with rows. */
  sizes: readonly number[]
  options: OwnOptions
}

/** With rows whose sizes a policy chooses, with sizes of its own, or a ranker. */
export type OwnModel = OwnRowModel | PlainModel | PlainRanker

export type CreateModel = (start: ModelStart) => OwnModel

export interface Own {
  policy?: SizePolicy | CreatePolicy
  model?: CreateModel
  options?: OwnOptions
}

/** Which of the three a model is, by its functions. */
export function kindOfModel(model: OwnModel): "rows" | "pairs" | "ranker" {
  const has = (name: string) => typeof (model as object as Record<string, unknown> | null)?.[name] === "function"
  if (has("fill") && has("score") && has("step")) return "rows"
  if (has("score") && has("step")) return "pairs"
  if (has("learn") && has("scores")) return "ranker"
  throw new DessError(
    "INVALID_ARGUMENT",
    `model: expected the functions fill, score and step (rows), score and step, or learn and scores (a ranker), got ${show(model)}`,
  )
}
