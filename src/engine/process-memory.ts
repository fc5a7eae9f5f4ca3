/** Where the bytes of the process are: what grows with ids, counted part by part, and the rest, measured once. */

import { readFileSync } from "node:fs"
import { setFlagsFromString } from "node:v8"
import type { ProcessPrices } from "../ids/process-bytes.ts"
import type { LearnerStatus } from "../learning/learner.ts"
import type { Reader } from "../learning/reader.ts"
import type { Task } from "../types.ts"
import type { Catalogue } from "./catalogue.ts"
import type { MemoryParts } from "./types.ts"

/** Bytes of an event that waits. */
const EVENT = 64

/** Budgets up to this many bytes leave more to ids and less to the heaps of the runtime. */
const SMALL_BUDGET = 128 * 1024 * 1024

/** Bytes the process cannot give back: pages of mapped files do not count, where the system tells them apart. */
export function residentBytes(): number {
  try {
    const status = readFileSync("/proc/self/status", "utf8")
    const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1])
    const bytes = 1024 * (kilobytes("RssAnon") + kilobytes("RssShmem"))
    if (Number.isFinite(bytes)) return bytes
  } catch {
    // Not Linux.
  }
  return process.memoryUsage.rss()
}

/**
 * Keeps the heaps of the runtime small, from a collection on. V8's young generation stays as that leaves it, 2 MB; it would
 * grow to 32, for the same CPU time an event. The old one grows by half of what lives, not up to four times. With the
 * collection the process took 89 MB at 500,000 events, without 107 (`npm run bench -- budget`, 64 MB). Of a small budget the
 * old ones would take a third: there they may grow by 2 MB between collections, not by 8. That is 6 MB less for a twentieth
 * more CPU time. `dess run` takes 36 MB less of 91 at a million events, for the same CPU time.
 */
export async function boundHeaps(budget = Number.POSITIVE_INFINITY): Promise<void> {
  // Bun has no V8, and Deno never answers its inspector.
  if (process.versions.bun !== undefined || process.versions.deno !== undefined) return
  try {
    setFlagsFromString("--semi-space-growth-factor=1")
    setFlagsFromString("--heap-growing-percent=50")
    if (budget <= SMALL_BUDGET) setFlagsFromString("--optimize-for-size")
    const { Session } = await import("node:inspector/promises")
    const session = new Session()
    session.connect()
    await session.post("HeapProfiler.collectGarbage")
    session.disconnect()
  } catch {
    // Not every host may be inspected.
  }
}

/** Counts what grows. */
export function countGrowing(p: {
  held: LearnerStatus
  metBytes?: number
  catalogue: Catalogue
  reader: Reader
  waiting: number
  lookupBytes: number
  ruleBytes: number
}): MemoryParts {
  const { names, met, items, entries } = p.catalogue.bytes
  return {
    rows: p.held.heldBytes + (p.held.freeBytes ?? 0),
    indicators: p.held.besideBytes ?? 0,
    names,
    met: met + (p.metBytes ?? 0),
    items: items + entries + p.ruleBytes,
    packed: p.reader.packedBytes,
    journal: EVENT * p.waiting + (p.catalogue.pending?.bytes ?? 0),
    lookup: p.lookupBytes,
  }
}

/** What the process holds now beyond what grows. */
export function fixedBytes(growing: MemoryParts): number {
  return Math.max(0, residentBytes() - Object.values(growing).reduce((sum, bytes) => sum + bytes, 0))
}

/**
 * What the main thread keeps of every index: of a user the place of its name (4, and 6 in the table), of its list (5, and
 * 4 of the smallest), the segment it was met at last and when its list was cleaned (4 each); of an item its name's, trend,
 * events, age, segment and leaving (20), and its place among those packed (5, owner and order 8, one bias an output).
 */
export function processPrices(task: Task): ProcessPrices {
  const outputs = task === "multiclass" ? 5 : 1
  // For lists the learner keeps what a user has met as well.
  return { user: 27, item: 10 + 20 + 13 + 4 * outputs, met: task === "topk" ? 9 : 3 }
}
