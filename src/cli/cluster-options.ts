/** From flags and settings to a cluster. */

import { Cluster, type ClusterOptions } from "../cluster/cluster.ts"
import { ClusterRecommender } from "../cluster/reader.ts"
import type { Recommender, RecommenderOptions } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { RUN_OPTIONS } from "../learning/options.ts"
import type { Configuration } from "../server/configuration.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { flagOf, readFlag, readList, readWhole } from "./flags.ts"

/** "announced=reachable" pairs as a map. */
export function readAddresses(pairs: readonly string[] | undefined): Record<string, string> | undefined {
  if (pairs === undefined) return undefined
  return Object.fromEntries(
    pairs.map((pair) => {
      const match = /^([^=]+:\d+)=([^=]+:\d+)$/.exec(pair)
      if (match) return [match[1], match[2]]
      throw new DessError("INVALID_ARGUMENT", `--cluster-addresses: expected host:port=host:port, got ${show(pair)}`)
    }),
  )
}

/** Milliseconds for which a process that starts asks a cluster that does not answer: a replica may be taking over. */
const PATIENCE = 15_000

/** Does something with a cluster; where that does not answer it is done again, for a while. */
export async function patiently<T>(action: () => Promise<T>, onNote: (text: string) => void): Promise<T> {
  let reported = ""
  for (const until = Date.now() + PATIENCE; ; ) {
    try {
      return await action()
    } catch (error) {
      if (!(error instanceof DessError && error.code === "UNAVAILABLE") || Date.now() >= until) throw error
      if (error.message !== reported) onNote(`${error.message} (asking again for ${PATIENCE / 1000} s)`)
      reported = error.message
      await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  }
}

/** A reader as `dess serve` configures it. */
export async function openClusterReader(
  { settings }: Configuration,
  onNote: (text: string) => void,
): Promise<Recommender> {
  const { recommenderOptions } = await import("../server/configuration.ts")
  const { role, wait } = settings
  return patiently(async () => {
    const cluster = await Cluster.open({
      url: settings.cluster as string,
      prefix: settings.clusterPrefix,
      addresses: readAddresses(settings.clusterAddresses),
      partitions: settings.partitions,
      recommender: recommenderOptions(settings),
    })
    return ClusterRecommender.open(cluster, { role: role as "both" | undefined, wait, onNote })
  }, onNote)
}

/** Flags of the commands that work on a cluster. */
export const CLUSTER_FLAGS = {
  cluster: { type: "string" },
  "cluster-prefix": { type: "string" },
  "cluster-addresses": { type: "string" },
  help: { type: "boolean", short: "h" },
} as const

const TEXT = { type: "string" } as const

/** Options of a run that are settled when a cluster is created. */
const CREATED = [
  ...(["task", "method", "recipe", "model", "sizes", "seed", "segment", "negatives"] as const),
  "likeThreshold",
] as const

/** Flags of what is settled when a cluster is created. */
export const CREATION_FLAGS = {
  ...Object.fromEntries(CREATED.map((name) => [flagOf(name), TEXT])),
  ...{ partitions: TEXT, features: TEXT, "rating-scale": TEXT },
}

export type Flags = Record<string, string | boolean | undefined>

export function readClusterOptions(flags: Flags): ClusterOptions {
  const text = (name: string) => flags[name] as string | undefined
  const url = text("cluster") ?? process.env.DESS_CLUSTER
  if (url === undefined || url === "")
    throw new DessError("INVALID_ARGUMENT", "--cluster: expected redis://host:port of a Redis Cluster, got none")
  const addresses = text("cluster-addresses") ?? process.env.DESS_CLUSTER_ADDRESSES
  const partitions = text("partitions")
  return {
    url,
    prefix: text("cluster-prefix") ?? process.env.DESS_CLUSTER_PREFIX,
    addresses: readAddresses(addresses === undefined ? undefined : readList("cluster-addresses", addresses)),
    partitions: partitions === undefined ? undefined : readWhole("partitions", partitions, 1),
    recommender: readCreation(text),
  }
}

function readCreation(text: (name: string) => string | undefined): RecommenderOptions {
  const read = <T>(name: string, parse: (text: string) => T) => {
    const given = text(name)
    return given === undefined ? undefined : parse(given)
  }
  const run = CREATED.map((name) => [
    name,
    read(flagOf(name), (value) => readFlag(flagOf(name), RUN_OPTIONS[name].schema, value)),
  ])
  return {
    ...Object.fromEntries(run),
    features: read("features", (list) => readList("features", list)),
    scale: read("rating-scale", parseRatingScale),
  }
}
