/** From flags and settings to a cluster. */

import { Cluster, type ClusterOptions } from "../cluster/cluster.ts"
import { ClusterRecommender } from "../cluster/reader.ts"
import type { ServedRecommender } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import type { Configuration } from "../server/configuration.ts"
import { type parseFlags, readList } from "./flags.ts"

/** "announced=reachable" pairs as a map. */
function readAddresses(pairs: readonly string[] | undefined): Record<string, string> | undefined {
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
): Promise<ServedRecommender> {
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
  cluster: {
    type: "string",
    description: "of a Redis or Valkey Cluster, 7.0 or newer (DESS_CLUSTER)",
    examples: ["<urls>"],
  },
  clusterPrefix: { type: "string", description: "what its keys begin with (dess)", examples: ["<name>"] },
  clusterAddresses: {
    type: "array",
    items: { type: "string" },
    description: "announced=reachable addresses of nodes behind a translation",
    examples: ["<a=b,…>"],
  },
} as const

export const PARTITIONS = {
  partitions: { type: "integer", minimum: 1, description: "the most trainers there can ever be (16)" },
} as const

type Flags = ReturnType<typeof parseFlags<typeof CLUSTER_FLAGS & typeof PARTITIONS>>

/** Where the cluster is; flags come before the environment. */
export function readClusterOptions(flags: Flags): ClusterOptions {
  const { DESS_CLUSTER, DESS_CLUSTER_PREFIX, DESS_CLUSTER_ADDRESSES } = process.env
  const { cluster: url = DESS_CLUSTER, clusterPrefix: prefix = DESS_CLUSTER_PREFIX, partitions } = flags
  if (url === undefined || url === "")
    throw new DessError("INVALID_ARGUMENT", "--cluster: expected redis://host:port of a Redis Cluster, got none")
  const announced = DESS_CLUSTER_ADDRESSES && readList("cluster-addresses", DESS_CLUSTER_ADDRESSES)
  return { url, prefix, addresses: readAddresses(flags.clusterAddresses ?? (announced || undefined)), partitions }
}
