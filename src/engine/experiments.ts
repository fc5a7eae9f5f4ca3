/**
 * Does it pay? Lists that were given, and what came of them, by kind of list and by variant.
 *
 * A user's variant follows from its id alone, so it never changes and every process agrees. Counts are kept in this many
 * buckets of users: a bucket's users are in it for good, so the spread between buckets is that between users, however often
 * each of them comes, and intervals hold without a count per user.
 */

import { createHash, randomBytes } from "node:crypto"
import type { ExperimentRate, ExperimentsView, ListKind, Variant, VariantView } from "./types.ts"
import type { ExperimentSettings } from "./variants.ts"

const BUCKETS = 512
/** Positions of a list whose clicks are counted separately. */
const PLACES = 50
/** Of a normal distribution: 95 %. */
const WIDTH = 1.959964
/** What is counted: lists given, events that name one, those of them that convert, and conversions of the variant's users. */
const MEASURES = ["impressions", "clicks", "conversions", "outcomes"] as const
const PLACE = MEASURES.length
const NOBODYS = "all"
const KINDS: readonly ListKind[] = ["recommend", "guest", "similar", "popular", "newest"]

/** Kind of list, variant, bucket (of a click's place: the place), which measure, and how many. */
export type Count = [kind: ListKind, variant: string, bucket: number, measure: number, count: number]

export interface GivenList {
  id: string
  variant: string | undefined
}

interface Outcome {
  user: string
  type: string | undefined
  list?: string
  place?: number
}

/** The counts, independent of settings: opening a directory without variants loses nothing. */
export class ListCounts {
  readonly #counts = new Map<string, Float64Array>()
  /** Since when it is counted, in milliseconds. */
  since = 0

  add(counts: readonly Count[]): void {
    for (const [kind, variant, bucket, measure, count] of counts) this.at(kind, variant, measure)[bucket] += count
  }

  has(kind: ListKind, variant: string): boolean {
    return MEASURES.some((_, measure) => this.#counts.has(keyOf(kind, variant, measure)))
  }

  at(kind: string, variant: string, measure: number): Float64Array {
    const key = keyOf(kind, variant, measure)
    let counts = this.#counts.get(key)
    if (!counts) {
      counts = new Float64Array(measure === PLACE ? PLACES : BUCKETS)
      this.#counts.set(key, counts)
    }
    return counts
  }

  /** Resets the counts. */
  reset(since: number): void {
    this.#counts.clear()
    this.since = since
  }

  save(): Count[] {
    return Array.from(this.#counts).flatMap(([key, counts]) => {
      const [kind, variant, measure] = JSON.parse(key) as [ListKind, string, number]
      return Array.from(counts).flatMap((count, bucket) =>
        count === 0 ? [] : [[kind, variant, bucket, measure, count] as Count],
      )
    })
  }
}

function keyOf(kind: string, variant: string, measure: number): string {
  return JSON.stringify([kind, variant, measure])
}

export class Experiments {
  readonly #settings: ExperimentSettings
  readonly #names: readonly string[]
  readonly #fingerprint: string
  readonly #counts: ListCounts
  /** Counted but not written yet. */
  #pending = new Map<string, Count>()

  constructor(settings: ExperimentSettings, counts: ListCounts) {
    this.#settings = settings
    this.#counts = counts
    this.#names = Object.keys(settings.variants ?? {})
    this.#fingerprint = createHash("sha256").update(JSON.stringify(settings)).digest("hex").slice(0, 6)
  }

  /** Identifies these settings; with others counting restarts. */
  get fingerprint(): string {
    return this.#fingerprint
  }

  /** The variant of a user, by a hash of its id. */
  variantOf(user: string): string | undefined {
    const { variants } = this.#settings
    if (!variants) return undefined
    let left = hashOf("variant", user) / 2 ** 32
    for (const name of this.#names) {
      left -= variants[name].share
      if (left < 0) return name
    }
    return this.#names.at(-1)
  }

  settingsOf(variant: string | undefined): Variant | undefined {
    return variant === undefined ? undefined : this.#settings.variants?.[variant]
  }

  /** Counts a list that is given. Without a user every list is a bucket's of its own. */
  give(kind: ListKind, user: string | undefined): GivenList {
    const variant = user === undefined ? undefined : this.variantOf(user)
    const chance = randomBytes(8).toString("hex")
    const bucket = hashOf("bucket", user ?? chance) % BUCKETS
    this.#count([kind, variant ?? NOBODYS, bucket, 0, 1])
    const place = variant === undefined ? "" : this.#names.indexOf(variant)
    return { id: `${this.#fingerprint}-${kind}-${place}-${bucket}-${chance}`, variant }
  }

  /** Counts what came of lists. */
  observe({ user, type, list, place }: Outcome): void {
    const converts = type !== undefined && this.#settings.conversions.includes(type)
    const given = list === undefined ? undefined : this.#parse(list)
    if (given) {
      const { kind, variant, bucket } = given
      this.#count([kind, variant, bucket, 1, 1])
      if (converts) this.#count([kind, variant, bucket, 2, 1])
      if (place !== undefined && place <= PLACES) this.#count([kind, variant, place - 1, PLACE, 1])
    }
    if (converts) this.#count(["recommend", this.variantOf(user) ?? NOBODYS, hashOf("bucket", user) % BUCKETS, 3, 1])
  }

  /** A list of these settings; undefined for one of others. */
  #parse(id: string) {
    const [fingerprint, kind, place, bucket] = id.split("-")
    if (fingerprint !== this.#fingerprint || !KINDS.includes(kind as ListKind)) return undefined
    const variant = place === "" ? NOBODYS : this.#names[Number(place)]
    if (variant === undefined || !(Number(bucket) < BUCKETS)) return undefined
    return { kind: kind as ListKind, variant, bucket: Number(bucket) }
  }

  #count(count: Count): void {
    const key = count.slice(0, 4).join("\n")
    const known = this.#pending.get(key)
    if (known) known[4] += count[4]
    else this.#pending.set(key, count)
  }

  get isPending(): boolean {
    return this.#pending.size > 0
  }

  /** Everything that is not kept yet. */
  take(): Count[] {
    const counts = [...this.#pending.values()]
    this.#pending = new Map()
    return counts
  }

  view(): ExperimentsView {
    const { variants, conversions } = this.#settings
    // Lists without a user, such as similar items, are reported beside the variants.
    const isCounted = KINDS.some((kind) => this.#counts.has(kind, NOBODYS))
    const names = variants && !isCounted ? this.#names : [...this.#names, NOBODYS]
    const all = names.map((name): VariantView => {
      const lists = KINDS.filter((kind) => this.#counts.has(kind, name)).map((kind) => ({
        kind,
        ...this.#measures(kind, name),
      }))
      return { name, share: variants?.[name]?.share ?? 1, lists }
    })
    const [base, ...others] = this.#names
    const differences = others.flatMap((name) =>
      RATES.map(({ rate, measure }) => ({
        variant: name,
        against: base,
        rate,
        ...this.#difference(name, base, measure),
      })),
    )
    return { since: this.#counts.since, conversions: [...conversions], variants: all, differences }
  }

  #measures(kind: ListKind, variant: string) {
    const counts = MEASURES.map((_, measure) => this.#counts.at(kind, variant, measure))
    const [impressions, clicks, converted, outcomes] = counts.map((buckets) => buckets.reduce((sum, n) => sum + n, 0))
    const places = Array.from(this.#counts.at(kind, variant, PLACE))
    while (places.at(-1) === 0) places.pop()
    return {
      ...{ impressions, clicks, conversions: converted, outcomes },
      clickRate: rateOf(counts[1], counts[0]),
      conversionRate: rateOf(counts[2], counts[0]),
      outcomeRate: rateOf(counts[3], counts[0]),
      clicksByPlace: places,
    }
  }

  #difference(variant: string, against: string, measure: number): ExperimentRate {
    const [one, other] = [variant, against].map((name) =>
      estimateRatio(this.#counts.at("recommend", name, measure), this.#counts.at("recommend", name, 0)),
    )
    return interval(one && other ? { rate: one.rate - other.rate, variance: one.variance + other.variance } : undefined)
  }
}

const RATES = [
  { rate: "click", measure: 1 },
  { rate: "conversion", measure: 2 },
  { rate: "outcome", measure: 3 },
] as const

/** A ratio of two sums over buckets, and its variance by the delta method; undefined before the first list. */
export function estimateRatio(
  events: Float64Array,
  lists: Float64Array,
): { rate: number; variance: number } | undefined {
  let [sum, total, filled] = [0, 0, 0]
  for (let b = 0; b < lists.length; b++) {
    sum += events[b]
    total += lists[b]
    if (lists[b] > 0 || events[b] > 0) filled++
  }
  if (total === 0) return undefined
  const rate = sum / total
  // Nothing in n lists: with 95 % less than 3/n, and than one a list.
  if (events.every((count) => count === 0)) return { rate, variance: (Math.min(1, 3 / total) / WIDTH) ** 2 }
  let squares = 0
  for (let b = 0; b < lists.length; b++) squares += (events[b] - rate * lists[b]) ** 2
  const variance = filled < 2 ? Number.POSITIVE_INFINITY : ((filled / (filled - 1)) * squares) / total ** 2
  return { rate, variance }
}

/** A rate is not below 0. */
export function rateOf(events: Float64Array, lists: Float64Array): ExperimentRate {
  const { estimate, low, high } = interval(estimateRatio(events, lists))
  return { estimate, low: low === null ? null : Math.max(0, low), high }
}

/** With 95 % confidence; null where there is too little to say. */
export function interval(found: { rate: number; variance: number } | undefined): ExperimentRate {
  if (!found) return { estimate: null, low: null, high: null }
  const half = WIDTH * Math.sqrt(found.variance)
  if (!Number.isFinite(half)) return { estimate: found.rate, low: null, high: null }
  return { estimate: found.rate, low: found.rate - half, high: found.rate + half }
}

function hashOf(salt: string, name: string): number {
  return createHash("sha256").update(`${salt}\n${name}`).digest().readUInt32LE(0)
}
