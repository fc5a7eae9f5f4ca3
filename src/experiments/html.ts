/**
 * A report as one self-contained page: no fonts or addresses to load. Its tables are plain HTML; the script it carries, the
 * same components as the dashboard's (web/), makes them sortable and draws the figures from their data.
 */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DessError } from "../errors.ts"
import type { Fact } from "./configuration.ts"
import { escapeHtml } from "./html-text.ts"
import type { Report, ReportPart } from "./report.ts"
import type { Column, Table } from "./tables.ts"

/** What `npm run build` made of web/report. */
function readAsset(name: string): string {
  const path = join(import.meta.dirname, "../../dist/web", name)
  try {
    return readFileSync(path, "utf8")
  } catch {
    throw new DessError("NOT_FOUND", `report page: expected ${name} in dist/web, got none; run npm run build`)
  }
}

/** `files`: names and texts that can be downloaded from the page. */
export function renderHtml(report: Report, files: Readonly<Record<string, string>> = {}): string {
  const title = escapeHtml(report.title)
  const script = `${readAsset("plot.js")}\n${readAsset("report.js")}`
  const { createHash } = process.getBuiltinModule("node:crypto")
  const hash = createHash("sha256").update(script).digest("base64")
  const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'`
  const figures = report.parts.flatMap(({ blocks }) => blocks.flatMap((block) => block.figures))
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${title}</title>
<style>${readAsset("report.css")}</style>
</head>
<body>
<header class="page"><h1>${title}</h1><button type="button" class="theme">Dark</button></header>
<main>
<ul class="facts">
${report.facts.map((fact) => `<li>${escapeHtml(fact)}</li>`).join("\n")}
</ul>
<p class="downloads">Raw figures: ${Object.entries(files).map(renderDownload).join(" ")} <button type="button" class="button">figures.json</button></p>
${renderContents(report)}
<noscript><p>Without scripts the tables stand as they are and the figures are in report.md and figures/.</p></noscript>
${report.parts.map(renderPart).join("\n")}
</main>
<p id="spoken" role="status"></p>
<script type="application/json" id="figures">${escapeJson(JSON.stringify(figures))}</script>
<script>${script}</script>
</body>
</html>
`
}

/** JSON that no HTML parser sees an end of. */
function escapeJson(text: string): string {
  return text.replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029")
}

function renderDownload([name, text]: [string, string]): string {
  const data = Buffer.from(text).toString("base64")
  return `<a class="button" download="${escapeHtml(name)}" href="data:text/csv;base64,${data}">${escapeHtml(name)}</a>`
}

function renderContents(report: Report): string {
  const links = report.parts.flatMap(({ tables, blocks }) => [...tables, ...blocks])
  return `<nav><ul>${links.map(({ id, title }) => `<li><a href="#${escapeHtml(id)}">${escapeHtml(title)}</a></li>`).join("")}</ul></nav>`
}

function renderPart(part: ReportPart): string {
  const tables = part.tables.map((table) => renderTable(table))
  const blocks = part.blocks.map(
    ({ id, title, costs, differences, figures }) => `<section id="${escapeHtml(id)}">
<h3>${escapeHtml(title)}</h3>
<div class="figures">
${figures.map(({ id }) => `<figure id="${escapeHtml(id)}"></figure>`).join("\n")}
</div>
${differences ? renderTable(differences) : ""}
${renderTable(costs)}
</section>`,
  )
  return `<h2>${escapeHtml(part.title)}</h2>\n${renderFacts(part.configuration)}\n${tables.join("\n")}\n${blocks.join("\n")}`
}

function renderFacts(facts: readonly Fact[]): string {
  const pairs = facts.map(({ name, value }) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`)
  return `<details><summary>Configuration</summary><dl>${pairs.join("")}</dl></details>`
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

/** The script makes it work; it is here so that nothing moves when it does. */
const SORT = '<button type="button" class="sort">'

/** Two rows where columns come in groups, as in the paper. */
function renderHead(columns: readonly Column[]): string {
  const titles = columns
    .map((column) => `<th scope="col"${classOf(column)}>${SORT}${escapeHtml(column.title)}</button></th>`)
    .join("")
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
