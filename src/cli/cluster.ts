/** `dess cluster`: the state of a cluster, snapshots of it, and loading one. */

import { Cluster } from "../cluster/cluster.ts"
import { type ClusterStatus, readStatus } from "../cluster/status.ts"
import { DessError, show } from "../errors.ts"
import { CLUSTER_FLAGS, PARTITIONS, readClusterOptions } from "./cluster-options.ts"
import { describeFlags, parseArguments } from "./flags.ts"

const FLAGS = {
  ...CLUSTER_FLAGS,
  partitions: { ...PARTITIONS.partitions, description: "of a cluster that load creates (16)" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

const HELP = `dess cluster – state, snapshots and loading of a cluster

Usage: dess cluster status | snapshot <directory> | load <directory>  --cluster redis://host:port[,redis://…]

  status                    partitions, owners, lag, bytes per node, versions
  snapshot <directory>      everything, as a directory that dess serve --directory can open
  load <directory>          a recommender's directory into a cluster that has nothing yet

${describeFlags({ Options: FLAGS })}

Examples
  dess cluster status --cluster redis://127.0.0.1:7001
  dess cluster snapshot backup --cluster redis://127.0.0.1:7001 && dess serve --directory backup`

export async function clusterCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, FLAGS)
  if (values.help) return console.log(HELP)
  const [what, directory, ...more] = positionals
  const wanted = what === "status" ? 1 : 2
  if (!["status", "snapshot", "load"].includes(what ?? "") || positionals.length !== wanted || more.length > 0)
    throw new DessError(
      "INVALID_ARGUMENT",
      `cluster: expected status, snapshot <directory> or load <directory>, got ${show(positionals.join(" "))} (dess cluster --help)`,
    )
  const where = readClusterOptions(values)
  const say = (value: object, text: string) => console.log(values.json ? JSON.stringify(value) : text)
  if (what === "load") {
    const { loadDirectory } = await import("../cluster/snapshot.ts")
    const done = await loadDirectory(directory, where)
    return say(done, `${done.users} users and ${done.items} items loaded`)
  }
  const cluster = await Cluster.open({ ...where, existing: true })
  try {
    if (what === "status") {
      const status = await readStatus(cluster)
      return say(status, describe(status))
    }
    const { takeSnapshot } = await import("../cluster/snapshot.ts")
    const done = await takeSnapshot(cluster, directory)
    say(done, `${done.users} users, ${done.items} items and ${done.events} events learned, in ${done.directory}`)
  } finally {
    cluster.close()
  }
}

function describe({ prefix, partitions, trainers, nodes, totals, accuracy }: ClusterStatus): string {
  const count = (value: number) => value.toLocaleString("en")
  const rows = [
    ["partition", "owner", "events", "lag", "kept", "users", "items"],
    ...partitions.map((one) => [
      String(one.partition),
      one.owner ?? "nobody",
      ...[one.applied, one.lag, one.kept, one.users, one.items].map(count),
    ]),
  ]
  const widths = rows[0].map((_, c) => Math.max(...rows.map((row) => row[c].length)))
  const table = rows.map((row) =>
    row.map((cell, c) => (c < 2 ? cell.padEnd(widths[c]) : cell.padStart(widths[c]))).join("  "),
  )
  const megabytes = (bytes: number) => `${(bytes / 1024 ** 2).toFixed(1)} MB`
  const machines = nodes.map(
    ({ node, version, usedBytes, maxBytes, replicas }) =>
      `${node}  ${version}, ${megabytes(usedBytes)}${maxBytes > 0 ? ` of ${megabytes(maxBytes)}` : ""}, ${replicas} replicas`,
  )
  const quality = accuracy === null ? "" : `, accuracy ${accuracy.toFixed(4)}`
  const processes = trainers.map(({ id, note }) => {
    const owned = partitions.filter(({ owner }) => owner === id).length
    return `${id}  ${owned} partitions, ${count(Number(note.learned))} events learned, ${megabytes(Number(note.heldBytes))} of rows`
  })
  return [
    `${prefix}: ${count(totals.applied)} events learned, ${count(totals.lag)} waiting, ${trainers.length} trainers${quality}`,
    "",
    ...table,
    "",
    ...processes,
    ...(processes.length > 0 ? [""] : []),
    ...machines,
  ].join("\n")
}
