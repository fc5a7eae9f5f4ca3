/** The options of a run, their defaults and what is refused. */

import { checkSizes } from "../embedding/table.ts"
import { DessError, show } from "../errors.ts"
import { DEFAULT_SIZES } from "../models/model.ts"
import { parseMethod } from "../search/methods.ts"
import type { Preset } from "../search/presets.ts"
import { LIKE_THRESHOLD } from "../stream/labels.ts"
import type { HeadKind, Side, Task } from "../types.ts"

export interface RunOptions {
  method?: string
  task?: Task
  model?: HeadKind
  preset?: Preset["name"]
  recipe?: "paper" | "calibrated"
  sizes?: readonly number[]
  /** Interactions per segment. */
  segment?: number
  protocol?: "split" | "prequential"
  seed?: number
  threads?: number
  limit?: number
  /** Ratings above it are liked (binary task). */
  likeThreshold?: number
  /** Length of the ranked list (top-k task). */
  k?: number
  /** Negatives per positive (top-k task): 10, or 4 for the cross-entropy of the paper recipe. */
  negatives?: number
  /** What the top-k task optimises. */
  ranking?: "bce" | "bpr"
  /** What a test normalises with: running statistics, or those of the rows tested, as the public code does (not top-k). */
  norm?: "running" | "batch"
  /** γ of the bandit instead of the preset's; "auto" takes Corollary 1's for `variation` and `horizon`. */
  discount?: number | "auto"
  /** B: how far the best parameters are thought to move along the stream. */
  variation?: number
  /** L: how many interactions the stream is thought to have. */
  horizon?: number
  /** What a number must save per segment of 500 events, in loss, to be held (calibrated recipe and preset). */
  price?: number
  /** The most the tables may hold, in bytes: then the price is steered (calibrated recipe and preset). */
  memoryBudget?: number
  /** Of `random-grow`: the chance that a decision grows. */
  probability?: Record<Side, number>
  /** What a recommender that never ends needs on top; experiments leave it out. */
  live?: LiveRun
}

export interface LiveRun {
  /** Users tested per segment (top-k task). */
  testUsers: number
  /** A batch with fewer rows is learned together with the rows before it, so that batch statistics mean something. */
  smallestBatch: number
  /** Segments whose scores are kept for `Run.result`. */
  remembered: number
}

export const RUN_DEFAULTS = {
  method: "dess-cv",
  task: "binary",
  model: "mf",
  preset: "calibrated",
  recipe: "calibrated",
  sizes: DEFAULT_SIZES,
  segment: 500,
  protocol: "split",
  seed: 1,
  likeThreshold: LIKE_THRESHOLD,
  k: 10,
  ranking: "bce",
  norm: "running",
  probability: { user: 0.1, item: 0.1 },
} as const satisfies RunOptions

/** A segment is held in memory, several times over. */
const MOST_ROWS = 10_000_000

const MOST_THREADS = 64

/** Options without a default of their own. */
type Open = "live" | "price" | "memoryBudget" | "threads" | "limit" | "discount" | "variation" | "horizon"

export type FullRunOptions = Required<Omit<RunOptions, Open>> & Pick<RunOptions, Open>

/** Fills in the defaults and refuses what is outside its domain. */
export function withDefaults(options: RunOptions): FullRunOptions {
  const given = dropUndefined(options)
  const recipe = given.recipe ?? (needsNetwork(given) ? "paper" : RUN_DEFAULTS.recipe)
  const model: HeadKind = recipe === "paper" ? "ncf" : RUN_DEFAULTS.model
  const full = { ...RUN_DEFAULTS, negatives: defaultNegatives(recipe, given.ranking), model, ...given, recipe }
  checkOptions(full)
  if (given.probability !== undefined && !isDefault(given.probability) && full.method !== "random-grow")
    throw new DessError(
      "INVALID_ARGUMENT",
      `probability: expected with the method random-grow only, got it with ${show(full.method)}`,
    )
  return full
}

/** Options filled in before may be filled in again. */
function isDefault({ user, item }: Record<Side, number>): boolean {
  return user === RUN_DEFAULTS.probability.user && item === RUN_DEFAULTS.probability.item
}

/** Negatives per positive when none are asked for. */
export function defaultNegatives(recipe: RunOptions["recipe"], ranking: RunOptions["ranking"]): number {
  return recipe === "calibrated" || ranking === "bpr" ? 10 : 4
}

/** The calibrated recipe has one head and no mixtures: what asks for others asks for the paper's recipe, and so does ESAPN as published. */
export function needsNetwork({ model = "mf", method = "" }: RunOptions): boolean {
  return model !== "mf" || method === "esapn" || MIXTURES.has(method)
}

const MIXTURES = new Set(["darts", "autoemb"])

/** The options that were given: an undefined one must not hide a default. */
export function dropUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>
  }
}

const CHOICES: Record<string, readonly string[]> = {
  task: ["binary", "multiclass", "topk"],
  model: ["ncf", "mf", "distance"],
  preset: ["paper", "calibrated"],
  recipe: ["paper", "calibrated"],
  protocol: ["split", "prequential"],
  ranking: ["bce", "bpr"],
  norm: ["running", "batch"],
}

function checkOptions(options: FullRunOptions): void {
  for (const [name, allowed] of Object.entries(CHOICES)) {
    const value = options[name as keyof typeof options]
    if (!allowed.includes(value as string))
      throw new DessError("INVALID_ARGUMENT", `${name}: expected ${allowed.join(" or ")}, got ${show(value)}`)
  }
  checkSizes(options.sizes)
  if (parseMethod(options.method, options.sizes).family === "ranker" && options.task !== "topk")
    throw new DessError(
      "INVALID_ARGUMENT",
      `method ${options.method}: expected with the top-k task only, got ${options.task}`,
    )
  if (options.norm === "batch" && options.task === "topk")
    throw new DessError(
      "INVALID_ARGUMENT",
      "norm batch: expected with a rating task; a ranking tests no batch, got topk",
    )
  checkCalibrated(options)
  for (const name of ["k", "negatives", "segment"] as const)
    if (!Number.isSafeInteger(options[name]) || options[name] < 1)
      throw new DessError("INVALID_ARGUMENT", `${name}: expected a whole number from 1, got ${show(options[name])}`)
  if (options.segment > MOST_ROWS)
    throw new DessError("INVALID_ARGUMENT", `segment: expected at most ${MOST_ROWS}, got ${options.segment}`)
  if (options.segment === 1 && options.protocol === "split")
    throw new DessError(
      "INVALID_ARGUMENT",
      "segment: expected at least 2 with the split protocol, which trains on one row and tests on another, got 1",
    )
  if (!Number.isFinite(options.likeThreshold))
    throw new DessError("INVALID_ARGUMENT", `like threshold: expected a number, got ${show(options.likeThreshold)}`)
  const { discount, variation, horizon } = options
  if (discount !== undefined && discount !== "auto" && !(discount > 0 && discount <= 1))
    throw new DessError(
      "INVALID_ARGUMENT",
      `discount: expected a number above 0 and up to 1, or auto, got ${show(discount)}`,
    )
  if (discount === "auto" && variation === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      "discount auto: expected with a variation, got none; say how far the best parameters move: --variation <B>",
    )
  if (discount === "auto" && horizon === undefined)
    throw new DessError("INVALID_ARGUMENT", "discount auto: expected a stream of known length, got another")
  if (variation !== undefined && discount !== "auto")
    throw new DessError(
      "INVALID_ARGUMENT",
      `variation: expected with discount auto only, got ${discount === undefined ? "no discount" : `discount ${show(discount)}`}`,
    )
  const { threads } = options
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= MOST_THREADS))
    throw new DessError(
      "INVALID_ARGUMENT",
      `threads: expected a whole number from 1 to ${MOST_THREADS}, got ${show(threads)}`,
    )
  if (!Number.isSafeInteger(options.seed))
    throw new DessError("INVALID_ARGUMENT", `seed: expected a whole number, got ${show(options.seed)}`)
}

/** What the calibrated recipe has, and what only it has. */
function checkCalibrated(options: FullRunOptions): void {
  const { recipe, preset, model, method, norm, price, memoryBudget } = options
  const calibrated = recipe === "calibrated"
  if (calibrated && model !== "mf")
    throw new DessError(
      "INVALID_ARGUMENT",
      `model: expected mf with the calibrated recipe, got ${show(model)}; or use the paper recipe`,
    )
  if (calibrated && MIXTURES.has(method))
    throw new DessError("INVALID_ARGUMENT", `method ${method}: expected with the paper recipe, got the calibrated one`)
  if (calibrated && norm !== "running")
    throw new DessError(
      "INVALID_ARGUMENT",
      `norm: expected with the paper recipe, got ${show(norm)} with the calibrated one`,
    )
  for (const [name, value] of Object.entries({ price, "memory budget": memoryBudget })) {
    if (value === undefined) continue
    if (!calibrated || preset !== "calibrated" || !method.startsWith("dess"))
      throw new DessError(
        "INVALID_ARGUMENT",
        `${name}: expected with a dess method and the calibrated recipe and preset, got ${show(method)}, ${recipe} and ${preset}`,
      )
    if (!(value >= 0 && Number.isFinite(value)))
      throw new DessError("INVALID_ARGUMENT", `${name}: expected a number from 0, got ${show(value)}`)
  }
}
