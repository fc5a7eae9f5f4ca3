/** What the native API takes and gives, as JSON Schema. The engine checks once more what a schema cannot say. */

import { type TSchema, Type } from "typebox"
import { REASONS } from "../ids/size-log.ts"

/** Limits of a request, the engine's own. */
export const LIMITS = { batch: 10_000, idCharacters: 512, features: 4096, categories: 64, categoryCharacters: 128 }

const shape = <P extends Record<string, TSchema>>(properties: P, description?: string) =>
  Type.Object(properties, { additionalProperties: false, ...(description ? { description } : {}) })

const oneOrMany = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Array(schema, { maxItems: LIMITS.batch })])

const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

export const Id = Type.Union([Type.String({ minLength: 1, maxLength: LIMITS.idCharacters }), Type.Number()], {
  description: `A text of 1 to ${LIMITS.idCharacters} characters or a finite number; 7 and "7" are the same id.`,
})

const Category = Type.String({ minLength: 1, maxLength: LIMITS.categoryCharacters })

export const Event = shape({
  user: Id,
  item: Id,
  rating: Type.Optional(Type.Number({ description: "On the service's scale; left out: a positive." })),
  timestamp: Type.Optional(
    Type.Number({ minimum: 0, description: "Seconds or milliseconds since 1970; left out: now." }),
  ),
  key: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: "Idempotency key: the same key is accepted once." }),
  ),
  type: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: "What was done: accepted once for each user and item." }),
  ),
  comment: Type.Optional(Type.String({ maxLength: 4096 })),
})
export const Events = oneOrMany(Event)

export const Accepted = shape({
  accepted: Type.Integer({ description: "Events taken; on disk when the service has a directory." }),
  duplicates: Type.Integer({ description: "Events whose key was accepted before." }),
  token: Type.Optional(Type.String({ description: "Of a cluster: give it to a read as after." })),
})

export const ItemEntry = shape({
  item: Id,
  features: Type.Optional(nullable(Type.Array(Type.Number(), { maxItems: LIMITS.features }))),
  categories: Type.Optional(Type.Array(Category, { maxItems: LIMITS.categories })),
  hidden: Type.Optional(Type.Boolean()),
})
export const ItemEntries = oneOrMany(ItemEntry)
export const ItemsPut = shape({ items: Type.Integer() })
export const ItemsDeleted = shape({ items: Type.Integer({ description: "Items that were known." }) })

/** A name in the path; the router has decoded it. */
export const IdPath = shape({ id: Type.String({ minLength: 1, maxLength: LIMITS.idCharacters }) })

const many = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Array(schema, { maxItems: 1000 })])
const Name = Type.String({ minLength: 1, maxLength: LIMITS.idCharacters })

const After = Type.Optional(
  Type.String({ maxLength: 100_000, description: "Of a cluster: the token of events that must have been learned." }),
)

export const RecommendQuery = shape({
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000, description: "Default 0." })),
  exclude: Type.Optional(many(Name)),
  only: Type.Optional(many(Name)),
  categories: Type.Optional(many(Category)),
  seen: Type.Optional(Type.Boolean({ description: "Also items the user has met. Default false." })),
  after: After,
})

export const Guest = shape({
  items: Type.Array(Id, {
    maxItems: LIMITS.batch,
    description: "What the guest clicked on, oldest first. Unknown items are passed over.",
  }),
  count: RecommendQuery.properties.count,
  offset: RecommendQuery.properties.offset,
  exclude: Type.Optional(Type.Array(Id, { maxItems: 1000 })),
  only: Type.Optional(Type.Array(Id, { maxItems: 1000 })),
  categories: Type.Optional(Type.Array(Category, { maxItems: 1000 })),
  seen: Type.Optional(Type.Boolean({ description: "Also the items given. Default false." })),
})

export const AfterQuery = shape({ after: After })

export const SimilarQuery = shape({
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." })),
  categories: Type.Optional(many(Category)),
})

export const CountQuery = shape({ count: SimilarQuery.properties.count })
export const SimilarUsers = Type.Array(shape({ user: Type.String(), score: Type.Number() }))

export const Recommendations = Type.Array(
  shape({
    item: Type.String(),
    score: Type.Number({ description: "Comparable within one source only." }),
    source: Type.Union([Type.Literal("model"), Type.Literal("trending"), Type.Literal("new")]),
  }),
)

export const Preview = shape({
  items: Type.Array(shape({ item: Id, rating: Event.properties.rating }), { minItems: 1, maxItems: 100 }),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." })),
})

export const IdsQuery = shape({
  offset: Type.Optional(Type.Integer({ minimum: 0, description: "Default 0." })),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: "Default 100." })),
})
export const Ids = Type.Array(Type.String())

export const EventsQuery = shape({
  last: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1000, description: "So many of the last reports come first. Default 0." }),
  ),
})

export const Pairs = oneOrMany(shape({ user: Id, item: Id }))
const Prediction = shape({
  user: Type.String(),
  item: Type.String(),
  score: Type.Number({ description: "The probability of a like; multiclass: the expected rating." }),
  probabilities: Type.Optional(Type.Array(Type.Number(), { description: "Multiclass: of the ratings 1 to 5." })),
  known: shape({ user: Type.Boolean(), item: Type.Boolean() }),
})
export const Predictions = Type.Union([Prediction, Type.Array(Prediction)])

const ItemView = shape({
  item: Type.String(),
  categories: Type.Array(Type.String()),
  hidden: Type.Boolean(),
  hasFeatures: Type.Boolean(),
  events: Type.Integer(),
})

export const Explanation = shape({
  id: Type.String(),
  side: Type.Union([Type.Literal("user"), Type.Literal("item")]),
  size: Type.Integer({ description: "Numbers in the vector; 0 when the model does not know the id." }),
  bytes: Type.Number(),
  history: Type.Array(
    shape({
      segment: Type.Integer(),
      time: nullable(Type.Number({ description: "When the segment was closed, in milliseconds since 1970." })),
      size: Type.Integer(),
      why: Type.Union(REASONS.map((reason) => Type.Literal(reason))),
      scores: nullable(shape({ keep: Type.Number(), grow: Type.Number(), estimate: Type.Number() })),
    }),
    { description: "The last ten sizes, oldest first, each with the arms' bounds and what was measured." },
  ),
  indicators: shape({ frequency: Type.Number(), diversity: nullable(Type.Number()) }),
  bounds: nullable(shape({ keep: Type.Number(), grow: Type.Number() })),
  events: Type.Integer(),
  entry: Type.Optional(ItemView),
})

export const Receipt = shape({
  user: Type.String(),
  status: Type.String({
    enum: ["done", "pending"],
    description: "pending (202): it is noted on disk and tried again until it is done.",
  }),
  found: Type.Boolean(),
  row: Type.Boolean(),
  history: Type.Integer(),
  events: Type.Integer(),
  snapshots: Type.Integer(),
  time: Type.Number(),
})

export const SnapshotInfo = shape({ segment: Type.Integer(), bytes: Type.Integer(), time: Type.Number() })

const PerSide = shape({ user: Type.Number(), item: Type.Number() })
const Sizes = Type.Record(Type.String(), Type.Number())

const Numbers = Type.Array(Type.Number())
const Bounds = shape({ keep: Numbers, grow: Numbers })
const Outlook = shape(
  { frequencies: Numbers, diversities: Numbers, user: Bounds, item: Bounds },
  "Upper confidence bounds of both arms, diversity by diversity, each over all frequencies; null where there are none.",
)

export const LiveReport = Type.Object(
  {
    segment: Type.Integer(),
    time: Type.Number({ description: "When it was learned, in milliseconds since 1970." }),
    events: Type.Integer(),
    queue: Type.Integer(),
    interactions: Type.Integer(),
    trainLoss: Type.Number(),
    meanSize: PerSide,
    numbers: PerSide,
    sizeHistogram: shape({ user: Sizes, item: Sizes }),
    embeddingBytes: Type.Number(),
    heldBytes: Type.Number(),
    regret: nullable(PerSide),
    freshness: nullable(Type.Number({ description: "Milliseconds from acceptance to visibility in lists." })),
    journalEvents: nullable(Type.Integer()),
    snapshotAge: nullable(Type.Number()),
    shrunk: PerSide,
    left: PerSide,
    outlook: nullable(Outlook),
    failed: Type.Optional(Type.String()),
  },
  { description: "One per learned segment; the measures of the task come on top." },
)

const Replay = shape(
  {
    events: Type.Integer({ description: "Learned again so far." }),
    share: Type.Number({ description: "Of what is to be learned again, 0 to 1." }),
    elapsed: Type.Number({ description: "Milliseconds." }),
    remaining: nullable(Type.Number({ description: "Milliseconds, at the rate so far." })),
  },
  "While the journal is replayed.",
)

export const Status = shape({
  state: Type.String({
    enum: ["learning", "replaying", "refusing", "failed", "closed"],
    description:
      "replaying: the model is that of the snapshot, events are refused. refusing: the disk takes no events, it is tried again every second. failed: training stopped.",
  }),
  reason: Type.Optional(Type.String()),
  task: Type.String(),
  method: Type.String(),
  directory: Type.Boolean({ description: "Whether events are kept on disk; false: in memory only." }),
  opened: Type.Number(),
  events: shape({
    accepted: Type.Integer(),
    duplicates: Type.Integer(),
    learned: Type.Integer(),
    queue: Type.Integer(),
  }),
  segments: Type.Integer(),
  users: shape({ known: Type.Integer(), held: Type.Integer() }),
  items: shape({ known: Type.Integer(), held: Type.Integer(), hidden: Type.Integer() }),
  memory: shape({
    budget: nullable(Type.Number()),
    parts: shape({
      rows: Type.Number(),
      indicators: Type.Number(),
      names: Type.Number(),
      met: Type.Number(),
      items: Type.Number(),
      packed: Type.Number(),
      journal: Type.Number(),
      lookup: Type.Number(),
      fixed: Type.Number(),
    }),
    heldBytes: Type.Number(),
    embeddingBytes: Type.Number(),
    sizes: shape({ user: Sizes, item: Sizes }),
    shrunk: PerSide,
    left: PerSide,
  }),
  freshness: nullable(shape({ p50: Type.Number(), p99: Type.Number(), last: Type.Number() })),
  journal: nullable(shape({ events: Type.Integer(), bytes: Type.Number() })),
  snapshot: nullable(SnapshotInfo),
  last: nullable(LiveReport),
  damaged: Type.Optional(Type.Integer({ description: "Things found damaged at the start; the log says which." })),
  replay: Type.Optional(Replay),
  erasures: nullable(
    shape({
      pending: Type.Integer({ description: "Users whose removal is noted and not done." }),
      failure: Type.Optional(Type.String()),
    }),
  ),
  built: Type.Optional(
    shape(
      { version: Type.String(), learning: Type.String() },
      "The build that learned what was taken up, where it learns differently from this one.",
    ),
  ),
  cluster: Type.Optional(
    shape({
      partitions: Type.Integer(),
      owned: Type.Integer({ description: "Partitions with a trainer." }),
      lost: Type.Integer({ description: "Acknowledged events lost with a master, as far as this process can tell." }),
      failures: Type.Integer({ description: "Commands Redis did not answer." }),
      newsAge: Type.Number({ description: "Milliseconds since updates of items were last read." }),
    }),
  ),
})

export const Health = shape({
  status: Type.String(),
  reason: Type.Optional(Type.String()),
  replay: Type.Optional(Replay),
  erasuresPending: Type.Optional(Type.Integer({ description: "Users whose removal is noted and not done." })),
})

export const Problem = Type.Object(
  { error: Type.String({ description: "A code in capitals." }), message: Type.String() },
  { description: "What was wrong: expected, and got. A stream of events adds what was accepted before." },
)
