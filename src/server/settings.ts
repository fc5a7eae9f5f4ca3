/** Every setting of the service in one schema. Flags, environment, config file, help and the published JSON Schema are read off it. */

import { type Static, Type } from "typebox"

const bytes = (description: string, more: object = {}) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.String({ pattern: "^\\d+(\\.\\d+)?\\s?([kKmMgG]?[bB])?$" })], {
    description: `${description} (bytes, or such as 256MB)`,
    ...more,
  })
const duration = (description: string, more: object = {}) =>
  Type.Union([Type.Number({ minimum: 0 }), Type.String({ pattern: "^\\d+(\\.\\d+)?(ms|s|m|h|d)$" })], {
    description: `${description} (milliseconds, or such as 90s, 15m, 30d)`,
    ...more,
  })
const choice = (names: readonly string[], description: string) =>
  Type.String({ enum: names as string[], description: `${description}: ${names.join(", ")}` })
const whole = (description: string, more: object = {}) => Type.Integer({ minimum: 0, description, ...more })
const names = (description: string, more: object = {}) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { description, maxItems: 4096, ...more })

const service = {
  host: Type.String({ default: "127.0.0.1", description: "address to listen on; any but loopback needs a write key" }),
  port: whole("port to listen on; 0 takes a free one", { maximum: 65_535, default: 8080 }),
  readKeyFile: Type.String({ description: "file with the API key for reading" }),
  writeKeyFile: Type.String({ description: "file with the API key for reading and writing" }),
  bodyLimit: bytes("the most a request's body may have; streams of JSON lines have no limit", { default: "8MB" }),
  requestLimit: whole("requests under way at a time; more get 503", { minimum: 1, default: 256 }),
  gorseReadTypes: names("Gorse feedback types that mean: shown, and not liked", { default: ["read"] }),
  demo: Type.Boolean({ description: "feed a simulated film shop", default: false }),
  rate: Type.Number({
    exclusiveMinimum: 0,
    maximum: 100_000,
    description: "events per second of --demo",
    default: 100,
  }),
}

const cluster = {
  cluster: Type.String({
    pattern: "^rediss?://",
    description: "redis://host:port of a Redis Cluster (several with commas) where everything is kept instead",
  }),
  clusterPrefix: Type.String({ pattern: "^[\\w.-]{1,64}$", description: "what the cluster's keys begin with (dess)" }),
  clusterAddresses: Type.Array(Type.String(), {
    description: "announced=reachable addresses of nodes behind a translation, such as 10.0.0.5:6379=127.0.0.1:7001",
  }),
  partitions: whole("partitions of a cluster that is created", { minimum: 1, maximum: 4096 }),
  role: choice(["both", "reader", "writer"], "what this process of a cluster does: takes events, gives lists, or both"),
  wait: whole("replicas that must have an event of a cluster before it is acknowledged", { maximum: 16 }),
}

const source = {
  source: Type.String({
    pattern: "^postgres(ql)?://",
    description: "postgres://… of a database whose rows are events (package pg); the password may be in PGPASSWORD",
  }),
  sourceTable: Type.String({ minLength: 1, description: "its table, or a query: columns as dess import takes them" }),
  sourceCursor: Type.String({ minLength: 1, description: "a column that only grows (id)" }),
  sourceColumns: Type.String({ description: "columns that are not recognised", examples: ["user=…,item=…"] }),
  sourceDeletes: Type.String({
    minLength: 1,
    description:
      "table or query of what is taken back: user and item, a user alone (erased), or an item alone (deleted)",
  }),
  sourceDeletesCursor: Type.String({ minLength: 1, description: "a column of it that only grows (id)" }),
  sourceEvery: duration("how often it is looked for new rows", { default: "1s" }),
}

const recommender = {
  directory: Type.String({ minLength: 1, description: "where everything is kept; without: in memory only" }),
  memoryBudget: bytes(
    "what the process may take above an empty Node, kept within about 1.25 times; old ids make room for new ones",
  ),
  task: choice(["topk", "binary", "multiclass"], "what is learned"),
  method: Type.String({ description: "how embeddings are sized, as in dess run --help" }),
  model: choice(["ncf", "mf", "distance"], "the head"),
  recipe: choice(["paper", "calibrated"], "how the model learns and the policy judges"),
  sizes: Type.Array(Type.Integer({ minimum: 1, maximum: 1024 }), { description: "sizes of the ladder" }),
  seed: whole("of everything random"),
  features: names("names of the item feature columns"),
  ratingScale: Type.String({
    pattern: "^\\d+(\\.\\d+)?-\\d+(\\.\\d+)?$",
    description: "of the ratings",
    examples: ["0-10"],
  }),
  likeThreshold: Type.Number({ description: "a rating above it, on the scale of the ratings, is a like (3.5 of 5)" }),
  types: Type.Record(Type.String({ minLength: 1, maxLength: 128 }), Type.Number({ minimum: -10, maximum: 10 }), {
    description: "what events of each type weigh; below 0: the item is disliked (JSON)",
    examples: ['{"view":0.2,"purchase":1}'],
  }),
  leaveOut: names("types whose item is left out of the user's lists (those of the highest weight, and dislikes)"),
  variants: Type.Object(
    {},
    {
      additionalProperties: true,
      description: "users split between settings of lists, whose outcomes are counted (JSON)",
      examples: ['{"a":{"share":0.5},"b":{"share":0.5,"list":"popular"}}'],
    },
  ),
  tracking: Type.Boolean({ description: "give lists ids and count what comes of them (where there are variants)" }),
  conversions: names("types of events that count as conversions (purchase)"),
  negatives: whole("negatives per positive (top-k task)", { minimum: 1 }),
  segment: whole("a segment closes at so many events …", { minimum: 1 }),
  delay: duration("… or so long after its first"),
  publishDelay: duration("the shortest time between two published versions"),
  idleShrink: duration("ids without an event for so long lose a step of their size"),
  idleLeave: duration("ids without an event for so long leave"),
  snapshotEvents: whole("a snapshot is written after so many events …", { minimum: 1 }),
  snapshotDelay: duration("… or so long"),
  queue: whole("accepted events that may wait to be learned; more get 429", { minimum: 1 }),
  threads: whole("threads that train", { minimum: 1, maximum: 64 }),
  idempotencyKeys: whole("keys of events that are remembered"),
  keepJournal: choice(["none", "snapshots", "all"], "how much of the journal is kept beside the newest snapshot"),
  recover: Type.Boolean({ description: "where the journal is damaged, keep all that is whole and say what is gone" }),
}

export const SettingsSchema = Type.Partial(Type.Object({ ...service, ...cluster, ...source, ...recommender }), {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "dess serve",
  description: "The config file of dess serve. Flags come before the environment (DESS_…), and that before this file.",
  additionalProperties: false,
})

export type Settings = Static<typeof SettingsSchema>
export type SettingName = keyof Settings

/** Settings with a default of the service's own; the engine has its own for the rest. */
export type CompleteSettings = Settings &
  Required<Pick<Settings, "host" | "port" | "bodyLimit" | "requestLimit" | "gorseReadTypes" | "demo" | "rate">>
