/**
 * The family of the paper's networks, which learn a batch at a time, with sizes judged by the probe.
 *
 * Live, batches too small for batch statistics are learned together with the rows right before them, so a row may be
 * stepped several times when events are rare.
 */

import type { State } from "../kernels/state.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import { packRows } from "../models/packed-rows.ts"
import { Ladder } from "../models/paper/ladder.ts"
import type { Model } from "../models/paper/model.ts"
import { Ranking } from "../models/paper/ranking.ts"
import type { Context } from "../policies/context.ts"
import type { Side } from "../types.ts"
import type { ModelFamily } from "./family.ts"
import type { SearchOptions } from "./judge.ts"
import type { Ranker } from "./learner.ts"
import { floatsPerItem, writeItems } from "./paper-reader.ts"
import { ProbeJudge } from "./probe-judge.ts"
import type { Published, SharedRegion } from "./reader.ts"
import { RecentRows } from "./recent-rows.ts"
import type { SizedRows } from "./sized-rows.ts"

export class PaperFamily implements ModelFamily<Model> {
  readonly model: Model
  readonly publishedSide = "user"
  readonly #recent: RecentRows | undefined

  /** `smallestBatch`: live, how many rows a batch is brought up to. */
  constructor(model: Model, { smallestBatch }: { smallestBatch?: number | undefined } = {}) {
    this.model = model
    if (smallestBatch !== undefined) this.#recent = new RecentRows(smallestBatch, model.task === "topk")
  }

  limited(rows: SizedRows<Model>) {
    const { tables, inputs } = this.model
    const shrink = (side: Side, id: number) => rows.resize(side, id, { step: tables[side].step(id) - 1, why: "idle" })
    return inputs.user instanceof Ladder ? { shrink } : {}
  }

  createJudge(rows: SizedRows<Model>, search: SearchOptions, context: Context | undefined): ProbeJudge {
    return new ProbeJudge(rows, search, context)
  }

  train(batch: ModelBatch, { touched }: { touched?: { add(user: number): void } }): PassResult {
    if (batch.user.length === 0 || !this.#recent) return this.model.train(batch)
    const { rows, added } = this.#recent.extend(batch)
    for (let r = 0; r < added; r++) touched?.add(rows.user[r])
    const { logits, losses } = this.model.train(rows)
    return { logits: logits.subarray(added * this.model.outputs), losses: losses.subarray(added) }
  }

  rank(items: ArrayLike<number>): Ranker {
    return new Ranking(this.model, items)
  }

  get floatsNeeded(): number {
    return this.model.tables.item.count * floatsPerItem(this.model)
  }

  /** All items go to the region; parameters and changed user rows are sent. */
  publish(changed: Int32Array, region: SharedRegion): Published {
    const items = Int32Array.from(this.model.tables.item.ids())
    const powers = Uint8Array.of(writeItems(this.model, items, region) ? 1 : 0)
    const { ids, steps, rows } = packRows(this.model.tables.user, changed)
    const users = { userIds: ids, userSteps: steps, userRows: rows }
    return { items, arrays: { ...this.model.parameters.copyValues(), ...users, powers } }
  }

  set alone(alone: boolean) {
    this.model.kernels.alone = alone
  }

  forget(side: Side, ids: ReadonlySet<number>): void {
    this.#recent?.forget(side, ids)
  }

  save(state: State): void {
    this.#recent?.save(state.at("recent"))
  }

  load(state: State): void {
    this.#recent?.load(state.at("recent"))
  }

  close(): void {
    this.model.kernels.close()
  }
}
