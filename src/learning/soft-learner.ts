/**
 * The learner of the soft methods (method.md §8): no size is chosen, every id mixes all of them. The mixture is what is
 * searched: DARTS steps each id's free numbers by the gradient on D_{t−1}; AutoEmb trains a controller per side on it,
 * which then sets the mixtures of the ids at hand from their frequency and last mixture. The model stays frozen there.
 */

import { Indicators } from "../ids/indicators.ts"
import { ADAM } from "../kernels/parameters.ts"
import type { ModelBatch, PassResult } from "../models/model.ts"
import type { Mixture, MixturePlaced } from "../models/paper/mixture.ts"
import type { Model } from "../models/paper/model.ts"
import { Ranking } from "../models/paper/ranking.ts"
import { Controller, type ControllerPass, softmaxRow } from "../policies/controller.ts"
import { type Segment, SIDES, type Side } from "../types.ts"
import type { Learner, LearnerStatus, Preparation, Ranker, SideStatus } from "./learner.ts"

const MIXTURE_ADAM = { ...ADAM, rate: 1e-4 }

export class SoftLearner implements Learner {
  readonly model: Model
  readonly #controllers: Record<Side, Controller> | undefined
  readonly #indicators = new Indicators()
  #waiting: ModelBatch | undefined

  constructor(model: Model, options: { method: "darts" | "autoemb"; seed: number }) {
    this.model = model
    const { kernels } = model
    const parts = model.mixture("user").sizes.length
    const build = (side: Side) =>
      new Controller({ kernels, second: parts, outputs: parts, seed: `${options.seed} autoemb ${side}` })
    if (options.method === "autoemb") this.#controllers = { user: build("user"), item: build("item") }
  }

  prepare(segment: Segment, labels: Float64Array, deciding: number): Preparation {
    const start = performance.now()
    if (this.#waiting) this.#learn(this.#waiting)
    const batch = { user: segment.user, item: segment.item, label: labels }
    this.#waiting = batch
    for (let l = 0; l < deciding; l++) this.#indicators.observe(batch.user[l], batch.item[l])
    if (this.#controllers)
      for (const side of SIDES) this.#direct(side, this.#controllers[side], batch[side].subarray(0, deciding))
    for (let l = deciding; l < segment.length; l++) this.#indicators.observe(batch.user[l], batch.item[l])
    // Ids first met in a test row are seen ids too, also where no test predicts them (top-k: cold items).
    for (const side of SIDES)
      for (const table of this.model.inputs[side].tables) for (const id of segment[side]) table.ensure(id)
    return { milliseconds: { policy: performance.now() - start, growth: 0 } }
  }

  /** Learns the mixtures, or what sets them, on the last segment; the model is restored afterwards. */
  #learn(batch: ModelBatch): void {
    const { model } = this
    model.meet(batch)
    const controllers = this.#controllers
    const directed = controllers && {
      user: this.#forward("user", controllers.user, batch),
      item: this.#forward("item", controllers.item, batch),
    }
    const pass = model.backpropagate(batch)
    const gradients: Partial<Record<Side, { ids: Int32Array; values: Float64Array }>> = {}
    for (const side of SIDES) {
      const mixture = model.mixture(side)
      const placed = pass.placed[side] as MixturePlaced
      if (!controllers) mixture.stepMixtures(placed, MIXTURE_ADAM)
      const values = model.kernels.floats.subarray(placed.dLogits, placed.dLogits + placed.count * mixture.sizes.length)
      gradients[side] = { ids: placed.distinct.ids, values: Float64Array.from(values) }
    }
    model.discard(pass)
    if (!controllers || !directed) return
    // Working memory is a stack: the pass opened last ends first.
    for (const side of ["item", "user"] as const) {
      const gradient = gradients[side]
      if (gradient) controllers[side].learn(directed[side].pass, reorder(gradient, directed[side].ids))
    }
  }

  /** Sets the mixtures of a batch's ids by a training pass of the controller. */
  #forward(side: Side, controller: Controller, batch: ModelBatch): { pass: ControllerPass; ids: number[] } {
    const ids = [...new Set(Array.from(batch[side]))]
    const mixture = this.model.mixture(side)
    const pass = controller.forward(this.#input(side, mixture, ids))
    this.#set(mixture, ids, pass.logits)
    return { pass, ids }
  }

  /** Sets the mixtures of the segment's ids. */
  #direct(side: Side, controller: Controller, column: Int32Array): void {
    const ids = [...new Set(column)]
    if (ids.length === 0) return
    const mixture = this.model.mixture(side)
    this.#set(mixture, ids, controller.judge(this.#input(side, mixture, ids)))
  }

  /** What the controller reads: each id's frequency and last mixture. */
  #input(side: Side, mixture: Mixture, ids: readonly number[]) {
    const parts = mixture.sizes.length
    const last = new Float64Array(ids.length * parts)
    ids.forEach((id, i) => {
      mixture.mixtures.ensure(id)
      mixture.mixtures.read(id, last, i * parts)
      softmaxRow(last, last, i * parts, parts)
    })
    const frequencies = Float64Array.from(ids, (id) => this.#indicators.frequency(side, id))
    return { frequencies, second: last, secondIndex: Int32Array.from(ids.keys()) }
  }

  #set(mixture: Mixture, ids: readonly number[], logits: Float64Array): void {
    const parts = mixture.sizes.length
    ids.forEach((id, i) => {
      mixture.mixtures.replace(id, 0, logits, i * parts)
    })
  }

  train(batch: ModelBatch): PassResult {
    return this.model.train(batch)
  }

  test(batch: ModelBatch): PassResult {
    return this.model.predict(batch)
  }

  rank(items: ArrayLike<number>): Ranker {
    return new Ranking(this.model, items)
  }

  status(): LearnerStatus {
    const side = (name: Side): SideStatus => {
      const { tables } = this.model.inputs[name]
      const numbers = tables.reduce((sum, table) => sum + table.numbers, 0)
      const seen = tables[0].count
      const rowBytes = tables.reduce((sum, table) => sum + table.liveBytes, 0)
      return { seen, numbers, histogram: { [tables.reduce((sum, table) => sum + table.sizes[0], 0)]: seen }, rowBytes }
    }
    const { embeddingBytes, heldBytes } = this.model
    return { user: side("user"), item: side("item"), embeddingBytes, heldBytes }
  }

  close(): void {
    this.model.kernels.close()
  }
}

/** Rows of a gradient in another order of the same ids. */
function reorder(gradient: { ids: Int32Array; values: Float64Array }, ids: readonly number[]): Float64Array {
  const parts = gradient.values.length / gradient.ids.length
  const position = new Map(Array.from(gradient.ids, (id, d) => [id, d]))
  const values = new Float64Array(gradient.values.length)
  ids.forEach((id, i) => {
    const from = (position.get(id) ?? 0) * parts
    for (let c = 0; c < parts; c++) values[i * parts + c] = gradient.values[from + c]
  })
  return values
}
