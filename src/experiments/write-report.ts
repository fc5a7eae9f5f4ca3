/** Writes a report's files. */

import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DessError } from "../errors.ts"
import { renderRunsCsv, renderSummaryCsv } from "./csv.ts"
import { renderHtml } from "./html.ts"
import { renderLatex } from "./latex.ts"
import { renderMarkdown } from "./markdown.ts"
import { svgToPdf } from "./pdf.ts"
import type { Report } from "./report.ts"
import type { CellRecord } from "./results.ts"

export interface ReportContents {
  report: Report
  records: readonly CellRecord[]
  /** The figures drawn, by id. */
  pictures?: Readonly<Record<string, string>>
}

/** report.html, report.md, summary.csv, runs.csv, latex/*.tex, figures/*.svg and *.pdf; returns their paths. */
export function writeReport(directory: string, { report, records, pictures = {} }: ReportContents): string[] {
  const tables = { "summary.csv": renderSummaryCsv(records), "runs.csv": renderRunsCsv(records) }
  const files: Record<string, string | Uint8Array> = {
    "report.html": renderHtml(report, tables),
    "report.md": renderMarkdown(report, pictures),
    ...tables,
  }
  for (const [name, text] of Object.entries(renderLatex(report))) files[join("latex", name)] = text
  for (const [id, svg] of Object.entries(pictures)) {
    files[join("figures", `${id}.svg`)] = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    files[join("figures", `${id}.pdf`)] = svgToPdf(svg)
  }
  let part = ""
  try {
    for (const folder of ["latex", ...(Object.keys(pictures).length > 0 ? ["figures"] : [])])
      mkdirSync(join(directory, folder), { recursive: true })
    return Object.entries(files).map(([name, text]) => {
      const path = join(directory, name)
      // Written under another name first, so that a half-written file is never read as a whole one.
      part = `${path}.part`
      writeFileSync(part, text)
      renameSync(part, path)
      return path
    })
  } catch (error) {
    if (part !== "") rmSync(part, { force: true })
    const full = (error as NodeJS.ErrnoException).code === "ENOSPC"
    throw new DessError(
      full ? "UNSUPPORTED" : "INVALID_ARGUMENT",
      `report folder: expected one that can be written, got ${directory} (${full ? "the disk is full" : (error as Error).message})`,
    )
  }
}
