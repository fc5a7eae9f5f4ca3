/** Many trainers in one process: partitions of a log by user, and an exchange of changes, evidence and rows after every round. */

import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { ItemFeatures, Segment } from "../../src/types.ts"

export const LIVE = { testUsers: Number.POSITIVE_INFINITY, smallestBatch: 64, remembered: 100 }

export interface TrainersOptions {
  trainers: number
  partitions: number
  run: RunOptions
  features?: ItemFeatures | undefined
}

export function partitionOf(index: number, partitions: number): number {
  return (Math.imul(index + 1, 0x9e3779b1) >>> 8) % partitions
}

export class Trainers {
  readonly runs: Run[]
  readonly partitions: number
  /** Who owns a partition. */
  readonly owners: number[]
  tested = { rows: 0, hits: 0, users: 0, recall: 0 }
  bytes = { rows: 0, changes: 0, evidence: 0 }

  constructor({ trainers, partitions, run, features }: TrainersOptions) {
    this.partitions = partitions
    this.owners = Array.from({ length: partitions }, (_, p) => p % trainers)
    this.runs = Array.from({ length: trainers }, () => new Run({ ...run, live: LIVE }, features))
    this.assign()
  }

  assign(): void {
    this.runs.forEach((run, t) => {
      run.shared.decide((item) => this.ownerOf(item) === t)
    })
  }

  ownerOf(item: number): number {
    return this.owners[partitionOf(item, this.partitions)]
  }

  /**
   * Events that have arrived go to the owners of their users' partitions, each part a segment of its own; so the rows
   * trained and tested on are those of a single process. After `period` segments of events follows an exchange.
   */
  round(whole: Segment, period = 1): void {
    for (let p = 0; p < this.partitions; p++) {
      const segment = select(whole, (user) => partitionOf(user, this.partitions) === p)
      if (segment.length === 0) continue
      const report = this.runs[this.owners[p]].step(segment)
      this.tested.rows += report.testRows
      if (report.testRows > 0) this.tested.hits += report.testRows * (report.accuracy ?? 0)
      this.tested.users += report.testUsers
      if (report.testUsers > 0) this.tested.recall += report.testUsers * (report.recall ?? 0)
    }
    if ((whole.index + 1) % period === 0) this.exchange()
  }

  exchange(): void {
    const { runs } = this
    const changes = runs.map((run) => run.shared.takeChanges())
    const evidence = runs.map((run) => run.shared.takeEvidence())
    for (const { change } of changes.flat()) this.bytes.changes += change.length
    for (const bytes of evidence) this.bytes.evidence += bytes.length
    runs.forEach((run, t) => {
      for (let from = 0; from < runs.length; from++) {
        if (from === t) continue
        for (const { index, change } of changes[from])
          if (this.ownerOf(index) === t) run.shared.addChange(index, change)
        run.shared.addEvidence(evidence[from])
      }
    })
    runs.forEach((run, t) => {
      for (const item of run.shared.takeTouched().item) {
        const row = run.shared.takeRow("item", item)
        runs.forEach((other, o) => {
          if (o === t) return
          if (row) other.shared.putRow("item", item, row)
          else other.shared.dropRow("item", item)
        })
        this.bytes.rows += row?.length ?? 0
      }
    })
  }

  close(): void {
    for (const run of this.runs) run.close()
  }
}

/** The rows of some users as a segment. */
export function select(batch: Segment, wanted: (user: number) => boolean): Segment {
  const rows: number[] = []
  for (let r = 0; r < batch.length; r++) if (wanted(batch.user[r])) rows.push(r)
  return {
    index: batch.index,
    length: rows.length,
    trainLength: rows.filter((r) => r < batch.trainLength).length,
    user: Int32Array.from(rows, (r) => batch.user[r]),
    item: Int32Array.from(rows, (r) => batch.item[r]),
    rating: Float32Array.from(rows, (r) => batch.rating[r]),
    timestamp: Float64Array.from(rows, (r) => batch.timestamp[r]),
  }
}
