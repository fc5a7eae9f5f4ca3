/** The family of plugin models: rows are learned event by event and judged as in the calibrated recipe. For experiments only. */

import { DessError } from "../errors.ts"
import type { RungLosses } from "../models/calibrated/rows.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { OwnRows } from "../models/own/row-model.ts"
import type { Context } from "../policies/context.ts"
import type { ModelFamily } from "./family.ts"
import type { SearchOptions } from "./judge.ts"
import type { Ranker } from "./learner.ts"
import type { Published } from "./reader.ts"
import { RungJudge } from "./rung-judge.ts"
import type { SizedRows } from "./sized-rows.ts"

export class OwnFamily implements ModelFamily<OwnRows> {
  readonly model: OwnRows
  readonly publishedSide = "item"
  readonly floatsNeeded = 0
  #search: SearchOptions | undefined

  constructor(model: OwnRows) {
    this.model = model
  }

  limited(rows: SizedRows<OwnRows>) {
    return { beside: () => rows.besideBytes }
  }

  createJudge(rows: SizedRows<OwnRows>, search: SearchOptions, context: Context | undefined): RungJudge<OwnRows> {
    this.#search = search
    return new RungJudge(rows, search, context)
  }

  train(batch: ModelBatch, { rungs }: { rungs?: RungLosses }): PassResult {
    return this.model.train(batch, rungs)
  }

  rank(items: ArrayLike<number>): Ranker {
    const ids = Int32Array.from(items)
    const { outputs } = this.model
    const out = new Float64Array(ids.length * outputs)
    const scores = (user: number): Float64Array => {
      this.model.logitsOf(out, user, ids)
      return outputs === 1 ? out : out.filter((_, at) => at % outputs === 0)
    }
    return { items: ids, scores, release: () => {} }
  }

  publish(): Published {
    throw new DessError("UNSUPPORTED", "model: expected one of dess for live use, got one from outside")
  }

  save(): void {}
  load(): void {}

  close(): void {
    this.#search?.policy.close?.()
  }
}
