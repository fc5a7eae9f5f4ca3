/** Tables as LaTeX (booktabs), one file each, to be taken into a paper with \input. pdfLaTeX sets them whatever they name. */

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
    // A caption above a table has no room below it.
    "\\smallskip\\centering",
    // What is wider than the page is made as small as it has to be.
    "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
    `\\begin{tabular}{${columns.map(({ text }) => (text ? "l" : "r")).join("")}}`,
    "\\toprule",
    ...renderGroups(columns),
    head,
    "\\midrule",
    ...body,
    "\\bottomrule",
    "\\end{tabular}}",
    "\\end{table}",
    // The verdicts, to be checked before they are claimed.
    ...notes.slice(1).map((note) => `% ${note.replace(/\s/g, " ")}`),
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
  // At the start of a row \\ would take these for its own.
  ...{ "[": "{[}", "*": "{*}" },
  ...{
    "±": "$\\pm$",
    "†": "$\\dagger$",
    "−": "$-$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "…": "\\dots{}",
    "→": "$\\to$",
  },
}

function escapeLatex(text: string): string {
  return text
    .replace(/\s/g, " ")
    .replace(/[\\~^±†−–<>|…→[*]|[&%$#_{}]/g, (letter) => ESCAPES[letter] ?? `\\${letter}`)
    .replace(/(?![À-ÿ])[^ -~]|[ÐÞðþ×÷]/gu, spell)
}

/** A letter that pdfLaTeX has no sign for: without its marks, or its number. */
function spell(letter: string): string {
  const plain = letter.normalize("NFKD").replace(/\p{M}/gu, "")
  return /^[A-Za-z0-9 .,'-]+$/.test(plain)
    ? plain
    : `U+${letter.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0")}`
}
