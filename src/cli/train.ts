/** `dess train`: one trainer of a cluster; start as many as there are cores for. */

import { Cluster } from "../cluster/cluster.ts"
import { ClusterTrainer } from "../cluster/trainer.ts"
import { parseBytes } from "../engine/options.ts"
import { DessError } from "../errors.ts"
import { RUN_OPTIONS } from "../learning/options.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { CLUSTER_FLAGS, PARTITIONS, patiently, readClusterOptions } from "./cluster-options.ts"
import { describeFlags, parseFlags, runFlags } from "./flags.ts"

/** Milliseconds. */
const SHORTEST_LEASE = 1500

const time = { type: "number", format: "duration" } as const
const TRAINER_FLAGS = {
  ...CLUSTER_FLAGS,
  lease: { ...time, description: "silence after which others take over (5s)" },
  sync: { ...time, description: "between two looks at what other trainers did (100ms)" },
  memoryBudget: {
    ...RUN_OPTIONS.memoryBudget.schema,
    description: "of rows in this process's memory (DESS_MEMORY_BUDGET; no limit)",
  },
  keepEvents: {
    type: "integer",
    minimum: 0,
    description: "learned events a partition's stream may keep (1000000); a snapshot cuts them sooner",
  },
} as const
const CREATION_FLAGS = {
  ...PARTITIONS,
  ...runFlags(
    ["task", "method", "recipe", "model", "sizes", "seed", "segment", "negatives", "likeThreshold"],
    ({ help }) => help,
  ),
  features: { type: "array", items: { type: "string" }, description: "names of the item feature columns" },
  ratingScale: { type: "string", description: "of the ratings (0-5)", examples: ["<lo-hi>"] },
} as const

const HELP = `dess train – a trainer of a cluster

Usage: dess train --cluster redis://host:port[,redis://…] [options]

Any number of trainers share the partitions of a cluster: start one more and it takes its part, stop or lose one and the
others take over. Events come in through dess serve --cluster.

${describeFlags({ Trainer: TRAINER_FLAGS, "Fixed when the cluster is created, by the first process": CREATION_FLAGS })}

Example
  dess train --cluster redis://127.0.0.1:7001`

export async function trainCommand(args: string[]): Promise<void> {
  const { help, lease, sync, memoryBudget, keepEvents, ...values } = parseFlags(args, {
    ...TRAINER_FLAGS,
    ...CREATION_FLAGS,
  })
  if (help) return console.log(HELP)
  if (lease !== undefined && lease < SHORTEST_LEASE)
    throw new DessError(
      "INVALID_ARGUMENT",
      `--lease: expected at least ${SHORTEST_LEASE} ms, as it is renewed every second, got ${lease}`,
    )
  const { cluster: _, clusterPrefix: __, clusterAddresses: ___, partitions: ____, ratingScale, ...run } = values
  const scale = ratingScale === undefined ? {} : { scale: parseRatingScale(ratingScale) }
  const where = { ...readClusterOptions(values), recommender: { ...run, ...scale } }
  const { DESS_MEMORY_BUDGET: budget } = process.env
  const given = {
    ...{ lease, sync, keepEvents },
    memoryBudget: memoryBudget ?? (budget === undefined ? undefined : parseBytes("DESS_MEMORY_BUDGET", budget)),
  }
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

function say(text: string): void {
  process.stderr.write(`dess: ${text}\n`)
}
