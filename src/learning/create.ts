/** From a method's name to the learner that runs it. */

import { DessError } from "../errors.ts"
import type { Kernels } from "../kernels/kernels.ts"
import { openKernels } from "../kernels/open.ts"
import { FactorModel } from "../models/calibrated/factor.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import { SequenceModel } from "../models/calibrated/sequence.ts"
import { PlainBias } from "../models/controls/bias.ts"
import { Ease } from "../models/controls/ease.ts"
import { PlainFactor } from "../models/controls/factor.ts"
import { Isgd } from "../models/controls/isgd.ts"
import { PlainKnn } from "../models/controls/knn.ts"
import type { PlainRanker } from "../models/controls/model.ts"
import { PlainNeighbours } from "../models/controls/neighbours.ts"
import { PlainPopular } from "../models/controls/popular.ts"
import { PlainRecent } from "../models/controls/recent.ts"
import type { SizedModel } from "../models/model.ts"
import { OwnRows } from "../models/own/row-model.ts"
import { Model, type ModelOptions } from "../models/paper/model.ts"
import type { Bits } from "../models/row-packing.ts"
import { BudgetControl, followCurve, pruneTo, sampleWithin } from "../policies/budget-controls.ts"
import { AlwaysGrow, NeverGrow, RandomGrow } from "../policies/controls.ts"
import { Dess } from "../policies/dess.ts"
import { Esapn } from "../policies/esapn.ts"
import { type Method, parseMethod, type SearchMethod } from "../policies/methods.ts"
import { openPolicy } from "../policies/own.ts"
import type { SizePolicy } from "../policies/policy.ts"
import { PRESETS, type Preset } from "../policies/presets.ts"
import { discountFor } from "../policies/regret-bound.ts"
import { LEAST_SHARE, RENT, Rent, STEADY_PATIENCE, USUAL_LOSS } from "../policies/rent.ts"
import type { ItemFeatures, Task } from "../types.ts"
import { CalibratedFamily } from "./calibrated-family.ts"
import { CalibratedReader } from "./calibrated-reader.ts"
import { ControlLearner, ControlRanking } from "./control-learner.ts"
import { HashedLearner } from "./hashed-learner.ts"
import type { Learner } from "./learner.ts"
import { type FullRunOptions, methodOf } from "./options.ts"
import { type CreateModel, kindOfModel } from "./own.ts"
import { OwnFamily } from "./own-family.ts"
import { PaperFamily } from "./paper-family.ts"
import { PaperReader } from "./paper-reader.ts"
import type { Reader } from "./reader.ts"
import { SizedLearner } from "./sized-learner.ts"
import { SoftLearner } from "./soft-learner.ts"
import { RatingEvaluator, type TaskEvaluator } from "./task-evaluator.ts"
import { TopkEvaluator } from "./topk-evaluator.ts"

/** Builds the evaluator of a run's task. */
export function createTaskEvaluator(options: FullRunOptions): TaskEvaluator {
  const { task, likeThreshold, live, userScores } = options
  if (task !== "topk") return new RatingEvaluator({ task, likeThreshold, userScores })
  const { k, negatives, seed, recipe } = options
  const mixture = recipe === "calibrated"
  const ranking = { k, negatives, seed, mixture, userScores }
  return new TopkEvaluator({ ...ranking, ...(live && { likeThreshold, testUsers: live.testUsers }) })
}

/** Builds the learner a run's options ask for. */
export function createLearner(options: FullRunOptions, features?: ItemFeatures): Learner {
  const { sizes, seed, task, model: head, threads } = options
  const method = methodOf(options)
  if (options.own?.model) return createOwn(options.own.model, options, features)
  if (method.family === "ranker") return new ControlRanking(createRanker(method, seed))
  const outputs = task === "multiclass" ? 5 : 1
  if (method.family === "plain-bias") return new ControlLearner(new PlainBias(outputs))
  if (method.family === "plain-factor")
    return new ControlLearner(new PlainFactor({ width: method.width, outputs, seed }))
  if (options.recipe === "calibrated") return createFactor(method, options, features)
  const kernels = openKernels(threads === undefined ? {} : { threads })
  try {
    const { ranking, norm } = options
    const model = new Model({ kernels, task, head, seed, ranking, norm, ...shapeOf(method, sizes) })
    if (method.family === "soft") return new SoftLearner(model, { method: method.method, seed })
    const family = new PaperFamily(model, { smallestBatch: options.live?.smallestBatch })
    const live = options.live !== undefined
    if (method.family !== "search") return new SizedLearner(family, { live })
    const preset = PRESETS[options.preset]
    const policy =
      method.policy.name === "own"
        ? createOwnPolicy(model, { preset, options, features })
        : createPolicy(method, { kernels, preset, options, features })
    return new SizedLearner(family, { search: { policy, preset, initial: method.initial, features }, live })
  } catch (error) {
    kernels.close()
    throw error
  }
}

function createRanker(method: Extract<Method, { family: "ranker" }>, seed: number): PlainRanker {
  if (method.name === "popular") return new PlainPopular({ decay: method.decay })
  if (method.name === "recent") return new PlainRecent(method.pairs)
  if (method.name === "isgd") return new Isgd({ width: method.width, seed })
  if (method.name === "ease") return new Ease({ items: method.items })
  return method.name === "knn" ? new PlainKnn() : new PlainNeighbours()
}

/** The calibrated recipe: below the first size of the ladder stands 0, the biases alone. */
function createFactor(method: Method, options: FullRunOptions, features: ItemFeatures | undefined): Learner {
  if (method.family === "hash") return createHashed(method, options)
  const model = factorModel(method, options)
  const family = new CalibratedFamily(model)
  const live = options.live !== undefined
  if (method.family !== "search") return new SizedLearner(family, { live })
  const preset = PRESETS[options.preset]
  const policy = createFactorPolicy(method, { model, preset, options, features })
  const price = options.price ?? LEAST_SHARE * USUAL_LOSS[options.task]
  const search = { policy, preset, initial: method.initial, features, price }
  const learner = new SizedLearner(family, { search, live })
  if (options.memoryBudget !== undefined) learner.limit({ bytes: options.memoryBudget }, options.segment)
  return learner
}

/** A model from outside. One with rows has the ladder of the calibrated recipe, in 32 bits. */
function createOwn(create: CreateModel, options: FullRunOptions, features: ItemFeatures | undefined): Learner {
  const { task, seed } = options
  const method = methodOf(options)
  const refuse = (message: string) => {
    throw new DessError("INVALID_ARGUMENT", message)
  }
  const { sizes, start } = ladderOf(method, { ...options, bits: "32" })
  const outputs = task === "multiclass" ? 5 : 1
  const model = create({ task, outputs, seed, sizes, options: options.own?.options ?? {} })
  const kind = kindOfModel(model)
  if (kind !== "rows" && options.own?.policy) refuse("policy: expected beside a model with rows (fill), got another")
  if ("learn" in model) {
    if (task !== "topk") refuse(`model with learn and scores: expected with the top-k task, got ${task}`)
    return new ControlRanking(model)
  }
  if (!("fill" in model)) return new ControlLearner(model)
  const rows = new OwnRows(model, { task, sizes, start })
  if (method.family === "fixed" || method.family === "uniform") return new SizedLearner(new OwnFamily(rows))
  if (method.family !== "search")
    throw new DessError(
      "INVALID_ARGUMENT",
      `method ${options.method}: expected one that gives ids sizes beside a model from outside, got another`,
    )
  const preset = PRESETS[options.preset]
  const policy = createFactorPolicy(method, { model: rows, preset, options, features })
  const price = options.price ?? LEAST_SHARE * USUAL_LOSS[task]
  const learner = new SizedLearner(new OwnFamily(rows), {
    search: { policy, preset, initial: method.initial, features, price },
  })
  if (options.memoryBudget !== undefined) learner.limit({ bytes: options.memoryBudget }, options.segment)
  return learner
}

/** Numbers of a row that ids share: as many as pay for everybody. */
const HASHED = { rating: 16, ranking: 64 }

function createHashed({ rows, bits = 32 }: Method & { family: "hash" }, options: FullRunOptions): Learner {
  const { task, seed } = options
  const size = task === "topk" ? HASHED.ranking : HASHED.rating
  return new HashedLearner(factorModel({ family: "fixed", size }, options), { rows, bits, seed })
}

function factorModel(method: Method, options: FullRunOptions): RowModel {
  const { task, seed } = options
  const { sizes, bits, start } = ladderOf(method, options)
  if (task === "topk") return new SequenceModel({ sizes, bits, start, seed })
  return new FactorModel({ task, sizes, bits, start, seed, notes: method.family === "search" })
}

/** Ranking is learned better wide, and grown numbers do not make up for it: a row starts with up to this many numbers. */
const RANKING_START = 64

/** The rungs of a method, numbers and bits. Ids that are searched for stand in 8 bits a number, which cost nothing (docs/lab/calibration.md). */
function ladderOf(method: Method, options: FullRunOptions): { sizes: number[]; bits: Bits[]; start: number } {
  const sizes = method.family === "fixed" ? [method.size] : [...new Set([0, ...options.sizes])]
  const given = options.bits === undefined ? undefined : (Number(options.bits) as Bits)
  const asked = ("bits" in method ? method.bits : undefined) ?? given
  if (method.family !== "search" || asked !== undefined) {
    const first = method.family === "uniform" ? method.size : sizes.length === 1 ? sizes[0] : firstSize(method, options)
    return { sizes, bits: sizes.map(() => asked ?? 32), start: sizes.indexOf(first) }
  }
  return { sizes, bits: sizes.map(() => 8), start: sizes.indexOf(firstSize(method, options)) }
}

/** What a new id of a method that searches starts with; `random-grow` small where it takes nothing back. */
function firstSize(method: Method, { task, sizes, follow }: FullRunOptions): number {
  const small = method.family === "search" && method.policy.name === "random" && !follow
  const wide = task === "topk" && !small ? sizes.filter((size) => size <= RANKING_START) : []
  return wide[wide.length - 1] ?? sizes[0]
}

/** A first guess at how much a rung changes the loss of an event, by task. */
const SPREAD: Record<Task, number> = { binary: 0.05, multiclass: 0.3, topk: 0.3 }

function createFactorPolicy(
  method: SearchMethod,
  p: { model: SizedModel; preset: Preset; options: FullRunOptions; features: ItemFeatures | undefined },
): SizePolicy {
  const { model, preset, options, features } = p
  const { tables } = model
  const { policy } = method
  if (policy.name === "own") return createOwnPolicy(model, { preset, options, features })
  // Its controller is the only network here: one thread is enough.
  if (policy.name === "esapn")
    return new Esapn({ kernels: openKernels({ threads: 1 }), sizes: model.sizes, seed: options.seed })
  if (policy.name !== "dess" || preset.name === "paper") return createPolicy(method, { preset, options, features })
  const dimension = contextDimension(policy.context, preset, features)
  const discount = options.discount === undefined ? RENT.discount : discountOf(options, preset, dimension)
  return new Rent({
    context: policy.context,
    dimension,
    sizes: { user: tables.user.costs, item: tables.item.costs },
    price: options.price,
    leastShare: LEAST_SHARE,
    usualLoss: USUAL_LOSS[options.task],
    ...RENT,
    ...(options.task !== "topk" && { steadyPatience: STEADY_PATIENCE }),
    discount,
    prior: SPREAD[options.task],
  })
}

/** A policy from outside. */
function createOwnPolicy(
  { tables, sizes }: SizedModel,
  p: { preset: Preset; options: FullRunOptions; features: ItemFeatures | undefined },
): SizePolicy {
  const { preset, options, features } = p
  const { task, seed, own } = options
  if (own?.policy === undefined) throw new DessError("INVALID_ARGUMENT", "policy: expected one, got none")
  const constant = preset.constant ? 1 : 0
  return openPolicy(own.policy, {
    task,
    seed,
    sizes,
    bytes: {
      user: sizes.map((_, step) => tables.user.stepBytes(step)),
      item: sizes.map((_, step) => tables.item.stepBytes(step)),
    },
    contextLengths: { none: 0, fre: 1 + constant, cv: 2 + constant },
    features: features !== undefined,
    options: own.options ?? {},
  })
}

/** Builds a model of rows, as the learner of these options has one. */
export function createRowModel(options: FullRunOptions): RowModel {
  return factorModel(parseMethod(options.method, options.sizes), options)
}

/** Builds the reader of the versions a live learner of these options publishes. `kernels` with shared memory; the caller closes them. */
export function createReader(options: FullRunOptions, kernels: Kernels): Reader {
  const { sizes, seed, task, model: head } = options
  const method = parseMethod(options.method, sizes)
  if (options.recipe === "calibrated")
    return new CalibratedReader(factorModel(method, options), factorModel(method, options), kernels)
  return new PaperReader(new Model({ kernels, task, head, seed, moments: false, ...shapeOf(method, sizes) }))
}

/** How the rows of a method with a network are held. */
function shapeOf(method: Method, sizes: readonly number[]): Pick<ModelOptions, "input" | "sizes" | "start"> {
  if (method.family === "fixed") return { input: "plain", sizes: [method.size] }
  if (method.family === "soft") return { input: "mixture", sizes }
  return { sizes, start: method.family === "uniform" ? sizes.indexOf(method.size) : 0 }
}

function createPolicy(
  method: SearchMethod,
  p: { kernels?: Kernels; preset: Preset; options: FullRunOptions; features: ItemFeatures | undefined },
): SizePolicy {
  const { kernels, preset, options, features } = p
  const { policy } = method
  if (policy.name === "dess") {
    const dimension = contextDimension(policy.context, preset, features)
    const { subgaussian, forget } = preset
    return new Dess(policy.context, {
      dimension,
      subgaussian,
      discount: discountOf(options, preset, dimension),
      forget,
    })
  }
  if (policy.name === "esapn" && kernels) return new Esapn({ kernels, sizes: options.sizes, seed: options.seed })
  if (policy.name === "random")
    return options.follow ? new BudgetControl(followCurve(options.follow), options.seed) : new RandomGrow(options)
  if (policy.name === "prune") return new BudgetControl(pruneTo(policy.bytes), options.seed)
  if (policy.name === "sample") return new BudgetControl(sampleWithin(policy.bytes, options.seed), options.seed)
  return policy.name === "never" ? new NeverGrow() : new AlwaysGrow()
}

/** Coordinates of a context; refuses features that are not there. */
function contextDimension(kind: "fre" | "cv", preset: Preset, features: ItemFeatures | undefined): number {
  if (kind === "cv" && features === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      "method dess-cv: expected items with features, this data has none; use dess-fre",
    )
  return (kind === "cv" ? 2 : 1) + (preset.constant ? 1 : 0)
}

/** γ that `discount: "auto"` takes; undefined where nothing is chosen. */
export function chosenDiscount(options: FullRunOptions, features?: ItemFeatures): number | undefined {
  const method = methodOf(options)
  if (options.discount !== "auto" || method.family !== "search" || method.policy.name !== "dess") return undefined
  const preset = PRESETS[options.preset]
  return discountOf(options, preset, contextDimension(method.policy.context, preset, features))
}

/** γ: the preset's, or the one asked for. */
function discountOf(options: FullRunOptions, preset: Preset, dimension: number): number {
  const { discount = preset.discount, variation = 0, horizon = 0 } = options
  return discount === "auto" ? discountFor(variation, dimension, horizon) : discount
}
