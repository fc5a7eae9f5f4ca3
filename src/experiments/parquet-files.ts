/** Results of pieces of the stream and of users as Parquet, for those who test in their own way. */

import { join } from "node:path"
import { openDuck, quote } from "../datasets/duck.ts"
import { type CellRecord, isDone } from "./results.ts"
import { readUsers } from "./user-scores.ts"

const RUN = ["data", "task", "model", "method", "matched", "seed", "setting"]
const RUN_TYPES = ["VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR", "VARCHAR", "INTEGER", "VARCHAR"] as const

/** segments.parquet (at most 200 pieces a run) and users.parquet; DuckDB, which is optional, writes them. */
export async function writeParquetFiles(directory: string, records: readonly CellRecord[]): Promise<string[]> {
  const duck = await openDuck({ memoryBytes: 2 ** 29, threads: 1, temporary: join(directory, "duckdb") })
  const files = { segments: join(directory, "segments.parquet"), users: join(directory, "users.parquet") }
  try {
    const columns = (more: string) => `(${RUN.map((name, i) => `"${name}" ${RUN_TYPES[i]}`).join(", ")}, ${more})`
    await duck.run(
      `CREATE TABLE segments ${columns("interactions INTEGER, weight DOUBLE, first DOUBLE, second DOUBLE")}`,
    )
    await duck.run(`CREATE TABLE users ${columns('"user" INTEGER, tests DOUBLE, first DOUBLE, second DOUBLE')}`)
    const segments = await duck.write("segments", [...RUN_TYPES, "INTEGER", "DOUBLE", "DOUBLE", "DOUBLE"])
    const users = await duck.write("users", [...RUN_TYPES, "INTEGER", "DOUBLE", "DOUBLE", "DOUBLE"])
    for (const { cell, match, series, users: kept } of records.filter(isDone)) {
      const { data, task, model, method, seed, setting } = cell
      const run = [data.name, task, model, method, match?.method ?? "", seed, JSON.stringify(setting)] as const
      const [first, second] = series.recall ? [series.recall, series.ndcg] : [series.accuracy, series.loss]
      for (const [i, at] of series.interactions.entries())
        segments.add(...run, at, series.weights?.[i] ?? Number.NaN, first?.[i] ?? Number.NaN, second?.[i] ?? Number.NaN)
      if (!kept) continue
      const read = readUsers(kept)
      for (let u = 0; u < kept.groups; u++) users.add(...run, u, read.counts[u], read.first[u], read.second[u])
    }
    segments.finish()
    users.finish()
    for (const [table, file] of Object.entries(files))
      await duck.run(`COPY ${table} TO ${quote(file)} (FORMAT parquet, COMPRESSION zstd)`)
    return Object.values(files)
  } finally {
    duck.close()
  }
}
