/**
 * The options of a run, each declared once. The types here, the checks, the flags and help of `dess run` and
 * `dess compare`, the schema of a grid's file, the settings of a result and the columns of its tables are made of it.
 */

import { DessError, show } from "../errors.ts"
import { checkSizes } from "../models/embedding-table.ts"
import { CALIBRATED_SIZES, DEFAULT_SIZES } from "../models/model.ts"
import { isCalibrated, METHOD_NAMES, type Method, parseMethod } from "../policies/methods.ts"
import type { CreatePolicy, OwnOptions } from "../policies/own.ts"
import type { SizePolicy } from "../policies/policy.ts"
import { LIKE_THRESHOLD } from "../stream/labels.ts"
import type { CreateModel, Own } from "./own.ts"
import { checkSchema, type Schema, type ValueOf } from "./schema.ts"
import type { UserScores } from "./user-scores.ts"

/** Values of other options; a star stands for any ending. */
type Conditions = Readonly<Record<string, readonly string[]>>

/** What a rule for a default depends on. */
interface Given {
  recipe?: "paper" | "calibrated"
  model?: string
  method?: string
  ranking?: string
}

export interface RunOption {
  schema: Schema
  help: string
  /** The heading of its flag in the help; without one it has no flag. */
  group?: "Data" | "Method" | "Run" | "Advanced"
  /** The default: a value, or a rule. */
  default?: unknown
  /** The default in words, if it is a rule or set elsewhere. */
  otherwise?: string
  /** Where it has an effect. It may be given elsewhere, too, since a grid has many tasks. */
  applies?: Conditions
  /** Where a value other than the default may be given. */
  requires?: Conditions
  /** In a grid: a list that is crossed with other lists, or one value for all runs. */
  grid?: "list" | "value"
  /** Part of a result's key: always, or only if given, so that results from before the option keep their keys. */
  setting?: "always" | "given"
  unit?: string
  /** Its words in the title of tables, {} for the value. */
  title?: string
  /** Whether the title names it even when it is the default. */
  titled?: true
  /** Of the stream, not of the loop. */
  stream?: true
}

const whole = { type: "integer", minimum: 1 } as const
const amount = { type: "number", minimum: 0 } as const
const share = { type: "number", minimum: 0, maximum: 1 } as const
const curve = { type: "array", items: amount, minItems: 1 } as const
const CURVES = ["interactions", "user", "item"] as const
const either = <const V extends string>(...values: V[]) => ({ type: "string", enum: values }) as const

const TOPK = { task: ["topk"] } as const
const RENTED = { method: ["dess-*"], recipe: ["calibrated"], preset: ["calibrated"] } as const

/** In the order of the columns of results. */
export const RUN_OPTIONS = {
  method: {
    schema: { type: "string", examples: ["<name>"] },
    help: `how ids get their sizes: ${METHOD_NAMES}`,
    ...{ group: "Method", grid: "list", default: "dess-fre" },
  },
  task: {
    schema: either("binary", "multiclass", "topk"),
    help: "what is predicted",
    ...{ group: "Method", grid: "list", default: "binary" },
  },
  model: {
    schema: either("ncf", "mf", "distance"),
    help: "the head",
    ...{ group: "Advanced", grid: "list", otherwise: "mf; ncf with the paper recipe" },
    default: (given: Given) => (recipeOf(given) === "paper" ? "ncf" : "mf"),
  },
  seed: { schema: { type: "integer" }, help: "of everything random", group: "Run", grid: "list", default: 1 },
  preset: {
    schema: either("paper", "calibrated"),
    help: "reward and exploration of the other recipe's policy, to study what each part does",
    ...{ group: "Advanced", grid: "list", setting: "always", otherwise: "the recipe's" },
    default: (given: Given) => recipeOf(given),
  },
  recipe: {
    schema: either("paper", "calibrated"),
    help: "how the model learns and the policy judges: as the paper has it, or as we do",
    ...{ group: "Method", grid: "list", setting: "always", titled: true },
    otherwise: "calibrated; paper for ncf, distance, darts, autoemb and, unless asked for, esapn",
    default: (given: Given) => recipeOf(given),
  },
  protocol: {
    schema: either("split", "prequential", "next"),
    help: "test on the end of a segment, on all of it before it is learned, or on every event after a cut, from all before it",
    ...{ group: "Run", grid: "list", setting: "always", default: "split", title: "{} protocol", titled: true },
  },
  order: {
    schema: either("time", "shuffled"),
    help: "order of the stream",
    ...{ group: "Data", grid: "list", setting: "always", title: "{} order", titled: true, stream: true },
    default: "time",
  },
  limit: {
    schema: whole,
    help: "only the first so many interactions",
    ...{ group: "Data", grid: "value", setting: "always", unit: "interactions", title: "first {} interactions" },
  },
  segment: {
    schema: { type: "integer", minimum: 1, maximum: 10_000_000 },
    help: "interactions per segment, which is held in memory several times over",
    ...{ group: "Run", grid: "value", setting: "always", default: 500, unit: "interactions" },
    ...{ title: "segments of {}", titled: true },
  },
  sizes: {
    schema: { type: "array", items: { type: "integer", minimum: 0 }, minItems: 1, examples: ["2,4,8"] },
    help: "sizes of the ladder",
    ...{ group: "Method", grid: "value", setting: "always", titled: true },
    otherwise: `${CALIBRATED_SIZES.join()}; ${DEFAULT_SIZES.join()} with the paper recipe`,
    default: (given: Given) => usualSizes(given),
  },
  k: {
    schema: whole,
    help: "length of the ranked list",
    ...{ group: "Method", grid: "value", setting: "always", default: 10, unit: "items", title: "lists of {}" },
    applies: TOPK,
  },
  negatives: {
    schema: whole,
    help: "negatives per positive",
    ...{ group: "Advanced", grid: "value", setting: "always", unit: "per positive" },
    applies: TOPK,
    otherwise: "10; 4 with the paper recipe and bce",
    default: (given: Given) => (recipeOf(given) === "calibrated" || given.ranking === "bpr" ? 10 : 4),
  },
  ranking: {
    schema: either("bce", "bpr"),
    help: "what the top-k task optimises",
    ...{ group: "Advanced", grid: "value", setting: "given", default: "bce" },
    applies: { ...TOPK, recipe: ["paper"] },
  },
  norm: {
    schema: either("running", "batch"),
    help: "statistics a test normalises with; batch: of the rows tested, as public code does",
    ...{ group: "Advanced", grid: "value", setting: "given", default: "running" },
    requires: { recipe: ["paper"], task: ["binary", "multiclass"] },
  },
  discount: {
    schema: { anyOf: [{ type: "number", exclusiveMinimum: 0, maximum: 1 }, either("auto")] },
    help: "the bandit's γ instead of the recipe's; auto: Corollary 1's for the variation given",
    ...{ group: "Advanced", grid: "value", setting: "given" },
    applies: { method: ["dess-*"] },
  },
  variation: {
    schema: amount,
    help: "B of Corollary 1: how far the best parameters move along the stream",
    ...{ group: "Advanced", grid: "value", setting: "given" },
    requires: { discount: ["auto"] },
  },
  price: {
    schema: amount,
    help: "loss that one more number for everybody must save per event; of others than dess-* only regret counts it",
    ...{ group: "Method", grid: "value", setting: "given" },
    otherwise: "next to nothing: what gives numbers back only where that costs nothing",
    requires: { ...RENTED, method: ["dess-*", "never-grow", "always-grow", "random-grow"] },
  },
  memoryBudget: {
    schema: { ...whole, format: "bytes" },
    help: "the most the tables may hold; the price is steered to keep it",
    ...{ group: "Method", grid: "value", setting: "given", unit: "bytes", title: "memory budget {} bytes" },
    requires: RENTED,
  },
  bits: {
    schema: either("8", "16", "32"),
    help: "bits of a number on every rung of the ladder",
    ...{ group: "Advanced", grid: "value", setting: "given", title: "{} bits" },
    otherwise: "8; 32 for fixed-<n> and uniform-<s>",
    requires: { recipe: ["calibrated"] },
  },
  cut: {
    schema: { type: "number", exclusiveMinimum: 0, maximum: 1 },
    help: "share of the stream, by time, before the first event that is predicted",
    ...{ group: "Run", grid: "value", setting: "given", default: 0.9, title: "cut at {}" },
    requires: { protocol: ["next"] },
  },
  every: {
    schema: whole,
    help: "events after the cut that are learned at a time",
    ...{ group: "Run", grid: "value", setting: "given", default: 10, unit: "events", title: "learned every {} events" },
    requires: { protocol: ["next"] },
  },
  core: {
    schema: whole,
    help: "leave out users and items with fewer interactions, and consecutive repeats of a pair",
    ...{ group: "Run", grid: "value", setting: "given", default: 1, unit: "interactions", title: "{}-core" },
    requires: { protocol: ["next"] },
  },
  probability: {
    schema: { type: "object", properties: { user: share, item: share }, required: ["user", "item"] },
    help: "chance that a decision grows, of all or of users, items",
    ...{ group: "Advanced", default: { user: 0.1, item: 0.1 }, otherwise: "0.1" },
    requires: { method: ["random-grow"] },
  },
  follow: {
    schema: { type: "object", properties: { interactions: curve, user: curve, item: curve }, required: CURVES },
    help: "bytes of rows that random-grow is to hold along the stream",
    requires: { method: ["random-grow"], recipe: ["calibrated"] },
  },
  likeThreshold: {
    schema: { type: "number" },
    help: "a rating above it, on the scale of the ratings, is liked",
    ...{ group: "Data", default: LIKE_THRESHOLD, otherwise: "3.5 of 5" },
    applies: { task: ["binary"] },
  },
  horizon: { schema: amount, help: "L of Corollary 1: how many interactions the stream has" },
  threads: {
    schema: { type: "integer", minimum: 1, maximum: 64 },
    help: "threads of the kernels; results do not depend on it",
    ...{ group: "Run", otherwise: "all cores" },
  },
} as const satisfies Record<string, RunOption>

type Table = typeof RUN_OPTIONS
export type OptionName = keyof Table
/** The options whose entry has these fields. */
export type OptionsWith<Fields> = { [K in OptionName]: Table[K] extends Fields ? K : never }[OptionName]
export type OptionValues = { -readonly [K in OptionName]: ValueOf<Table[K]["schema"]> }

type LoopOption = Exclude<OptionName, OptionsWith<{ stream: true }>>
type Decided = Extract<LoopOption, OptionsWith<{ default: unknown }>>

export interface RunOptions extends Partial<Pick<OptionValues, Exclude<LoopOption, "model">>> {
  /** A head of the paper's networks, or a model from outside. */
  model?: OptionValues["model"] | CreateModel
  /** A policy from outside instead of a method; an object is used up by its run. */
  policy?: SizePolicy | CreatePolicy
  /** Options of a policy or model from outside. */
  ownOptions?: OwnOptions
  /** Called with the test results, user by user. */
  userScores?: UserScores
  /** Additional options of the live recommender. */
  live?: LiveRun
}

export type FullRunOptions = Omit<RunOptions, "model" | "policy" | "ownOptions"> &
  Pick<OptionValues, Decided> & { own?: Own }

export interface LiveRun {
  /** Users tested per segment (top-k task). */
  testUsers: number
  /** A batch with fewer rows is learned together with the rows before it, so that batch statistics mean something. */
  smallestBatch: number
  /** Segments whose scores are kept for `Run.result`. */
  remembered: number
}

/** Everything that must be equal for results to be comparable; null for a setting that has no value. */
export type Setting = {
  [K in OptionsWith<{ setting: "always" }>]: OptionValues[K] | (Table[K] extends { default: unknown } ? never : null)
} & Partial<Pick<OptionValues, OptionsWith<{ setting: "given" }>>>

export const OPTION_ENTRIES = Object.entries(RUN_OPTIONS) as [OptionName, RunOption][]
export const SETTINGS = OPTION_ENTRIES.filter(([, { setting }]) => setting !== undefined) as [
  keyof Setting,
  RunOption,
][]

const MIXTURES = new Set(["darts", "autoemb"])

/** The calibrated recipe has one head and no mixtures: what asks for others asks for the paper's recipe, and so does ESAPN as published. */
export function needsNetwork({ model = "mf", method = "" }: Given): boolean {
  return model !== "mf" || method === "esapn" || MIXTURES.has(method)
}

function recipeOf(given: Given): "paper" | "calibrated" {
  return given.recipe ?? (needsNetwork(given) ? "paper" : "calibrated")
}

/** The ladder where none is asked for: the paper's is part of its recipe. */
export function usualSizes(given: Given): readonly number[] {
  return recipeOf(given) === "paper" ? DEFAULT_SIZES : CALIBRATED_SIZES
}

/** Fills in defaults and refuses invalid values. */
export function withDefaults(options: RunOptions): FullRunOptions {
  const { live, own, userScores, ...given } = takeOwn(dropUndefined(options))
  for (const [name, value] of Object.entries(given)) checkOne(name, value)
  const usual = Object.fromEntries(LOOP_ENTRIES.map(([name, option]) => [name, defaultOf(option, given)]))
  const full: FullRunOptions = { ...(dropUndefined({ ...usual, ...given }) as FullRunOptions), ...(own && { own }) }
  checkTogether(full)
  return { ...full, ...(live && { live }), ...(userScores && { userScores }) }
}

/** Collects plugins in one place. */
function takeOwn({ policy, ownOptions, model, ...rest }: RunOptions): Partial<FullRunOptions> {
  const refuse = (message: string) => {
    throw new DessError("INVALID_ARGUMENT", message)
  }
  const outside = typeof model === "function"
  if (policy === undefined && !outside) {
    if (ownOptions !== undefined) refuse("own options: expected with a policy or model from outside, got none")
    return { ...rest, ...(model === undefined ? {} : { model }) }
  }
  if (policy !== undefined && rest.method !== undefined)
    refuse(`policy: expected instead of a method, got the method ${show(rest.method)} beside it`)
  if (rest.live !== undefined) refuse("policy and model from outside: expected in experiments, got live use")
  if (outside && rest.recipe === "paper") refuse("model from outside: expected with the calibrated recipe, got paper")
  const own = dropUndefined({ policy, model: outside ? model : undefined, options: ownOptions }) as Own
  return {
    ...rest,
    ...(policy === undefined ? {} : { method: OWN_POLICY }),
    ...(outside || model === undefined ? {} : { model }),
    own,
  }
}

/** The name of a method whose policy is a plugin. */
const OWN_POLICY = "own"

/** The method of a run. */
export function methodOf({ own, method, sizes }: Pick<FullRunOptions, "own" | "method" | "sizes">): Method {
  return own?.policy ? { family: "search", policy: { name: "own" }, initial: "warm" } : parseMethod(method, sizes)
}

const LOOP_ENTRIES = OPTION_ENTRIES.filter(([, { stream }]) => !stream)
const LOOP_NAMES = new Set<string>(LOOP_ENTRIES.map(([name]) => name))

function defaultOf({ default: own }: RunOption, given: Given): unknown {
  return typeof own === "function" ? own(given) : own
}

/** "memory budget" of "memoryBudget". */
export const wordsOf = (name: string): string => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

function checkOne(name: string, value: unknown): void {
  if (!LOOP_NAMES.has(name))
    throw new DessError("INVALID_ARGUMENT", `option: expected one of ${[...LOOP_NAMES].join(", ")}, got ${show(name)}`)
  checkSchema(value, RUN_OPTIONS[name as OptionName].schema, wordsOf(name))
}

/** The setting of a run with these options. */
export function settingOf(options: Partial<OptionValues>): Setting {
  const kept = SETTINGS.filter(([name, option]) => option.setting === "always" || !isDefault(name, options))
  return Object.fromEntries(
    kept.map(([name, option]) => [name, options[name] ?? defaultOf(option, options) ?? null]),
  ) as Setting
}

/** Whether an option has its default value. */
export function isDefault(name: OptionName, options: { [K in OptionName]?: OptionValues[K] | null }): boolean {
  const usual = defaultOf(RUN_OPTIONS[name], options as Given)
  return JSON.stringify(options[name] ?? usual) === JSON.stringify(usual)
}

/** The options without those that do not apply to this method. */
export function dropInapplicable<T extends object>(options: T): T {
  const fitting = Object.entries(options).filter(([name]) => unmet(name, options).length === 0)
  return Object.fromEntries(fitting) as T
}

/** The names of required options whose values do not allow this one. */
function unmet(name: string, options: object): string[] {
  const { requires = {} }: RunOption = RUN_OPTIONS[name as OptionName] ?? {}
  return Object.keys(requires).filter((other) => {
    const value = String(options[other as keyof object])
    return !requires[other].some((one) => value === one || (one.endsWith("*") && value.startsWith(one.slice(0, -1))))
  })
}

/** "task topk, recipe paper" */
export function describeConditions(conditions: Conditions): string {
  return Object.entries(conditions)
    .map(([name, values]) => `${name} ${values.join(" or ")}`)
    .join(", ")
}

/** The options that were given: an undefined one must not hide a default. */
export function dropUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>
  }
}

/** Checks options against each other. */
function checkTogether(options: FullRunOptions): void {
  const { method, task, model, recipe, sizes, segment, protocol, discount, variation, horizon } = options
  const refuse = (message: string) => {
    throw new DessError("INVALID_ARGUMENT", message)
  }
  checkSizes(sizes)
  if (methodOf(options).family === "ranker" && task !== "topk")
    refuse(`method ${method}: expected with the top-k task only, got ${task}`)
  if (recipe === "paper" && isCalibrated(method))
    refuse(`method ${method}: expected with the calibrated recipe, got the paper one`)
  if (protocol === "next" && task !== "topk") refuse(`protocol next: expected with the top-k task only, got ${task}`)
  if (recipe === "calibrated" && model !== "mf")
    refuse(`model: expected mf with the calibrated recipe, got ${show(model)}; or use the paper recipe`)
  if (recipe === "calibrated" && MIXTURES.has(method))
    refuse(`method ${method}: expected with the paper recipe, got the calibrated one`)
  if (segment === 1 && protocol === "split")
    refuse("segment: expected at least 2 with the split protocol, which trains on one row and tests on another, got 1")
  if (discount === "auto" && variation === undefined)
    refuse("discount auto: expected with a variation, got none; say how far the best parameters move: --variation <B>")
  if (discount === "auto" && horizon === undefined)
    refuse("discount auto: expected a stream of known length, got another")
  for (const [name, option] of LOOP_ENTRIES) {
    // Options filled in before may be filled in again.
    if (isDefault(name, options)) continue
    const others = unmet(name, options).map((other) => `${other} ${options[other as LoopOption] ?? "none"}`)
    if (others.length > 0)
      refuse(
        `${wordsOf(name)}: expected with ${describeConditions(option.requires ?? {})} only, got ${others.join(", ")}`,
      )
  }
}

/** The options of a run with nothing but defaults. */
export const RUN_DEFAULTS: FullRunOptions = withDefaults({})
