/** The options of a live recommender: defaults, units, and what is refused. */

import { DessError, show } from "../errors.ts"
import type { Limits } from "../ids/idle.ts"
import { availableCores } from "../kernels/pool.ts"
import { dropUndefined, type FullRunOptions, type RunOptions, withDefaults } from "../learning/options.ts"
import { DEFAULT_SCALE, type RatingScale } from "../stream/interaction.ts"
import { checkOptionNames } from "./check.ts"
import { checkTypes, type EventTypes } from "./event-types.ts"
import { processPrices } from "./process-memory.ts"
import type { Bytes, Duration, KeptJournal, RecommenderOptions, ReplayProgress } from "./types.ts"
import { checkVariants, type ExperimentSettings } from "./variants.ts"

/** Idempotency keys that are remembered where nothing else is said. */
export const DEFAULT_KEYS = 1_000_000
const LONGEST_QUEUE = 100_000
const SHORTEST_QUEUE = 20_000
/** Bytes of a budget for every event that may wait. */
const BUDGET_PER_EVENT = 3200

/** Options with every default filled in. */
export interface EngineOptions {
  directory: string | undefined
  run: FullRunOptions
  features: readonly string[] | undefined
  scale: RatingScale
  segment: number
  delay: number
  limits: Limits
  /** Undefined: as in the directory. */
  types: EventTypes | undefined
  /** Undefined: lists are not counted. */
  experiments: ExperimentSettings | undefined
  snapshotEvents: number
  snapshotDelay: number
  queue: number
  publishDelay: number
  /** Whether the last of the threads trains only while the journal is replayed. */
  spareThread: boolean
  keys: number
  keepJournal: KeptJournal
  recover: boolean
  replay: "wait" | "behind"
  onReplay: ((progress: ReplayProgress) => void) | undefined
  signal: AbortSignal | undefined
}

/** Users ranked for per segment to measure with (top-k task), and rows below which a batch borrows from those before it. */
const LIVE = { testUsers: 8, smallestBatch: 64, remembered: 1000 }

const MOST_FEATURES = 4096

/** Options that a directory keeps and that may not change at the next opening. */
const FIXED = [
  ...(["task", "method", "model", "preset", "recipe", "sizes", "seed", "likeThreshold", "negatives"] as const),
  "price",
] as const
const NAMES = [
  ...FIXED,
  ...(["k", "directory", "memoryBudget", "features", "scale", "segment", "delay", "idle", "snapshotEvents"] as const),
  ...(["snapshotDelay", "queue", "threads", "publishDelay", "keys", "keepJournal", "recover"] as const),
  ...(["replay", "onReplay", "signal", "types", "leaveOut", "variants", "tracking", "conversions"] as const),
] satisfies (keyof RecommenderOptions)[]

export type FixedOptions = Pick<FullRunOptions, (typeof FIXED)[number]> & {
  features: readonly string[] | null
  scale: RatingScale
}

function checkExperiments({ variants, tracking, conversions }: RecommenderOptions): ExperimentSettings | undefined {
  if (tracking !== undefined && typeof tracking !== "boolean")
    throw new DessError("INVALID_ARGUMENT", `tracking: expected true or false, got ${show(tracking)}`)
  const checked = checkVariants(variants)
  if (checked && tracking === false)
    throw new DessError("INVALID_ARGUMENT", "tracking: expected true with variants, which count what comes of them")
  if (
    conversions !== undefined &&
    !(Array.isArray(conversions) && conversions.every((type) => typeof type === "string"))
  )
    throw new DessError("INVALID_ARGUMENT", `conversions: expected types of events, got ${show(conversions)}`)
  if (!checked && !tracking) {
    if (conversions === undefined) return undefined
    throw new DessError("INVALID_ARGUMENT", "conversions: expected with tracking or variants only")
  }
  return { variants: checked, conversions: conversions ?? ["purchase"] }
}

export function fixedOptions(options: EngineOptions): FixedOptions {
  const entries = FIXED.map((name) => [name, options.run[name]]).filter(([, value]) => value !== undefined)
  return { ...Object.fromEntries(entries), features: options.features ?? null, scale: options.scale } as FixedOptions
}

/** Fills in the directory's options or the defaults; refuses invalid values and those that differ from the directory's. */
export function completeOptions(given: RecommenderOptions, created?: FixedOptions): EngineOptions {
  checkOptionNames("options", given, NAMES)
  const options = toInternalScale(dropUndefined(given), created?.scale)
  if (created) {
    if (options.price !== undefined && created.price === undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `price: expected none, as the directory was created without one, got ${show(options.price)}; dess rebuild makes a new directory with one`,
      )
    for (const [name, before] of Object.entries(created)) {
      const now = options[name as keyof FixedOptions]
      if (now !== undefined && JSON.stringify(now) !== JSON.stringify(before))
        throw new DessError(
          "INVALID_ARGUMENT",
          `${name}: expected ${show(before)}, which the directory was created with, got ${show(now)}`,
        )
    }
  }
  const { features: createdFeatures, ...createdRest } = created ?? { features: undefined }
  const all = { ...options, ...createdRest }
  const features = created ? (createdFeatures ?? undefined) : checkFeatures(options.features)
  const run: RunOptions = { task: "topk", method: "dess-fre", protocol: "prequential" }
  for (const name of [...FIXED, "k"] as const) if (all[name] !== undefined) Object.assign(run, { [name]: all[name] })
  const cores = availableCores()
  // Of two cores one is the reader's, but there are no reads before the journal is replayed.
  const spareThread = options.threads === undefined && cores === 2
  const threads = options.threads ?? (spareThread ? 2 : Math.max(1, Math.min(64, cores - 1)))
  const segment = whole("segment", options.segment ?? 500, 1, 10_000)
  const bytes = options.memoryBudget === undefined ? undefined : parseBytes("memory budget", options.memoryBudget)
  const idle = options.idle ?? {}
  checkOptionNames("idle", idle, ["shrink", "leave"])
  const keepJournal = choice("keep journal", options.keepJournal ?? "all", ["none", "snapshots", "all"])
  return {
    directory: options.directory,
    run: withDefaults({ ...run, threads, segment, live: LIVE }),
    features,
    scale: checkScale(all.scale ?? DEFAULT_SCALE),
    segment,
    delay: parseDuration("delay", options.delay ?? 1000),
    limits: {
      ...(bytes !== undefined && {
        bytes,
        process: processPrices(run.task ?? "binary"),
      }),
      shrinkAfter: idle.shrink === undefined ? undefined : parseDuration("idle shrink", idle.shrink),
      leaveAfter: idle.leave === undefined ? undefined : parseDuration("idle leave", idle.leave),
    },
    types: checkTypes(options.types, options.leaveOut),
    experiments: checkExperiments(options),
    snapshotEvents: whole("snapshot events", options.snapshotEvents ?? 200_000, 1),
    snapshotDelay: parseDuration("snapshot delay", options.snapshotDelay ?? "15m"),
    queue: whole("queue", options.queue ?? usualQueue(bytes), segment),
    publishDelay: parseDuration("publish delay", options.publishDelay ?? 250),
    spareThread,
    keys: whole("keys", options.keys ?? DEFAULT_KEYS, 0),
    keepJournal,
    recover: options.recover === true,
    replay: choice("replay", options.replay ?? "wait", ["wait", "behind"]),
    onReplay: options.onReplay,
    signal: options.signal,
  }
}

/** Events that may wait. With a budget fewer: their ids have places already, and those that left for them still have theirs. */
function usualQueue(budget = Number.POSITIVE_INFINITY): number {
  return Math.min(LONGEST_QUEUE, Math.max(SHORTEST_QUEUE, Math.floor(budget / BUDGET_PER_EVENT)))
}

/** The like threshold comes on the scale of the ratings; inside, ratings go from 0 to 5. */
function toInternalScale(options: RecommenderOptions, createdScale: RatingScale | undefined): RecommenderOptions {
  const { likeThreshold } = options
  if (likeThreshold === undefined) return options
  const { min, max } = checkScale(options.scale ?? createdScale ?? DEFAULT_SCALE)
  if (!(likeThreshold >= min && likeThreshold < max))
    throw new DessError(
      "INVALID_ARGUMENT",
      `like threshold: expected a rating from ${min} to below ${max}, the scale's ends, got ${show(likeThreshold)}`,
    )
  return { ...options, likeThreshold: (likeThreshold * 5) / max }
}

function whole(name: string, value: number, least: number, most = Number.MAX_SAFE_INTEGER): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value
  const end = most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`
  throw new DessError("INVALID_ARGUMENT", `${name}: expected a whole number from ${least}${end}, got ${show(value)}`)
}

function choice<T extends string>(name: string, value: T, known: readonly T[]): T {
  if (known.includes(value)) return value
  throw new DessError("INVALID_ARGUMENT", `${name}: expected ${known.join(", ")}, got ${show(value)}`)
}

function checkScale(scale: RatingScale): RatingScale {
  checkOptionNames("scale", scale, ["min", "max"])
  const { min, max } = scale
  if (min >= 0 && min < max && max < Number.POSITIVE_INFINITY) return { min, max }
  throw new DessError("INVALID_ARGUMENT", `scale: expected 0 ≤ min < max, got ${show(scale)}`)
}

function checkFeatures(names: readonly string[] | undefined): readonly string[] | undefined {
  if (names === undefined) return undefined
  const fine =
    Array.isArray(names) &&
    names.length > 0 &&
    names.length <= MOST_FEATURES &&
    names.every((name) => typeof name === "string" && name.length > 0 && name.length <= 128) &&
    new Set(names).size === names.length
  if (fine) return [...names]
  throw new DessError(
    "INVALID_ARGUMENT",
    `features: expected 1 to ${MOST_FEATURES} different names, got ${show(names)}`,
  )
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds of a duration. */
export function parseDuration(name: string, value: Duration): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(String(value))
  const milliseconds =
    typeof value === "number" ? value : match ? Number(match[1]) * UNITS[match[2] as "s"] : Number.NaN
  // A timer takes at most 2³¹ − 1 milliseconds, 24 days; idle times may be longer.
  if (milliseconds >= 0 && milliseconds <= 1e13) return milliseconds
  throw new DessError(
    "INVALID_ARGUMENT",
    `${name}: expected milliseconds or a text such as 90s, 12h, 30d, got ${show(value)}`,
  )
}

const SIZES: Record<string, number> = { "": 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }

/** Bytes of a size. */
export function parseBytes(name: string, value: Bytes): number {
  const match = /^(\d+(?:\.\d+)?)\s?(B|KB|MB|GB|)$/i.exec(String(value))
  const bytes =
    typeof value === "number" ? value : match ? Number(match[1]) * SIZES[match[2].toUpperCase()] : Number.NaN
  if (bytes >= 1 && bytes <= Number.MAX_SAFE_INTEGER) return Math.floor(bytes)
  throw new DessError("INVALID_ARGUMENT", `${name}: expected bytes or a text such as 256MB, got ${show(value)}`)
}
