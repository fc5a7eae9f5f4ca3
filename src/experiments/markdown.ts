/** A report as Markdown. Figures that were drawn are files beside it. */

import type { Report } from "./report.ts"
import type { Column, Table } from "./tables.ts"

export function renderMarkdown(report: Report, pictures: Readonly<Record<string, string>> = {}): string {
  const lines = [`# ${escapeMarkdown(report.title)}`, "", ...report.facts.map((fact) => `- ${escapeMarkdown(fact)}`)]
  for (const part of report.parts) {
    lines.push("", `## ${escapeMarkdown(part.title)}`)
    lines.push("", ...part.configuration.map(({ name, value }) => `- ${escapeMarkdown(`${name}: ${value}`)}`))
    for (const table of part.tables) lines.push("", ...renderTable(table, "###"))
    for (const block of part.blocks) {
      lines.push("", `### ${escapeMarkdown(block.title)}`, "", ...renderTable(block.costs, "####"))
      if (block.differences) lines.push("", ...renderTable(block.differences, "####"))
      for (const figure of block.figures.filter(({ id }) => Object.hasOwn(pictures, id)))
        lines.push(
          "",
          `**${escapeMarkdown(figure.title)}**`,
          "",
          `![${figure.id}](figures/${figure.id}.svg)`,
          "",
          escapeMarkdown(figure.caption),
        )
    }
  }
  return `${lines.join("\n")}\n`
}

function renderTable(table: Table, heading: string): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
  return [
    `${heading} ${escapeMarkdown(table.title)}`,
    "",
    line(table.columns.map((column) => escapeMarkdown(titleOf(column)))),
    line(table.columns.map((column) => (column.text ? "---" : "---:"))),
    ...table.rows.map((row) =>
      line(row.cells.map(({ text, best }) => (best ? `**${escapeMarkdown(text)}**` : escapeMarkdown(text)))),
    ),
    "",
    ...table.notes.map((note) => `- ${escapeMarkdown(note)}`),
  ]
}

/** A column's title with that of its group before it. */
function titleOf({ group, title }: Column): string {
  return group === undefined ? title : `${group}: ${title}`
}

/** Text that stays text: no markup, no cell border, no line break of its own. */
function escapeMarkdown(text: string): string {
  return text
    .replace(/[\r\n]+/g, " ")
    .replace(/[\\`*_[\]|]/g, "\\$&")
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
}
