/** A report's tables on the terminal. */

import type { Report } from "../experiments/report.ts"
import type { Table } from "../experiments/tables.ts"
import { bold, dim, formatTable, plain } from "./terminal.ts"

/** All tables with their notes; what each method costs only where asked for. */
export function formatTables(report: Report, { costs = false } = {}): string {
  return report.parts
    .flatMap((part) => [
      dim(plain(part.title)),
      ...part.tables.map(formatOne),
      ...(costs
        ? part.blocks.map(({ title, costs: table }) => formatOne({ ...table, title: `${title}: ${table.title}` }))
        : []),
    ])
    .join("\n\n")
}

function formatOne(table: Table): string {
  const columns = table.columns.map((column) => ({
    title: plain(column.title),
    ...(column.group === undefined ? {} : { group: plain(column.group) }),
    align: column.text ? ("left" as const) : ("right" as const),
  }))
  const rows = table.rows.map((row) => row.cells.map(({ text }) => plain(text)))
  const notes = table.notes.map((note) => dim(plain(note)))
  return [bold(plain(table.title)), formatTable(columns, rows), ...notes].join("\n")
}
