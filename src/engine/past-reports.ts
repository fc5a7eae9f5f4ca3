/** The last reports: for those who come later, and in snapshots for those who come after a restart. */

import { deflateSync, inflateSync } from "node:zlib"
import type { LiveReport } from "./types.ts"

/** Kept in memory. */
export const MOST_PAST = 1000
/** Kept in a snapshot: about 150 bytes each when they are packed. */
const MOST_SAVED = 300

export class PastReports {
  /** Oldest first, as bytes of JSON, outside of the heap. */
  readonly #reports: Buffer[] = []
  /** Of the newest: outlooks are large, and of the others nobody looks at them. */
  #outlook: LiveReport["outlook"] = null

  push(report: LiveReport): void {
    this.#outlook = report.outlook
    this.#reports.push(Buffer.from(JSON.stringify({ ...report, outlook: null })))
    if (this.#reports.length > MOST_PAST) this.#reports.shift()
  }

  last(count: number): LiveReport[] {
    const reports = this.#reports.slice(-count).map((bytes) => JSON.parse(bytes.toString()) as LiveReport)
    const newest = reports.at(-1)
    if (newest) newest.outlook = this.#outlook
    return reports
  }

  /** The newest as packed text; numbers that are measured, not counted, keep six digits. */
  save(): string {
    const reports = this.last(MOST_SAVED)
    const round = (_: string, value: unknown) =>
      typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value
    return deflateSync(JSON.stringify(reports, round)).toString("base64")
  }

  load(saved: string): void {
    const reports = JSON.parse(inflateSync(Buffer.from(saved, "base64")).toString()) as LiveReport[]
    for (const report of reports) this.push(report)
  }
}
