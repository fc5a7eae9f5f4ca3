/** Many trainers in one process: partitions of a log by user, and an exchange of changes, evidence and rows after every round. */

import { Run } from "../../src/run/loop.ts"
import type { RunOptions } from "../../src/run/options.ts"
import type { InteractionBatch, ItemFeatures, Segment } from "../../src/types.ts"

export const LIVE = { testUsers: 20, smallestBatch: 64, remembered: 100 }

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
      run.shared.decide((item) => this.homeOf(item) === t)
    })
  }

  homeOf(item: number): number {
    return this.owners[partitionOf(item, this.partitions)]
  }

  /** Events that have arrived, each trained on by the owner of its user's partition; then one exchange. */
  round(batch: InteractionBatch): void {
    for (let p = 0; p < this.partitions; p++) {
      const segment = select(batch, (user) => partitionOf(user, this.partitions) === p)
      if (segment.length < 2) continue
      const report = this.runs[this.owners[p]].step(segment)
      this.tested.rows += report.testRows
      this.tested.hits += report.testRows * (report.accuracy ?? 0)
      this.tested.users += report.testUsers
      this.tested.recall += report.testUsers * (report.recall ?? 0)
    }
    this.exchange()
  }

  exchange(): void {
    const { runs } = this
    const changes = runs.map((run) => run.shared.takeChanges())
    const evidence = runs.map((run) => run.shared.takeEvidence())
    runs.forEach((run, t) => {
      changes.forEach((list, from) => {
        for (const { index, change } of list) {
          this.bytes.changes += change.length
          if (from !== t && this.homeOf(index) === t) run.shared.addChange(index, change)
        }
      })
      evidence.forEach((bytes, from) => {
        this.bytes.evidence += bytes.length
        if (from !== t) run.shared.addEvidence(bytes)
      })
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

/** The rows of some users as a segment, the first 80 % of them to be trained on. */
export function select(batch: InteractionBatch, wanted: (user: number) => boolean): Segment {
  const rows: number[] = []
  for (let r = 0; r < batch.length; r++) if (wanted(batch.user[r])) rows.push(r)
  return {
    index: 0,
    length: rows.length,
    trainLength: Math.floor(0.8 * rows.length),
    user: Int32Array.from(rows, (r) => batch.user[r]),
    item: Int32Array.from(rows, (r) => batch.item[r]),
    rating: Float32Array.from(rows, (r) => batch.rating[r]),
    timestamp: Float64Array.from(rows, (r) => batch.timestamp[r]),
  }
}
