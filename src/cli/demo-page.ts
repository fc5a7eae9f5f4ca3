/** The page of `dess demo`: its tables, and each measure beside the bytes held. One file that needs nothing else. */

import { escapeHtml } from "../experiments/html-text.ts"
import type { TableColumn } from "./terminal.ts"

export interface DemoTable {
  title: string
  columns: readonly TableColumn[]
  rows: readonly (readonly string[])[]
  /** What the picture shows of each row: bytes held, and a measure. */
  points: readonly { name: string; bytes: number; value: number }[]
  measure: string
}

const STYLE = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}tr:first-child td{font-weight:600}svg{max-width:100%;height:auto}`

export function renderDemo(facts: string, legend: string, tables: readonly DemoTable[]): string {
  const parts = tables.map((table) => `<h2>${escapeHtml(table.title)}</h2>${renderTable(table)}${renderPoints(table)}`)
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>DESS and its controls</title><style>${STYLE}</style>
<h1>DESS and its controls</h1><p>${escapeHtml(facts)}</p>${parts.join("\n")}<p>${escapeHtml(legend)}</p></html>\n`
}

function renderTable({ columns, rows }: DemoTable): string {
  const line = (tag: string, texts: readonly string[]) =>
    `<tr>${texts.map((text) => `<${tag}>${escapeHtml(text)}</${tag}>`).join("")}</tr>`
  const head = columns.map(({ title }) => title)
  return `<table><thead>${line("th", head)}</thead><tbody>${rows.map((row) => line("td", row)).join("")}</tbody></table>`
}

const [WIDTH, HEIGHT, LEFT, RIGHT, EDGE] = [800, 320, 70, 170, 40]

/** A point per method: bytes held on a logarithmic axis, the measure upwards. */
function renderPoints({ points, measure }: DemoTable): string {
  const bytes = points.map((point) => Math.log10(Math.max(1, point.bytes)))
  const values = points.map(({ value }) => value)
  const scale = (all: readonly number[], from: number, to: number) => {
    const [least, most] = [Math.min(...all), Math.max(...all)]
    return (value: number) => (most > least ? from + ((value - least) / (most - least)) * (to - from) : (from + to) / 2)
  }
  const x = scale(bytes, LEFT, WIDTH - RIGHT)
  const y = scale(values, HEIGHT - EDGE - 20, 20)
  const marks = points.map(({ name, value }, p) => {
    const [left, top] = [x(bytes[p]).toFixed(1), y(value).toFixed(1)]
    const colour = p === 0 ? "#c2410c" : "#64748b"
    return `<circle cx="${left}" cy="${top}" r="5" fill="${colour}"/><text x="${left}" y="${top}" dx="9" dy="4" fill="${colour}">${escapeHtml(name)}</text>`
  })
  const ticks = [Math.min(...values), Math.max(...values)].map(
    (value) => `<text x="${LEFT - 15}" y="${y(value).toFixed(1)}" dy="4" text-anchor="end">${value.toFixed(4)}</text>`,
  )
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${escapeHtml(measure)} beside the bytes held" font-size="13" font-family="system-ui,sans-serif">
<text x="${LEFT}" y="${HEIGHT - 8}">bytes held, logarithmic →</text><text x="0" y="12">${escapeHtml(measure)}</text>
${ticks.join("")}${marks.join("\n")}</svg>`
}
