/** Requests and answers of the native API as JSON Schema. The engine checks what a schema cannot express. */

import { type TSchema, Type } from "typebox"
import { REASONS } from "../ids/size-log.ts"

/** Limits of a request: those of the engine. */
export const LIMITS = { batch: 10_000, idCharacters: 512, features: 4096, categories: 64, categoryCharacters: 128 }

const shape = <P extends Record<string, TSchema>>(properties: P, description?: string) =>
  Type.Object(properties, { additionalProperties: false, ...(description ? { description } : {}) })

const oneOrMany = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Array(schema, { maxItems: LIMITS.batch })])

const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

export const Id = Type.Union([Type.String({ minLength: 1, maxLength: LIMITS.idCharacters }), Type.Number()], {
  description: `A text of 1 to ${LIMITS.idCharacters} characters or a finite number; 7 and "7" are the same id.`,
})

const Category = Type.String({ minLength: 1, maxLength: LIMITS.categoryCharacters })

const Weight = Type.Number({
  minimum: -10,
  maximum: 10,
  description: "How many events it counts as, in place of what its type weighs; below 0: the item is disliked.",
})

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
    Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        "What was done: one of the service's types; where it has none, accepted once for each user and item.",
    }),
  ),
  weight: Type.Optional(Weight),
  comment: Type.Optional(Type.String({ maxLength: 4096 })),
  list: Type.Optional(
    Type.String({ maxLength: 128, description: "The id of the list that led to it: the header dess-list." }),
  ),
  place: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: "Its place there, from 1." })),
})
export const Events = oneOrMany(Event)

export const Accepted = shape({
  accepted: Type.Integer({ description: "Events taken; on disk when the service has a directory." }),
  duplicates: Type.Integer({ description: "Events whose key was accepted before." }),
  token: Type.Optional(Type.String({ description: "Of a cluster: give it to a read as after." })),
})

const Scalar = Type.Union([Type.String({ maxLength: 4096 }), Type.Number(), Type.Boolean()])
const Property = Type.Union([
  Scalar,
  Type.Array(Type.Union([Type.String({ maxLength: 4096 }), Type.Number()]), { maxItems: 64 }),
])
const PropertyName = Type.String({ minLength: 1, maxLength: 64 })
const Properties = Type.Record(PropertyName, Property)

export const ItemEntry = shape({
  item: Id,
  title: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 512 }))),
  properties: Type.Optional(
    nullable(
      Type.Record(PropertyName, nullable(Property), {
        description: "A property that is left out stays, null takes it away. Title, categories and properties: 4 KB.",
      }),
    ),
  ),
  expires: Type.Optional(
    nullable(
      Type.Union([Type.Number({ minimum: 0 }), Type.String({ maxLength: 64 })], {
        description: "From then on in no list: seconds or milliseconds since 1970, or a date.",
      }),
    ),
  ),
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

const Included = Type.Union(
  ["title", "categories", "properties"].map((field) => Type.Literal(field as "title" | "categories" | "properties")),
)

const Counted = Type.Optional(
  Type.Boolean({
    description: "False for a list that no user is shown: it gets no id and is not counted. Default true.",
  }),
)

const page = {
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000, description: "Default 0." })),
  diversity: Type.Optional(
    Type.Number({ minimum: 0, maximum: 1, description: "How much items that are alike are kept apart. Default 0." }),
  ),
}

const Filter = Type.Record(Type.String(), Type.Unknown(), {
  description:
    "Everything it says must hold. By property, or category: a value, {eq}, {in: [values]}, or some of {lt, lte, gt, gte}; any, all: a list of filters; not: a filter. At most 100 conditions, 8 deep.",
  examples: [{ price: { lte: 20 }, inStock: true, any: [{ category: "horror" }, { tags: { in: ["sale", "new"] } }] }],
})

/** Options of every kind of list, in a body. */
const list = {
  ...page,
  exclude: Type.Optional(Type.Array(Id, { maxItems: LIMITS.batch })),
  only: Type.Optional(Type.Array(Id, { maxItems: LIMITS.batch })),
  categories: Type.Optional(Type.Array(Category, { maxItems: 1000, description: "Items with at least one of them." })),
  filter: Type.Optional(Filter),
  boost: Type.Optional(
    Type.Array(
      shape({
        filter: Filter,
        by: Type.Number({ minimum: 0.001, maximum: 1000, description: "What the odds of a like are multiplied by." }),
      }),
      { maxItems: 100 },
    ),
  ),
  cap: Type.Optional(
    Type.Record(Type.String(), Type.Integer({ minimum: 1, maximum: 1000 }), {
      description: "Of a category, or a value of a property, at most so many. At most 8.",
      examples: [{ category: 2 }],
    }),
  ),
  include: Type.Optional(Type.Array(Included, { description: "What comes with each item." })),
  counted: Counted,
}
export const ListBody = shape(list)

/** The same options in a query, without those that are JSON. */
const listQuery = {
  ...page,
  exclude: Type.Optional(many(Name)),
  only: Type.Optional(many(Name)),
  categories: Type.Optional(many(Category)),
  include: Type.Optional(many(Included)),
  counted: Counted,
}
export const ListQuery = shape(listQuery)

const Lasting = Type.Optional(
  Type.Boolean({
    description:
      "For a list that is kept or sent: what is taken over days, not the very next item. Top-k task. Default false.",
  }),
)

export const RecommendQuery = shape({
  ...listQuery,
  lasting: Lasting,
  seen: Type.Optional(
    Type.Boolean({
      description:
        "Items the user has met: true leaves none out, false all. Default: by their types; without types all are left out.",
    }),
  ),
  fresh: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: "Places kept for items with few events, where one may be worth it. Default 0.",
    }),
  ),
  why: Type.Optional(Type.Boolean({ description: "Says of each item what speaks for it. Default false." })),
  after: After,
})

export const Merge = shape({ guest: Id })
export const Merged = shape({
  guest: Type.String(),
  user: Type.String(),
  found: Type.Boolean({ description: "Whether the guest was known." }),
  history: Type.Integer({ description: "Items in the guest's history." }),
})

export const Guest = shape({
  items: Type.Array(
    Type.Union([Id, shape({ item: Id, type: Event.properties.type, weight: Event.properties.weight })]),
    {
      maxItems: LIMITS.batch,
      description: "What the guest clicked on, oldest first. Unknown items are passed over.",
    },
  ),
  ...list,
  lasting: Lasting,
  seen: Type.Optional(Type.Boolean({ description: "The items given: true leaves none out, false all." })),
  fresh: RecommendQuery.properties.fresh,
  why: RecommendQuery.properties.why,
})

const { seen, fresh, why } = RecommendQuery.properties
export const RecommendBody = shape({ ...list, lasting: Lasting, seen, fresh, why, after: After })

export const AfterQuery = shape({ after: After })

export const CountQuery = shape({ count: page.count })
export const SimilarUsers = Type.Array(shape({ user: Type.String(), score: Type.Number() }))

const Part = Type.Number()
const Why = shape(
  {
    parts: shape({
      ...{ taste: Part, recency: Part, neighbours: Part, popularity: Part },
      ...{ new: Part, again: Part, boost: Part, base: Part },
    }),
    items: Type.Array(shape({ item: Type.String(), adds: Type.Number() })),
  },
  "What the log of the odds of a score of the model is the sum of, and what the user's items add to recency and neighbours.",
)

export const Recommendations = Type.Array(
  shape({
    item: Type.String(),
    score: Type.Number({
      description:
        "Of the model: the chance that of all items this one comes next (top-k), its odds times boosts. Comparable within one source only.",
    }),
    source: Type.Union([Type.Literal("model"), Type.Literal("trending"), Type.Literal("new")]),
    title: Type.Optional(nullable(Type.String({ description: "Where include asks for it." }))),
    categories: Type.Optional(Type.Array(Type.String())),
    properties: Type.Optional(Properties),
    why: Type.Optional(Why),
  }),
)

export const Preview = shape({
  include: list.include,
  items: Type.Array(shape({ item: Id, rating: Event.properties.rating }), {
    maxItems: 100,
    description: "With none: the list as it is, which is not counted.",
  }),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." })),
})

export const IdsQuery = shape({
  offset: Type.Optional(Type.Integer({ minimum: 0, description: "Default 0." })),
  count: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000, description: "Default 100." })),
})
export const Ids = Type.Array(Type.String())
export const ItemsQuery = shape({
  ...IdsQuery.properties,
  query: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 256,
      description: "Words that are in the id, the title or the categories.",
    }),
  ),
})

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
  title: nullable(Type.String()),
  properties: Properties,
  expires: nullable(Type.Number({ description: "Milliseconds since 1970." })),
  categories: Type.Array(Type.String()),
  hidden: Type.Boolean(),
  hasFeatures: Type.Boolean(),
  events: Type.Integer(),
})

export const FoundItems = Type.Array(Type.Union([Type.String(), ItemView]))

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
  met: Type.Optional(
    Type.Array(shape({ item: Type.String(), title: nullable(Type.String()) }), {
      description: "Of a user: the last items met, up to 20, newest first.",
    }),
  ),
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
  experiments: Type.Optional(Type.Boolean({ description: "Lists are counted: see /v1/experiments." })),
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
    }),
    fixed: Type.Number(),
    heldBytes: Type.Number(),
    embeddingBytes: Type.Number(),
    vectorsSave: Type.Optional(
      Type.Number({
        description: "Share of the loss of biases alone that vectors save of late: below .01 they hardly pay.",
      }),
    ),
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
      updatesAge: Type.Number({ description: "Milliseconds since updates of items were last read." }),
    }),
  ),
})

export const Health = shape({
  status: Type.String(),
  reason: Type.Optional(Type.String()),
  replay: Type.Optional(Replay),
  snapshotFailure: Type.Optional(
    Type.String({ description: "Why the last snapshot that was due could not be written; it is tried again." }),
  ),
  erasuresPending: Type.Optional(Type.Integer({ description: "Users whose removal is noted and not done." })),
})

export const Problem = Type.Object(
  { error: Type.String({ description: "A code in capitals." }), message: Type.String() },
  { description: "What was wrong: expected, and got. A stream of events adds what was accepted before." },
)

const Rate = shape({
  estimate: Type.Union([Type.Number(), Type.Null()]),
  low: Type.Union([Type.Number(), Type.Null()]),
  high: Type.Union([Type.Number(), Type.Null()]),
})
export const Experiments = shape({
  since: Type.Number({ description: "Milliseconds since 1970." }),
  conversions: Type.Array(Type.String()),
  variants: Type.Array(
    shape({
      name: Type.String(),
      share: Type.Number(),
      lists: Type.Array(
        shape({
          kind: Type.String(),
          impressions: Type.Integer({ description: "Lists given." }),
          clicks: Type.Integer({ description: "Events that name one." }),
          conversions: Type.Integer({ description: "Those of them whose type is a conversion." }),
          outcomes: Type.Integer({ description: "All conversions of the variant's users." }),
          clickRate: Rate,
          conversionRate: Rate,
          outcomeRate: Rate,
          clicksByPlace: Type.Array(Type.Integer()),
        }),
      ),
    }),
  ),
  differences: Type.Array(
    shape({ variant: Type.String(), against: Type.String(), rate: Type.String(), ...Rate.properties }),
  ),
})
