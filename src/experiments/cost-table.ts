/** What every method of a block costs: memory, sizes, regret and time. */

import { MAJORITY } from "./controls.ts"
import { paperMemory } from "./paper.ts"
import type { DoneRecord } from "./results.ts"
import { type Block, type Entry, meanOf } from "./summary.ts"
import type { Column, Table } from "./tables.ts"

/** Mean embedding bytes over the stream, both sides. */
export function bytesOverTime(entry: Entry): number {
  return meanOf(entry, ({ result }) => result.embeddingBytesOverTime.user + result.embeddingBytesOverTime.item)
}

/** Embedding bytes at the end relative to fixed-128's; undefined without a fixed-128. */
export function relativeBytes(block: Block, entry: Entry): number | undefined {
  const unit = block.entries.find(({ label }) => label === "fixed-128")
  return unit && endBytes(entry) / endBytes(unit)
}

export function endBytes(entry: Entry): number {
  return meanOf(entry, ({ result }) => result.embeddingBytes)
}

export const PHASES = ["policy", "growth", "train", "inference"] as const

export function costTable(block: Block, id: string): Table {
  const columns: Column[] = [
    { title: "Method", text: true },
    { group: "Embedding kB", title: "at the end" },
    { group: "Embedding kB", title: "over time" },
    { group: "Embedding kB", title: "fixed-128 = 1" },
    { group: "Embedding kB", title: "paper", paper: true },
    { group: "Row kB", title: "at the end" },
    { group: "Row kB", title: "over time" },
    { group: "Mean size", title: "users" },
    { group: "Mean size", title: "items" },
    { group: "Regret", title: "users" },
    { group: "Regret", title: "items" },
    ...PHASES.map((phase) => ({ group: "Milliseconds per segment", title: phase })),
    { title: "Interactions/s" },
  ]
  const entries = block.entries.filter(({ label }) => label !== MAJORITY)
  const papers = entries.map((entry) => paperMemory(block.data, entry.label))
  const hasPaper = papers.some((value) => value !== undefined)
  const rows = entries.map((entry, i) => {
    const relative = relativeBytes(block, entry)
    const sized = entry.runs.every(({ result }) => result.meanSize.user > 0)
    const size = (side: "user" | "item") =>
      sized ? meanOf(entry, ({ result }) => result.meanSize[side]).toFixed(1) : "–"
    const decides = entry.runs.every(({ result }) => result.regret !== null)
    const regret = (side: "user" | "item") =>
      decides ? meanOf(entry, ({ result }) => result.regret?.[side] ?? 0).toFixed(0) : "–"
    const texts = [
      entry.label,
      (endBytes(entry) / 1000).toFixed(1),
      (bytesOverTime(entry) / 1000).toFixed(1),
      relative === undefined ? "–" : relative.toFixed(3),
      papers[i]?.toFixed(3) ?? "–",
      kilobytes(entry, ({ result }) => result.rowBytes),
      kilobytes(entry, ({ result: { rowBytesOverTime: bytes } }) => bytes && bytes.user + bytes.item),
      size("user"),
      size("item"),
      regret("user"),
      regret("item"),
      ...PHASES.map((phase) => meanOf(entry, ({ result }) => result.milliseconds[phase]).toFixed(2)),
      meanOf(entry, ({ result }) => result.interactionsPerSecond).toFixed(0),
    ]
    return { kind: entry.kind, cells: texts.map((text) => ({ text })) }
  })
  const kept = columns.map((column) => hasPaper || !column.paper)
  return {
    id,
    title: "Memory, sizes, regret and time",
    columns: columns.filter((_, c) => kept[c]),
    rows: rows.map((row) => ({ ...row, cells: row.cells.filter((_, c) => kept[c]) })),
    notes: [
      "Means over seeds. Times depend on how many cells ran side by side; compare them within one table only.",
      ...missingSeries(entries),
    ],
  }
}

/** Mean over seeds; results kept from before rows had bits lack them. */
function kilobytes(entry: Entry, read: (run: DoneRecord) => number | undefined): string {
  if (entry.runs.some((run) => read(run) === undefined)) return "–"
  return (meanOf(entry, (run) => read(run) ?? 0) / 1000).toFixed(1)
}

/** What cannot be drawn: results may be kept without the series along the stream. */
function missingSeries(entries: readonly Entry[]): string[] {
  const runs = entries.flatMap((entry) => entry.runs)
  const bare = runs.filter(({ series }) => series.interactions.length === 0).length
  if (bare === 0) return []
  return bare === runs.length
    ? ["Regret curves and timelines are missing because the records hold no series."]
    : [`Regret curves and timelines leave out ${bare} of ${runs.length} runs, whose records hold no series.`]
}
