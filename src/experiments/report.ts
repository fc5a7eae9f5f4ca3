/** From records to a report: tables per setting, and per block what it costs and how it looks. */

import { describeLiked } from "../datasets/data-stream.ts"
import type { Figure } from "../figures/figure.ts"
import { configurationOf, type Fact } from "./configuration.ts"
import { costTable } from "./cost-table.ts"
import { differenceTable } from "./difference-table.ts"
import { drawFigure, openDrawing } from "./drawing.ts"
import { planFigures } from "./figures.ts"
import { paperTables } from "./paper-tables.ts"
import { type CellRecord, isDone } from "./results.ts"
import { type Block, describeBlock, describeSetting, gatherBlocks, settingKey } from "./summary.ts"
import type { Table } from "./tables.ts"

export interface BlockReport {
  id: string
  title: string
  block: Block
  costs: Table
  differences?: Table
  figures: readonly Figure[]
}

/** Everything run in one setting. */
export interface ReportPart {
  title: string
  configuration: readonly Fact[]
  tables: readonly Table[]
  blocks: readonly BlockReport[]
}

export interface Report {
  title: string
  /** What was run, where, and what failed. */
  facts: readonly string[]
  parts: readonly ReportPart[]
}

/** The report; `figures: false` is tables only. */
export function buildReport(records: readonly CellRecord[], options: { figures?: boolean } = {}): Report {
  const groups = new Map<string, Block[]>()
  for (const block of gatherBlocks(records)) {
    const key = settingKey(block.setting)
    groups.set(key, [...(groups.get(key) ?? []), block])
  }
  const parts = [...groups.values()].map((blocks, p): ReportPart => {
    const full = blocks.filter(({ entries }) => entries.length > 0)
    const ids = distinctIds(full.map((block) => `part${p + 1}-${idOf(block)}`))
    const tables = paperTables(blocks).map((table) => ({ ...table, id: `part${p + 1}-${table.id}` }))
    return {
      title: describeSetting(blocks[0].setting),
      configuration: configurationOf(blocks),
      tables,
      blocks: full.map((block, b) => ({
        id: ids[b],
        title: describeBlock(block),
        block,
        costs: costTable(block, `${ids[b]}-costs`),
        ...differencesOf(block, `${ids[b]}-differences`),
        figures: options.figures === false ? [] : planFigures(block, ids[b]),
      })),
    }
  })
  return { title: "DESS and its controls", facts: factsOf(records), parts }
}

function differencesOf(block: Block, id: string): { differences?: Table } {
  const differences = differenceTable(block, id)
  return differences ? { differences } : {}
}

/** Every figure as SVG, by its id. */
export async function drawFigures(report: Report): Promise<Record<string, string>> {
  const figures = report.parts.flatMap(({ blocks }) => blocks.flatMap((block) => block.figures))
  if (figures.length === 0) return {}
  const drawing = await openDrawing()
  try {
    return Object.fromEntries(figures.map((figure) => [figure.id, drawFigure(drawing, figure)]))
  } finally {
    await drawing.close()
  }
}

/** Names that differ in other letters only would share their files. */
function distinctIds(ids: readonly string[]): string[] {
  const taken = new Set<string>()
  return ids.map((id) => {
    let free = id
    for (let n = 2; taken.has(free); n++) free = `${id}-${n}`
    taken.add(free)
    return free
  })
}

/** Letters, digits and dashes only: it becomes a file name and an anchor. */
function idOf({ data, task, model }: Block): string {
  return `${data}-${task}-${model}`.toLowerCase().replace(/[^a-z0-9]+/g, "-")
}

/** Which state the same events give is a build's own: runs of several should not stand in one table. */
function learningOf(records: readonly CellRecord[]): string {
  const found = [...new Set(records.map(({ provenance }) => provenance?.versions.learning ?? "unknown"))].sort()
  if (found.join() === "unknown") return ""
  return found.length === 1
    ? `, learning ${found[0]}`
    : `, learning ${found.join(" and ")}: builds that learn differently, so differences may be theirs`
}

function factsOf(records: readonly CellRecord[]): string[] {
  const done = records.filter(isDone)
  const distinct = (values: readonly string[]) => [...new Set(values)]
  const hours = records.reduce((sum, { milliseconds }) => sum + milliseconds, 0) / 3.6e6
  const data = distinct(done.map(({ cell }) => cell.data.name)).map((name) => {
    const own = done.filter(({ cell }) => cell.data.name === name).map(({ result }) => result)
    const most = Math.max(...own.map(({ interactions }) => interactions))
    const liked = distinct(own.flatMap((result) => (result.liked ? [describeLiked(result.liked)] : [])))
    const like = liked.length === 0 ? "" : `; a like is ${liked.join(" or ")}`
    return `${name} (${most.toLocaleString("en")} interactions${like})`
  })
  const failed = records.filter(({ status }) => status === "failed")
  return [
    `${done.length} runs, ${hours.toFixed(2)} hours of one process, dess ${distinct(records.map(({ version }) => version)).join(", ")}${learningOf(records)}.`,
    `Data: ${data.join(", ")}.`,
    `Machine: ${distinct(records.map(({ machine }) => machine)).join("; ")}.`,
    ...distinct(records.flatMap(({ provenance }) => provenance?.command ?? [])).map((command) => `Command: ${command}`),
    ...distinct(
      records.flatMap(({ cell, provenance }) =>
        provenance?.data ? [`SHA-256 of ${cell.data.name}: ${provenance.data}.`] : [],
      ),
    ),
    ...failed.map(({ cell, message }) => {
      const where = `${cell.method}, ${cell.task}, ${cell.model}, ${cell.data.name}, seed ${cell.seed}`
      return `Failed: ${where} (${message ?? "no message"}).`
    }),
  ]
}
