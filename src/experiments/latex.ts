/** Tables as LaTeX (booktabs), one file each, to be taken into a paper with \input. */

import type { Report } from "./report.ts"
import type { Column, Table } from "./tables.ts"

/** Every table of a report, by the name of its file. */
export function renderLatex(report: Report): Record<string, string> {
  const tables = report.parts.flatMap(({ tables, blocks }) => [
    ...tables,
    ...blocks.flatMap(({ costs, differences }) => (differences ? [differences, costs] : [costs])),
  ])
  return Object.fromEntries(tables.map((table) => [`${table.id}.tex`, renderTable(table)]))
}

function renderTable({ id, title, columns, rows, notes }: Table): string {
  const head = `${columns.map(({ title: name }) => escapeLatex(name)).join(" & ")} \\\\`
  // More than a page is wide: made as small as it has to be.
  const wide = columns.length > 6
  const firstControl = rows.findIndex(({ kind }) => kind === "control")
  const body = rows.map(({ cells }, r) => {
    const texts = cells.map(({ text, best }) => (best ? renderBest(text) : renderCell(text)))
    return `${r > 0 && r === firstControl ? "\\midrule\n" : ""}${texts.join(" & ")} \\\\`
  })
  return [
    "% \\usepackage{booktabs,graphicx}",
    "\\begin{table}",
    `\\caption{${escapeLatex(title)}. ${escapeLatex(notes[0] ?? "")}}`,
    `\\label{tab:${id}}`,
    ...(wide ? ["\\resizebox{\\linewidth}{!}{%"] : []),
    `\\begin{tabular}{${columns.map(({ text }) => (text ? "l" : "r")).join("")}}`,
    "\\toprule",
    ...renderGroups(columns),
    head,
    "\\midrule",
    ...body,
    "\\bottomrule",
    `\\end{tabular}${wide ? "}" : ""}`,
    "\\end{table}",
    // The verdicts, to be checked before they are claimed.
    ...notes.slice(1).map((note) => `% ${note.replaceAll("\n", " ")}`),
    "",
  ].join("\n")
}

/** A row of heads that span their columns, with rules below them. */
function renderGroups(columns: readonly Column[]): string[] {
  if (columns.every(({ group }) => group === undefined)) return []
  const groups: { name: string | undefined; from: number; to: number }[] = []
  for (const [i, { group }] of columns.entries()) {
    const last = groups[groups.length - 1]
    if (last && last.name === group && group !== undefined) last.to = i + 1
    else groups.push({ name: group, from: i + 1, to: i + 1 })
  }
  const heads = groups.map(({ name, from, to }) =>
    name === undefined ? "" : `\\multicolumn{${to - from + 1}}{c}{${escapeLatex(name)}}`,
  )
  const rules = groups.flatMap(({ name, from, to }) => (name === undefined ? [] : [`\\cmidrule(lr){${from}-${to}}`]))
  return [`${heads.join(" & ")} \\\\`, rules.join(" ")]
}

/** "65.84 ± 0.85**" as $65.84 \pm 0.85^{**}$; other texts as they are. */
function renderCell(text: string): string {
  const [, mean, deviation, marks] = /^(-?[\d.]+)(?: ± ([\d.]+))?([*†]*)$/.exec(text) ?? []
  if (mean === undefined) return escapeLatex(text)
  const raised = marks === "" ? "" : `^{${marks.replaceAll("†", "\\dagger ").replaceAll("*", "{*}").trim()}}`
  return `$${mean}${deviation === undefined ? "" : ` \\pm ${deviation}`}${raised}$`
}

/** \textbf does not reach into formulas, \boldmath does. */
function renderBest(text: string): string {
  const cell = renderCell(text)
  return cell.startsWith("$") ? `{\\boldmath${cell}}` : `\\textbf{${cell}}`
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" },
  ...{
    "±": "$\\pm$",
    "†": "$\\dagger$",
    "−": "$-$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "…": "\\dots{}",
    "→": "$\\to$",
  },
}

function escapeLatex(text: string): string {
  return text.replace(/[\\~^±†−–<>…→]|[&%$#_{}]/g, (letter) => ESCAPES[letter] ?? `\\${letter}`)
}
