/** A cluster as every process of it sees it: the connection, the keys, and the options fixed when it was created. */

import { emptyFeatures } from "../engine/item-features.ts"
import { completeOptions, type EngineOptions, type FixedOptions, fixedOptions } from "../engine/options.ts"
import type { RecommenderOptions } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { Run } from "../learning/loop.ts"
import type { ItemFeatures } from "../types.ts"
import { type Argument, Redis, type RedisOptions, type Reply } from "./redis.ts"
import { Keys, metaKey } from "./redis-keys.ts"
import { runScript, type ScriptName } from "./scripts.ts"

/** Version of everything that is kept in Redis. */
const FORMAT = 5

export interface ClusterOptions extends RedisOptions {
  /** What the keys begin with. Default "dess". */
  prefix?: string | undefined
  /** Fixed when the cluster is created. Default 16. */
  partitions?: number | undefined
  /** What the recommender learns, as for a directory; fixed when the cluster is created. */
  recommender?: RecommenderOptions | undefined
  /** Refuses a cluster that is not there instead of creating it. */
  existing?: boolean | undefined
}

interface Meta {
  format: number
  partitions: number
  nameBuckets: number
  segment: number
  options: FixedOptions
}

export class Cluster {
  readonly redis: Redis
  readonly keys: Keys
  readonly options: EngineOptions
  readonly partitions: number

  private constructor(p: { redis: Redis; keys: Keys; options: EngineOptions }) {
    this.redis = p.redis
    this.keys = p.keys
    this.options = p.options
    this.partitions = p.keys.partitions
  }

  /** Connects to what was created, or creates it. */
  static async open(options: ClusterOptions): Promise<Cluster> {
    const prefix = checkPrefix(options.prefix ?? "dess")
    const redis = await Redis.open(options)
    try {
      const meta = await settle(redis, prefix, options)
      const keys = new Keys({ prefix, partitions: meta.partitions, nameBuckets: meta.nameBuckets })
      const { directory: _, ...given } = options.recommender ?? {}
      return new Cluster({ redis, keys, options: complete({ ...given, segment: meta.segment }, meta.options) })
    } catch (error) {
      redis.close()
      throw error
    }
  }

  /** A learner with the options of the cluster, and a table of features where items have some. */
  newRun(): { run: Run; features: ItemFeatures | undefined } {
    const features = emptyFeatures(this.options.features)
    return { run: new Run(this.options.run, features), features }
  }

  run(name: ScriptName, keys: string[], args: Argument[]): Promise<Reply> {
    return runScript(this.redis, name, keys, args)
  }

  /** The partitions' numbers. */
  get all(): number[] {
    return Array.from({ length: this.partitions }, (_, p) => p)
  }

  close(): void {
    this.redis.close()
  }
}

async function settle(redis: Redis, prefix: string, given: ClusterOptions): Promise<Meta> {
  const key = metaKey(prefix)
  let found = await redis.send(key, ["GET", key])
  if (found === null) {
    if (given.existing)
      throw new DessError(
        "NOT_FOUND",
        `cluster: expected one named ${show(prefix)} (--cluster-prefix), Redis has none; dess train --cluster creates it`,
      )
    const engine = complete(given.recommender ?? {})
    tryRun(engine)
    const meta: Meta = {
      format: FORMAT,
      partitions: checkPartitions(given.partitions ?? 16),
      nameBuckets: 4096,
      segment: engine.segment,
      options: fixedOptions(engine),
    }
    await redis.send(key, ["SET", key, JSON.stringify(meta), "NX"])
    found = await redis.send(key, ["GET", key])
  }
  return readMeta(String(found), given)
}

function readMeta(text: string, given: ClusterOptions): Meta {
  let meta: Meta
  try {
    meta = JSON.parse(text) as Meta
  } catch (cause) {
    throw new DessError("INVALID_DATA", `cluster settings: expected JSON, got ${show(text)}`, { cause })
  }
  if (meta.format !== FORMAT)
    throw new DessError(
      "UNSUPPORTED",
      `cluster format: expected ${FORMAT}, got ${show(meta.format)}: another release of dess made it; run that release, or another --cluster-prefix`,
    )
  if (given.partitions !== undefined && given.partitions !== meta.partitions)
    throw new DessError(
      "INVALID_ARGUMENT",
      `--partitions: expected ${meta.partitions}, which the cluster was created with, got ${given.partitions}`,
    )
  return meta
}

function complete(given: RecommenderOptions, created?: FixedOptions): EngineOptions {
  if (given.memoryBudget !== undefined)
    throw new DessError(
      "UNSUPPORTED",
      `memoryBudget: expected with dess train only (--memory-budget), where rows are; got ${show(given.memoryBudget)}`,
    )
  if (given.idle !== undefined)
    throw new DessError(
      "UNSUPPORTED",
      `idle: expected without --cluster, where ids do not leave by themselves; got ${show(given.idle)}`,
    )
  const options = completeOptions(given, created)
  checkRecipe(
    options.run,
    created
      ? "take a snapshot with the release that made the cluster and serve that on a single machine, or use another --cluster-prefix"
      : "use a single machine, without --cluster, or the default recipe",
  )
  return options
}

/** Refuses what learns a network, whose parameters do not add up as rows do. */
export function checkRecipe(
  { recipe, method, model }: Pick<FixedOptions, "recipe" | "method" | "model">,
  advice: string,
): void {
  if (recipe === "calibrated") return
  throw new DessError(
    "UNSUPPORTED",
    `recipe: expected calibrated in a cluster, got ${recipe} (method ${method}, model ${model}), whose network learns in one process; ${advice}`,
  )
}

/** Refuses a method that many processes cannot share, or one that lacks its features, before the cluster is created. */
function tryRun({ run: options, features }: EngineOptions): void {
  const run = new Run(options, emptyFeatures(features))
  try {
    void run.shared
  } finally {
    run.close()
  }
}

function checkPrefix(prefix: string): string {
  if (/^[\w.-]{1,64}$/.test(prefix)) return prefix
  throw new DessError(
    "INVALID_ARGUMENT",
    `--cluster-prefix: expected 1 to 64 letters, digits, dots or dashes, got ${show(prefix)}`,
  )
}

/** A segment's changes, one for each owner, are arguments of one command in a script, which takes some 8,000. */
const MOST_PARTITIONS = 2048

function checkPartitions(count: number): number {
  if (Number.isSafeInteger(count) && count >= 1 && count <= MOST_PARTITIONS) return count
  throw new DessError(
    "INVALID_ARGUMENT",
    `--partitions: expected a whole number from 1 to ${MOST_PARTITIONS}, got ${show(count)}`,
  )
}
