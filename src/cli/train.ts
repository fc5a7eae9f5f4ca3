/** `dess train`: one trainer of a cluster; start as many as there are cores for. */

import { parseArgs } from "node:util"
import { Cluster } from "../cluster/cluster.ts"
import { ClusterTrainer, type ClusterTrainerOptions } from "../cluster/trainer.ts"
import { parseBytes, parseDuration } from "../engine/options.ts"
import { DessError, show } from "../errors.ts"
import { CLUSTER_FLAGS, CREATION_FLAGS, patiently, readClusterOptions } from "./cluster-options.ts"
import { readWhole } from "./flags.ts"

/** Milliseconds. */
const SHORTEST_LEASE = 1500

const HELP = `dess train – a trainer of a cluster

Usage: dess train --cluster redis://host:port[,redis://…] [options]

Any number of trainers share the partitions of a cluster: start one more and it takes its part, stop or lose one and the
others take over. Events come in through dess serve --cluster.

  --cluster <urls>          of a Redis or Valkey Cluster, 7.0 or newer (DESS_CLUSTER)
  --cluster-prefix <name>   what its keys begin with (dess)
  --cluster-addresses <…>   announced=reachable addresses of nodes behind a translation
  --lease <time>            silence after which others take over (5s)
  --sync <time>             between two looks at what other trainers did (100ms)
  --memory-budget <bytes>   of rows in this process's memory, such as 2GB (no limit)
  --keep-events <n>         learned events a partition's stream may keep (1000000); a snapshot cuts them sooner

Settled when the cluster is created, by whoever comes first
  --partitions <n>          the most trainers there can ever be (16)
  --task topk|binary|multiclass, --method, --features <names of columns>, --sizes, --seed, --segment,
  --negatives, --like-threshold, --rating-scale; recipe and model are the default ones

Example
  dess train --cluster redis://127.0.0.1:7001`

export async function trainCommand(args: string[]): Promise<void> {
  const options = {
    ...CLUSTER_FLAGS,
    ...CREATION_FLAGS,
    lease: { type: "string" },
    sync: { type: "string" },
    "keep-events": { type: "string" },
    "memory-budget": { type: "string" },
  } as const
  const { values } = parseArgs({ args, options, strict: true })
  if (values.help) return console.log(HELP)
  const given = readTrainerOptions(values)
  const where = readClusterOptions(values)
  const cluster = await patiently(() => Cluster.open(where), say)
  try {
    const trainer = new ClusterTrainer(cluster, { ...given, onNote: say })
    const ended = trainer.start()
    say(`trainer ${trainer.id} of ${cluster.partitions} partitions`)
    const onSignal = (signal: NodeJS.Signals) => {
      process.once(signal, () => process.exit(signal === "SIGINT" ? 130 : 143))
      say("stopping: giving partitions back")
      void trainer.stop()
    }
    process.once("SIGTERM", onSignal)
    process.once("SIGINT", onSignal)
    await ended
    say(`stopped; ${trainer.standing.learned} events learned`)
  } finally {
    cluster.close()
  }
}

function readTrainerOptions(values: Record<string, string | boolean | undefined>): ClusterTrainerOptions {
  const read = <T>(name: string, parse: (text: string) => T) => {
    const text = values[name] as string | undefined
    return text === undefined ? undefined : parse(text)
  }
  const lease = read("lease", (text) => parseDuration("--lease", text))
  if (lease !== undefined && lease < SHORTEST_LEASE)
    throw new DessError(
      "INVALID_ARGUMENT",
      `--lease: expected at least ${SHORTEST_LEASE} ms, as it is renewed every second, got ${show(values.lease)}`,
    )
  const budget = (values["memory-budget"] as string | undefined) ?? process.env.DESS_MEMORY_BUDGET
  return {
    lease,
    sync: read("sync", (text) => parseDuration("--sync", text)),
    keepEvents: read("keep-events", (text) => readWhole("keep-events", text)),
    memoryBudget: budget === undefined ? undefined : parseBytes("--memory-budget", budget),
  }
}

function say(text: string): void {
  process.stderr.write(`dess: ${text}\n`)
}
