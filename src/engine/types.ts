/** The live recommender as its users see it: what goes in, what comes out. Types only. */

import type { SizeStep } from "../learning/learner.ts"
import type { RunOptions } from "../learning/options.ts"
import type { SegmentReport } from "../learning/report.ts"
import type { Outlook } from "../policies/outlook.ts"
import type { Side, Task } from "../types.ts"
import type { EventTypes } from "./event-types.ts"
import type { Note } from "./lookup.ts"

/** Milliseconds, or a text such as "90s", "15m", "12h", "30d". */
export type Duration = number | string

/** Bytes, or a text such as "512KB", "256MB", "4GB" (powers of 1024). */
export type Bytes = number | string

/** An id of the outside world: a text of 1 to 512 characters or a finite number; 7 and "7" are the same id. */
export type Id = string | number

/**
 * What a recommender is opened with. What a directory was created with may be left out later, but not changed.
 * `likeThreshold` is on the scale of the ratings.
 */
export interface RecommenderOptions
  extends Pick<
    RunOptions,
    "method" | "model" | "preset" | "recipe" | "sizes" | "seed" | "likeThreshold" | "negatives" | "k" | "price"
  > {
  /** Where events, ids, items and snapshots are kept (created when missing). Without: in memory only. */
  directory?: string | undefined
  /** What the process may take above an empty Node, kept within about 1.25 times; old ids make room for new ones. Default: no limit. */
  memoryBudget?: Bytes | undefined
  /** Default "topk". */
  task?: Task | undefined
  /** The names of the item feature columns, fixed when the directory is created; `dess-cv` needs them. */
  features?: readonly string[] | undefined
  /** The scale ratings come on: both ends included. Default 0 to 5. */
  scale?: { min: number; max: number } | undefined
  /** Splits users by a stable hash of their ids between settings of lists, and counts what comes of them (`experiments`). */
  variants?: Variants | undefined
  /** Whether lists have ids and are counted. Default: where there are variants. */
  tracking?: boolean | undefined
  /** Types of events that count as conversions. Default "purchase". */
  conversions?: readonly string[] | undefined
  /**
   * What events of each type weigh: this many events, −10 to 10; below 0 the item is disliked, 0 only says what the user
   * looks at. Kept with the directory; may change, and counts for the events that come then. Default: as before, at
   * first any type weighs 1.
   */
  types?: Readonly<Record<string, number>> | undefined
  /** Types whose item is left out of the user's lists from then on. Default: of the highest weight, and those below 0. */
  leaveOut?: readonly string[] | undefined
  /** A segment closes at this many events … Default 500. */
  segment?: number | undefined
  /** … or this long after its first. Default 1 s. */
  delay?: Duration | undefined
  /** Ids without an event for this long lose one step of their size, or leave. Default: only when the budget is short. */
  idle?: { shrink?: Duration | undefined; leave?: Duration | undefined } | undefined
  /** A snapshot is written once this many events were learned since the last; four feature numbers count as one. Default 200,000. */
  snapshotEvents?: number | undefined
  /** … or, when something was learned, after this long. Default 15 m. */
  snapshotDelay?: Duration | undefined
  /** Accepted events that may wait to be learned; above it `observe` refuses with code BUSY. Default 100,000, with a budget below 320 MB one for 3,200 bytes of it. */
  queue?: number | undefined
  /** Threads that train. Default: one fewer than the cores there are, at least 1; of two cores both while the journal is replayed. */
  threads?: number | undefined
  /** The shortest time between two published versions. Default 250 ms. */
  publishDelay?: Duration | undefined
  /** Idempotency keys remembered, the newest. Default 1,000,000. */
  keys?: number | undefined
  /**
   * How much of the journal is kept: all of it (3 to 10 bytes an event; a new state can be made of it at any time), what
   * came since the older of two snapshots, or since the newest. `forget` always removes a user's events. Default "all".
   */
  keepJournal?: KeptJournal | undefined
  /** Where the journal is damaged: keeps everything that is whole and says in `status().damaged` what is gone. Default: refuses. */
  recover?: boolean | undefined
  /**
   * "wait": `open` resolves when the journal is replayed. "behind": as soon as the newest snapshot can be read; the rest
   * is replayed behind that, reading goes on from the snapshot, and writing is refused with CLOSED meanwhile. Default "wait".
   */
  replay?: "wait" | "behind" | undefined
  /** Called a few times a second while the journal is replayed. What it throws ends the replay: `open` or, with "behind", `caughtUp` rejects with it. */
  onReplay?: ((progress: ReplayProgress) => void) | undefined
  /** Gives up opening within a second: `open` rejects with code CLOSED. What was replayed by then is kept. */
  signal?: AbortSignal | undefined
}

export type KeptJournal = "none" | "snapshots" | "all"

/** How far a replay of the journal is. */
export interface ReplayProgress {
  /** Events learned again so far. */
  events: number
  /** Of all that is to be learned again; 0 to 1. */
  share: number
  /** Milliseconds since it began, and until it is done at that rate; null while that is unknown. */
  elapsed: number
  remaining: number | null
}

/** Something a user did. */
export interface Event {
  user: Id
  item: Id
  /** On the recommender's scale. Left out (a click, a purchase): a positive. At or below the like threshold: a negative. */
  rating?: number | undefined
  /** Seconds or milliseconds since 1970. Default: now. Not more than a day in the future. */
  timestamp?: number | undefined
  /** An idempotency key of 1 to 256 characters: an event whose key was accepted before is counted as a duplicate and not taken again. */
  key?: string | undefined
  /**
   * What kind of thing was done, in 1 to 128 characters ("like"). One event of a user, item and type is kept, to be read
   * with `feedback` and taken away with `retract`. Where the recommender has `types` it must be one of them, and another
   * of the same is learned too, unless its time is the same; without, another of the same counts as a duplicate.
   */
  type?: string | undefined
  /**
   * How many events this one counts as, −10 to 10, in place of what its type weighs; below 0: the item is disliked.
   * Default: what the type weighs, or 1.
   */
  weight?: number | undefined
  /** Kept with the type, at most 4,096 characters. */
  comment?: string | undefined
  /** The `id` of the list that led to it; only counted (`experiments`). */
  list?: string | undefined
  /** The item's place in that list, from 1. */
  place?: number | undefined
}

/** An event as it was sent: names, and the rating on its own scale. */
export interface NamedEvent {
  user: string
  item: string
  rating?: number
  timestamp: number
  type?: string
  /** Where it is not 1. */
  weight?: number
}

/** An event of a type, as it is kept. */
export interface FeedbackView {
  user: string
  item: string
  type: string
  /** Seconds since 1970. */
  timestamp: number
  comment: string
}

export interface FeedbackOptions {
  user?: Id | undefined
  item?: Id | undefined
  type?: string | undefined
  /** 1 to 10,000. Default 100. */
  count?: number | undefined
  /** Where the page before ended: its `next`. */
  after?: string | undefined
}

/** How far a source of events was read. */
export interface SourcePosition {
  /** 1 to 512 characters. */
  name: string
  /** Whatever the reader needs to go on; at most 1 MB. */
  position: string
}

export interface ObserveOptions {
  /**
   * Takes an event of a known user, item and type all the same, in place of the other, unless the time is the same.
   * Default: where the recommender has `types`.
   */
  replace?: boolean | undefined
  /** Kept with the events in one piece: after a crash both are there or neither. So a reader that goes on from `source(name)` brings every event once. */
  source?: SourcePosition | undefined
}

/** What `observe` did, durably when there is a directory. */
export interface Accepted {
  accepted: number
  duplicates: number
  /** Of a cluster: what a read takes as `after` to see these events. */
  token?: string
}

/** What is said of an item: a text, a number, a boolean, or a list of texts and numbers (at most 64). */
export type PropertyValue = string | number | boolean | readonly (string | number)[]
export type Properties = Readonly<Record<string, PropertyValue>>

/**
 * An item of the catalogue. Events may name items that were never put here. What is left out stays as it was, null takes
 * it away. Title, categories and properties of an item have at most 4,096 bytes as JSON.
 */
export interface ItemEntry {
  item: Id
  /** 1 to 512 characters. */
  title?: string | null | undefined
  /** One number per feature column of the recommender, in its order; null takes the features away. Left out: as before. */
  features?: readonly number[] | null | undefined
  /** At most 64 texts of 1 to 128 characters. Left out: as before. */
  categories?: readonly string[] | undefined
  /**
   * By name, 1 to 64 characters and 256 names in all; a property that is left out stays, null takes it away. Lists can be
   * filtered by numbers, booleans, and texts of at most 128 characters.
   */
  properties?: Readonly<Record<string, PropertyValue | null>> | null | undefined
  /** From then on it stands in no list: seconds or milliseconds since 1970, or a date as a text. */
  expires?: number | string | null | undefined
  /** A hidden item is never recommended; events with it are learned. Left out: as before, at first false. */
  hidden?: boolean | undefined
}

/** An item as the catalogue has it. */
export interface ItemView {
  item: string
  title: string | null
  properties: Properties
  /** Milliseconds since 1970; null: never. */
  expires: number | null
  categories: readonly string[]
  hidden: boolean
  hasFeatures: boolean
  /** Events with it so far. */
  events: number
}

export type PreviewOptions = Pick<ListOptions, "count" | "include">

/** Which of many. */
export interface PageOptions {
  /** Default 0. */
  offset?: number | undefined
  /** Default 100. */
  count?: number | undefined
}

/** Where a recommended item comes from. */
export type Source = "model" | "trending" | "new"

/**
 * Which items a filter lets through: everything it says must hold. By property, or `category`: a value (equal, or in the
 * item's list), { eq }, { in: [values] }, or some of { lt, lte, gt, gte }; `any` and `all`: a list of filters; `not`: a
 * filter. At most 100 conditions, 8 deep. A property that no item has, or a value of a type that none has, is refused.
 */
export type Filter = { readonly [name: string]: FilterValue | Filter | readonly Filter[] }
type FilterScalar = string | number | boolean
type FilterValue =
  | FilterScalar
  | { readonly [word in "eq" | "lt" | "lte" | "gt" | "gte"]?: FilterScalar }
  | { readonly in: readonly FilterScalar[] }

export interface Boost {
  filter: Filter
  /**
   * .001 to 1,000: what the odds of a like are multiplied by (trending: the count, similar: the nearness, several
   * classes: the expected rating). Several that let an item through multiply.
   */
  by: number
}

/** What every kind of list can be asked for with. */
export interface ListOptions {
  /** 1 to 1,000. Default 10. */
  count?: number | undefined
  /** Leaves out the first so many of the list, for paging. Default 0, at most 10,000. */
  offset?: number | undefined
  /** Items to leave out, at most 10,000. */
  exclude?: readonly Id[] | undefined
  /** Only these items, at most 10,000. */
  only?: readonly Id[] | undefined
  /** Only items with at least one of these categories. */
  categories?: readonly string[] | undefined
  /** Only items that it lets through. */
  filter?: Filter | undefined
  /** At most 100: items that count for more, or less. */
  boost?: readonly Boost[] | undefined
  /** Of a category, or a value of a property, at most this many: { category: 2, brand: 1 }. Best first; at most 8. */
  cap?: Readonly<Record<string, number>> | undefined
  /** 0 to 1: how much items that are alike (vectors, categories) are kept apart. Default 0: not at all. */
  diversity?: number | undefined
  /** What of its catalogue entry comes with each item. Default: nothing. */
  include?: readonly Included[] | undefined
  /** False for a list that no user is shown: it gets no id and is not counted (`experiments`, `fresh`). Default true. */
  counted?: boolean | undefined
}

export type Included = "title" | "categories" | "properties"

export interface RecommendOptions extends ListOptions {
  /** Items the user has met: true leaves none of them out, false all. Default: by their types (`leaveOut`); without types all. */
  seen?: boolean | undefined
  /**
   * For a list that is kept, or sent: what the user will take over days, not the very next item. Top-k task only; scores
   * then hold what is popular lately too, and order this list alone. Default false.
   */
  lasting?: boolean | undefined
  /**
   * Of the places of the list this many, the last, are kept for items with less than 5 events: those that may be best, as far
   * as is known of them and of items like them, and were not shown in vain. Where even that is less than a tenth of what
   * stands there otherwise, that stays. For users and guests the model knows. With `offset` every page of `count` has its
   * own. Default 0.
   */
  fresh?: number | undefined
  /** Says of each item what speaks for it; top-k with the default recipe only. Default false. */
  why?: boolean | undefined
  /** Of a cluster: the token of events that must have been learned; STALE when they are not within two seconds. */
  after?: string | undefined
}

/** What speaks for an item of a list. */
export interface Why {
  /**
   * What the log of its score's odds is the sum of, for items of source "model"; 0 for others. Each is what it has more than
   * the mean of some 200 items. taste: the user's own vector. recency: what the vectors of the latest 20 items say, the
   * latest most. neighbours: what others did after them. popularity: everybody. new: it has few events, and items like it
   * raise it. again: all of it, where the user may come back to it. boost: the request's own. base: the odds of such a mean
   * item.
   */
  parts: Record<"taste" | "recency" | "neighbours" | "popularity" | "new" | "again" | "boost" | "base", number>
  /** The user's items that speak for it, at most five, and what each adds to `recency` and `neighbours`; most first. */
  items: { item: string; adds: number }[]
}

/** What somebody without an id clicked on, oldest first, and what kind of list it is to be. */
export interface GuestOptions extends Omit<RecommendOptions, "after"> {
  /**
   * At most 10,000, in the order of the clicks: the latest say most, and of more than 20 only the latest 20 say what is
   * liked. All are left out of the list, or those whose type says so, unless `seen`. Unknown items are passed over.
   */
  items: readonly (Id | GuestItem)[]
}

/** What a guest did with an item; a weight below 0 says it is disliked. */
export type GuestItem = Pick<Event, "item" | "type" | "weight">

/** A list, best first. */
export interface RecommendationList extends Array<Recommendation> {
  /** Where lists are counted (`tracking`, `variants`): what events name as `list`. */
  id?: string
  /** The user's variant, where there are any. */
  variant?: string
}

/** What lists are counted by. */
export type ListKind = "recommend" | "guest" | "similar" | "popular" | "newest"

/** What part of the users gets: lists of the model, of what is popular, or none, and options that its lists have. */
export interface Variant {
  /** Of all users; together they are 1. */
  share: number
  /** Default "model". */
  list?: "model" | "popular" | "off" | undefined
  /** Used where a request says nothing else. */
  options?: Pick<ListOptions, "filter" | "boost" | "cap" | "diversity"> | undefined
}

export type Variants = Readonly<Record<string, Variant>>

/** A rate per list with its interval of 95 %, by the spread between users; null where there is too little to say. */
export interface ExperimentRate {
  estimate: number | null
  low: number | null
  high: number | null
}

export interface VariantView {
  name: string
  share: number
  lists: {
    kind: ListKind
    impressions: number
    /** Events that name a list. */
    clicks: number
    /** Those of them whose type is a conversion. */
    conversions: number
    /** All conversions of the variant's users, whether they name a list or not. */
    outcomes: number
    clickRate: ExperimentRate
    conversionRate: ExperimentRate
    outcomeRate: ExperimentRate
    clicksByPlace: number[]
  }[]
}

/** What lists led to, since counting began. */
export interface ExperimentsView {
  /** Milliseconds since 1970. */
  since: number
  /** Types of events that count as conversions. */
  conversions: string[]
  variants: VariantView[]
  /** Of each variant's rates of recommended lists to those of the first. */
  differences: ({ variant: string; against: string; rate: "click" | "conversion" | "outcome" } & ExperimentRate)[]
}

export interface Recommendation {
  item: string
  /** Model: what `predict` gives, its odds times boosts. Trending: a decayed count. New: 0. Comparable within one source only. */
  score: number
  source: Source
  /** With `why`. */
  why?: Why
  /** Where `include` asks for it. */
  title?: string | null
  categories?: readonly string[]
  properties?: Properties
}

/** Something a user might do. */
export type Trial = Pick<Event, "item" | "rating">

export interface SimilarUser {
  user: string
  /** The cosine of both as the model sees them. */
  score: number
}

/** What the model thinks of a pair. */
export interface Prediction {
  user: string
  item: string
  /**
   * Top-k: the chance that of all items this one comes next for the user (.02 is twice as likely as .01, and all add up
   * to 1). Binary: the probability of a like. Multiclass: the expected rating, 1 to 5.
   */
  score: number
  /** Multiclass: of the ratings 1 to 5. */
  probabilities?: number[]
  /** Whether the model has met both; where it has not, the score is that of the average event, of top-k that of any item. */
  known: Record<Side, boolean>
}

/** Everything held about one id. */
export interface Explanation {
  id: string
  side: Side
  /** Numbers in the vector; 0 when the model does not know the id (yet). */
  size: number
  /** Embedding row with its optimizer state. */
  bytes: number
  /**
   * Its last ten sizes, oldest first: from which segment on, when that was closed (milliseconds since 1970), and why.
   * met: the first event. grown: the next size was expected to be worth it. explored: not so far, but it could not be ruled out.
   * released: the last numbers saved too little. idle: no event for long. budget: others needed the room. elsewhere:
   * decided by another process.
   * `scores`, where a policy with bounds decided: the upper confidence bounds of both arms for the numbers taken or let
   * go, and what they save as far as measured; in units of the bandit's reward, by default loss per event, where keep is
   * the rent until the next event.
   */
  history: SizeStep[]
  indicators: {
    /** FRE. */
    frequency: number
    /** IND of a user, POD of an item; null without features. */
    diversity: number | null
  }
  /** Upper confidence bounds of both arms for the id's context now; null for a policy without, or at the top size. */
  bounds: { keep: number; grow: number } | null
  /** Of a user: items met. Of an item: events. */
  events: number
  /** Of a user: the last items met, up to 20, newest first. */
  met?: Pick<ItemView, "item" | "title">[]
  /** Of an item: as the catalogue has it. */
  entry?: ItemView
}

/** What `merge` did. */
export interface Merged {
  guest: string
  user: string
  /** Whether the guest was known. */
  found: boolean
  /** Items in the guest's history. */
  history: number
}

/** What `forget` removed. */
export interface Receipt {
  user: string
  /** pending: it is noted on disk and tried again until it is done; `status().erasures` counts what is pending. */
  status: "done" | "pending"
  /** Whether there was anything to remove. */
  found: boolean
  /** The embedding row. */
  row: boolean
  /** Items in the user's history. */
  history: number
  /** Journalled events. */
  events: number
  /** Snapshots deleted because they contained the user. */
  snapshots: number
  /** When, in milliseconds since 1970. */
  time: number
}

/**
 * One message per closed segment that was learned, for live views and metrics. Recall and NDCG (top-k) are measured on a
 * few users, and with many items not at every segment: they mean something where `testUsers` is above 0.
 */
export interface LiveReport extends SegmentReport {
  /** When it was learned, in milliseconds since 1970. */
  time: number
  /** Events in it. */
  events: number
  /** Events accepted and not yet learned. */
  queue: number
  /** Milliseconds from acceptance to visibility in lists of the slowest event made visible last; null before the first. */
  freshness: number | null
  /** Journalled events a start would have to replay; null without a directory. */
  journalEvents: number | null
  /** Milliseconds since the last snapshot; null when there is none. */
  snapshotAge: number | null
  /** Ids that lost a step of their size, or left, in this segment: idle for long, or to make room. */
  shrunk: Record<Side, number>
  left: Record<Side, number>
  /** What the policy thinks of every context; null for one without bounds, and in all but the newest of past reports. */
  outlook: Outlook | null
  /** Set when the segment could not be learned (a loss that was not finite); it is skipped. */
  failed?: string
}

/** Bytes of the process that grow with ids and events, by what they are for. */
export interface MemoryParts {
  /** Vectors with their accumulators, and what leads from an id to its own. */
  rows: number
  /** How often ids are met, their indicators, the sizes they had, when they were met last. */
  indicators: number
  names: number
  /** Items that users have met. */
  met: number
  /** What is known of items: trend, categories, features. */
  items: number
  /** Items in the form they are scored in. */
  packed: number
  /** Events on their way to the disk and to the learner. */
  journal: number
  /** What is known of the files of the lookup table (idempotency keys, feedback, notes), and what waits to be written. */
  lookup: number
}

export interface Status {
  /** Set where lists are counted: `experiments` tells of them. */
  experiments?: true
  /**
   * learning: all is well. replaying: it takes up its journal; reading goes on from the snapshot, writing is refused.
   * refusing: the disk does not take writes for `reason`; it is tried again every second, reading goes on. failed:
   * training stopped for `reason`; reading goes on, writing is refused until a restart.
   */
  state: "learning" | "replaying" | "refusing" | "failed" | "closed"
  reason?: string
  task: Task
  method: string
  directory: string | null
  /** Milliseconds since 1970. */
  opened: number
  events: {
    /** Since the directory was created. */
    accepted: number
    /** Since opened. */
    duplicates: number
    learned: number
    /** Accepted and not yet learned. */
    queue: number
  }
  segments: number
  /** Ids known, and of them in the model. */
  users: { known: number; held: number }
  items: { known: number; held: number; hidden: number }
  memory: {
    /** null: no limit. */
    budget: number | null
    /** What grows; with `fixed` it adds up to about what the process holds. A budget governs it. */
    parts: MemoryParts
    /** The runtime, its code, parameters of no id, buffers: what the process held when it was opened and is no part. */
    fixed: number
    heldBytes: number
    embeddingBytes: number
    /** Share of the loss of biases alone that vectors save lately, in rating prediction: below .01 they hardly pay. */
    vectorsSave?: number
    sizes: Record<Side, Record<string, number>>
    /** Since the directory was created. */
    shrunk: Record<Side, number>
    left: Record<Side, number>
  }
  /** Milliseconds from acceptance to visibility in lists, the slowest event of each of the last 1,000 versions; null before the first. */
  freshness: { p50: number; p99: number; last: number } | null
  /** null without a directory. */
  journal: { events: number; bytes: number } | null
  snapshot: SnapshotInfo | null
  /** Why the last snapshot that was due could not be written; it is tried again, and nothing is lost without it. */
  snapshotFailure?: string
  /** What was wrong with the directory when it was opened: snapshots passed over, records that are gone. */
  damaged?: string[]
  /** While the journal is replayed. */
  replay?: ReplayProgress
  /** Users whose removal is on its way, and why the last try failed. null without a directory. */
  erasures: { pending: number; failure?: string } | null
  /**
   * The build that learned what was taken up, where it learns differently from this one: what was learned since, or
   * replayed, is not what that one would have learned. `dess rebuild` makes a state that is of one piece.
   */
  built?: { version: string; learning: string }
  /** The last segment's report. */
  last: LiveReport | null
  /** Of a cluster. */
  cluster?: {
    partitions: number
    /** Of them with a trainer. */
    owned: number
    /** Acknowledged events that a failed master took with it, as far as this process can tell. */
    lost: number
    /** Commands Redis did not answer. */
    failures: number
    /** Milliseconds since updates of items were last read. */
    updatesAge: number
  }
}

export interface SnapshotInfo {
  /** Segments learned in it. */
  segment: number
  bytes: number
  /** When, in milliseconds since 1970. */
  time: number
}

/**
 * A recommender that learns from every event. One writer, many readers: training has its own thread, and reading uses
 * the last published version. Every method refuses with a DessError: INVALID_ARGUMENT or INVALID_DATA for what the
 * caller gave (nothing of an array is taken when one element is refused), NOT_FOUND, BUSY (try again later), CLOSED.
 *
 * This is what one machine and a cluster both do.
 */
export interface ServedRecommender {
  /** Takes one event or up to 10,000. Resolves when they are on disk (without a directory: at once). */
  observe(events: Event | readonly Event[]): Promise<Accepted>
  /**
   * The best items for a user, `count` of them where that many exist, or for a guest by the items given. For lists
   * (top-k), what `observe` has acknowledged counts, learned or not. An unknown user gets what is trending and new, and so
   * does a guest without a known item.
   */
  recommend(user: Id, options?: RecommendOptions): Promise<RecommendationList>
  recommend(guest: GuestOptions): Promise<RecommendationList>
  /**
   * The list a user would get after doing something, up to 100 things: learned on a copy of the rows it touches, so the
   * model stays as it is. Sizes stay too. Items the model does not know count as met and teach nothing. UNSUPPORTED with
   * the paper recipe.
   */
  preview(user: Id, trials: readonly Trial[], options?: PreviewOptions): Promise<Recommendation[]>
  /**
   * Items nearest to an item, best first. An unknown item: NOT_FOUND. In ranking those that are
   * met soon after it come first, with a score above 1: 1 + how likely that is. Then the score is the cosine. Either is the
   * less the fewer events the two have (n/(n + 10) of both). Where the model knows too few: items that share a category with it, then others, by what is
   * trending, then new; `source` says so.
   */
  similar(item: Id, options?: ListOptions): Promise<RecommendationList>
  /** What is trending, whoever asks; then what is new. */
  popular(options?: ListOptions): Promise<RecommendationList>
  /** What is new, the latest first. */
  newest(options?: ListOptions): Promise<RecommendationList>
  /** What the model thinks of one pair or up to 10,000. */
  predict(user: Id, item: Id): Promise<Prediction>
  predict(pairs: readonly { user: Id; item: Id }[]): Promise<Prediction[]>
  /** Size, history, indicators and bounds of an id. An unknown id: NOT_FOUND. */
  explain(side: Side, id: Id, options?: Pick<RecommendOptions, "after">): Promise<Explanation>
  /** Adds items or changes them, up to 10,000. Durable like `observe`. Returns how many. */
  putItems(items: ItemEntry | readonly ItemEntry[]): Promise<number>
  /** Takes items out of the catalogue, the model and every list; says how many were known. */
  deleteItems(items: Id | readonly Id[]): Promise<number>
  /** The catalogue's entry of an item; undefined for an unknown one. */
  item(item: Id): ItemView | undefined
  /**
   * Items found by their id, title or categories: those that have every word of the query somewhere in them, upper and
   * lower case alike; first those whose id or title begins with it. All items are looked at.
   */
  search(query: string, options?: PageOptions): Promise<ItemView[]>
  /** Whether the id has been met (or, for an item, put) and not left or been forgotten. */
  has(side: Side, id: Id): boolean
  /** Names of known ids, from `offset`, at most `count` (default 100): in order of their index, of a cluster by partition. */
  list(side: Side, options?: PageOptions): Promise<string[]>
  /** What a user has met, latest first. Empty for an unknown user. */
  history(user: Id, options?: { count?: number }): string[]
  /**
   * When a guest signs in: what was done under the guest's id is the user's from now on, as its latest, and the guest is
   * somebody new. Durable like `observe`. What was learned of both is brought together by how often each was met. An
   * unknown user becomes one; for an unknown guest nothing happens.
   */
  merge(guest: Id, user: Id): Promise<Merged>
  /** Removes a user from memory and disk and says what was removed. Resolves when it is done. */
  forget(user: Id): Promise<Receipt>
  /** Every catalogue entry with its features. */
  items(): Iterable<ItemView & { features: readonly number[] | null }>
  /** How it is: events, ids, memory, freshness, what is wrong. */
  status(): Status
  /** As `status` says it. */
  readonly state: Status["state"]
  /**
   * One report per learned segment: the `last` ones of before (at most 1,000), then from now on. A reader that falls 1,000
   * behind loses the oldest. Ends at `close`, or by the signal.
   */
  reports(signal?: AbortSignal, options?: { last?: number }): AsyncIterableIterator<LiveReport>
  /** Closes the open segment and resolves when everything accepted so far is learned and published. */
  drain(): Promise<void>
  /** Learns what was accepted, writes a snapshot, ends the thread. Idempotent. Nothing accepted is ever lost without it. */
  close(): Promise<void>
  /** What lists led to, where they are counted (`tracking`, `variants`). */
  experiments(): ExperimentsView | undefined
}

/** A recommender on one machine. */
export interface Recommender extends ServedRecommender {
  /** As above, and with the position of the source the events come from. */
  observe(events: Event | readonly Event[], options?: ObserveOptions): Promise<Accepted>
  /** Erasures under way end as `pending` and go on at the next start: for a process that is about to close. */
  suspendErasures(): void
  /** What a setting of lists gives a user, whichever variant is the user's. It is not counted. */
  recommendAs(setting: Variant, user: Id, options?: RecommendOptions): Promise<Recommendation[]>
  /** The position that was given last with events of a source. */
  source(name: string): string | undefined
  /** Types of events and what they weigh, as they are set now. */
  readonly types: EventTypes | undefined
  /** Events with a type, a page at a time: of a user, of an item, of both, or all. Pages may be short; the last has no `next`. */
  feedback(options?: FeedbackOptions): Promise<{ feedback: FeedbackView[]; next: string | null }>
  /**
   * Takes events of a user and item away, of one type or of all; says how many. The item may be recommended again once
   * none is left. What the model learned stays.
   */
  retract(user: Id, item: Id, type?: string): Promise<number>
  /** Users nearest to a user, best first. An unknown user: NOT_FOUND. Score: the cosine. */
  similarUsers(user: Id, options?: { count?: number | undefined }): Promise<SimilarUser[]>
  /** What `list` gives, at once, in order of their index. */
  ids(side: Side, options?: PageOptions): string[]
  /** What a client said about an id and the model has no use for. */
  note(side: Side, id: Id): Note | undefined
  /** Keeps notes, at most 4,096 characters of JSON each; null takes one away. */
  putNotes(side: Side, notes: readonly { id: Id; note: Note | null }[]): Promise<void>
  /** Ids with a note, in an order that stays, from behind one on. */
  notedIds(side: Side, after?: Id): Iterable<string>
  /** Resolves when the journal is replayed, with `replay: "behind"`. */
  caughtUp(): Promise<void>
  /** The journalled events that are still kept, in order of acceptance. */
  events(): AsyncIterable<NamedEvent>
  /** Writes a snapshot of everything accepted so far. Without a directory: INVALID_ARGUMENT. */
  snapshot(): Promise<SnapshotInfo>
}
