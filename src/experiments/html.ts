/** A report as one page that asks for nothing: no script, no font, no address. */

import type { Figure } from "./drawing.ts"
import { escapeHtml } from "./html-text.ts"
import type { Report, ReportPart } from "./report.ts"
import type { Column, Table } from "./tables.ts"

const STYLE = `
:root { color-scheme: light; --ink: #222; --quiet: #666; --line: #ddd; --shade: #f6f6f3 }
body { margin: 0 auto; max-width: 76rem; padding: 2rem 1.5rem 6rem; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #fff }
h1 { font-size: 1.7rem; margin: 0 0 .5rem }
h2 { font-size: 1.15rem; margin: 3rem 0 .5rem; padding-top: .7rem; border-top: 2px solid var(--ink) }
h3 { font-size: 1.05rem; margin: 2.2rem 0 .5rem }
nav ul, ul.facts { margin: .5rem 0; padding-left: 1.2rem; color: var(--quiet) }
a { color: #0060a0 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line) }
th { font-weight: 600; vertical-align: bottom }
th.group { text-align: center; border-left: 1px solid var(--line) }
thead tr:last-child th { border-bottom: 1.5px solid var(--ink) }
.text { text-align: left }
.paper { color: var(--quiet); font-style: italic }
tr.dess { background: #eef5fb }
tr.first-control td { border-top: 1.5px solid var(--ink) }
ul.notes { font-size: 13px; color: #444; max-width: 62rem; padding-left: 1.2rem }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 1.5rem 2rem }
figure { margin: 0 }
figcaption { font-size: 13px; color: var(--quiet) }
figcaption b { display: block; font-size: 14px; color: var(--ink) }
figure svg { max-width: 100%; height: auto }
@media print { body { max-width: none } figure, table { break-inside: avoid } }
`

export function renderHtml(report: Report): string {
  const title = escapeHtml(report.title)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${title}</h1>
<ul class="facts">
${report.facts.map((fact) => `<li>${escapeHtml(fact)}</li>`).join("\n")}
</ul>
${renderContents(report)}
${report.parts.map(renderPart).join("\n")}
</body>
</html>
`
}

function renderContents(report: Report): string {
  const links = report.parts.flatMap(({ tables, blocks }) => [...tables, ...blocks])
  return `<nav><ul>${links.map(({ id, title }) => `<li><a href="#${escapeHtml(id)}">${escapeHtml(title)}</a></li>`).join("")}</ul></nav>`
}

function renderPart(part: ReportPart): string {
  const tables = part.tables.map((table) => renderTable(table))
  const blocks = part.blocks.map(
    ({ id, title, costs, figures }) => `<section id="${escapeHtml(id)}">
<h3>${escapeHtml(title)}</h3>
<div class="figures">
${figures.map(renderFigure).join("\n")}
</div>
${renderTable(costs)}
</section>`,
  )
  return `<h2>${escapeHtml(part.title)}</h2>\n${tables.join("\n")}\n${blocks.join("\n")}`
}

function renderFigure({ id, title, caption, svg }: Figure): string {
  return `<figure id="${escapeHtml(id)}"><figcaption><b>${escapeHtml(title)}</b>${escapeHtml(caption)}</figcaption>${svg}</figure>`
}

function renderTable(table: Table): string {
  const { columns, rows } = table
  const firstControl = rows.findIndex(({ kind }) => kind === "control")
  const body = rows.map(({ kind, cells }, r) => {
    const mark = r > 0 && r === firstControl ? " first-control" : ""
    const tds = cells.map(({ text, best }, c) => {
      const inner = escapeHtml(text)
      return `<td${classOf(columns[c])}>${best ? `<b>${inner}</b>` : inner}</td>`
    })
    return `<tr class="${kind}${mark}">${tds.join("")}</tr>`
  })
  return `<h3 id="${escapeHtml(table.id)}">${escapeHtml(table.title)}</h3>
<div class="scroll"><table>
<thead>${renderHead(columns)}</thead>
<tbody>
${body.join("\n")}
</tbody>
</table></div>
<ul class="notes">
${table.notes.map((note) => `<li>${escapeHtml(note)}</li>`).join("\n")}
</ul>`
}

/** Two rows where columns come in groups, as in the paper. */
function renderHead(columns: readonly Column[]): string {
  const titles = columns.map((column) => `<th scope="col"${classOf(column)}>${escapeHtml(column.title)}</th>`).join("")
  if (columns.every(({ group }) => group === undefined)) return `<tr>${titles}</tr>`
  const groups: { name: string | undefined; span: number }[] = []
  for (const { group } of columns) {
    const last = groups[groups.length - 1]
    if (last && last.name === group) last.span++
    else groups.push({ name: group, span: 1 })
  }
  const heads = groups.map(({ name, span }) =>
    name === undefined
      ? `<th colspan="${span}"></th>`
      : `<th class="group" scope="colgroup" colspan="${span}">${escapeHtml(name)}</th>`,
  )
  return `<tr>${heads.join("")}</tr><tr>${titles}</tr>`
}

function classOf({ text, paper }: Column): string {
  return text ? ' class="text"' : paper ? ' class="paper"' : ""
}
