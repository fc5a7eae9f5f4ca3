/**
 * Writes the figures of tables that come from docs/results into README.md and docs. A comment before a table names the folders
 * and, for each column after the first, what it holds:
 *
 *     <!-- figures default-ml-1m-binary: accuracy loss numbers held; default-movietweetings-binary: loss held -->
 *
 * The first `name` of a row is its method. A folder with several data sets is told which one, `lists-split/ml-1m: both`; where
 * rows are data sets, the folder is told the method instead, `copies-ml-1m-binary/dess-fre: loss`. `npm run lab -- <folder>` makes the results again, `node tools/write-figures.mjs`
 * brings them into the tables; with --check it writes nothing and fails where a figure is another. In the section of such a
 * table a figure of four decimals or more has to be one of the table's, or the difference of two of a column or a row; kB have
 * to be of the table, too.
 *
 *     <!-- verdict default-ml-1m-binary: loss dess-fre -->
 *
 * is followed by what `dess report` says of a method by a measure, after Holm's correction; a folder with several data sets is
 * told which one, `copies-ml-1m-binary/1-copy`. A p in the section of a table or a verdict has to be in one of them.
 *
 *     <!-- rows ml-1m-heads distance -->
 *
 * is followed by a whole table of a folder and a head (lab-table.mjs).
 *
 *     <!-- says ml-1m-binary ncf: accuracy dess-cv .663, loss esapn − dess-cv .0008, p esapn .03; ml-1m-heads mf: p darts .13 -->
 *
 * names where the figures of a section without tables come from: each has to be the mean over seeds, or the p by loss (recall) of
 * such a table, and a figure that is not named there is wrong.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { buildReport } from "../dist/experiments/report.js"
import { readResults } from "../dist/experiments/results.js"
import { labPs, labRuns, labTable, short } from "./lab-table.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const MARK = /^<!-- figures (.+) -->$/
const ROWS = /^<!-- rows (\S+) (\w+) -->$/
const VERDICT = /^<!-- verdict (\S+): (\w+) (\S+) -->$/
const SAYS = /^<!-- says (.+) -->$/

/** @param {number} bytes */
const kilobytes = (bytes) => Math.round(bytes / 1000).toLocaleString("en")

/** @param {(of: (result: any) => number) => number} mean @param {(result: any) => number[]} of */
const pair = (mean, of) =>
  [0, 1]
    .map((n) =>
      short(
        mean((result) => of(result)[n]),
        4,
      ),
    )
    .join(" / ")

/** What a column may hold: the text of a cell, from the mean of a figure over seeds and the text that stands there. */
const KINDS = {
  accuracy: (mean) =>
    short(
      mean((result) => result.accuracy),
      4,
    ),
  loss: (mean, { task }) =>
    short(
      mean((result) => result.loss),
      task === "binary" ? 5 : 4,
    ),
  recall: (mean) =>
    short(
      mean((result) => result.recall),
      4,
    ),
  ndcg: (mean) =>
    short(
      mean((result) => result.ndcg),
      4,
    ),
  /** Recall and NDCG in one cell. */
  both: (mean) => pair(mean, (result) => [result.recall, result.ndcg]),
  /** Protocol next: HR and NDCG as learned at the cut, and learning on. */
  frozen: (mean) => pair(mean, ({ next }) => [next.frozen.hr, next.frozen.ndcg]),
  online: (mean) => pair(mean, ({ next }) => [next.online.hr, next.online.ndcg]),
  rows: (mean) => kilobytes(mean((result) => result.rowBytes)),
  held: (mean, { text }) =>
    `${kilobytes(mean(({ memory }) => memory.rows + memory.indicators + memory.met))}${text.endsWith(" kB") ? " kB" : ""}`,
  /** Users and items, mean over the stream. */
  overtime: (mean) => ["user", "item"].map((side) => mean((r) => r.meanSizeOverTime[side]).toFixed(1)).join(" / "),
  /** Of methods without vectors there is none. */
  numbers: (mean, { text, method }) =>
    method.startsWith("plain-")
      ? "–"
      : ["user", "item"]
          .map((side) => Math.round(mean(({ meanSize }) => meanSize[side])))
          .join(text.includes("/") ? " / " : ", "),
}

/** The text with the figures there are, and what is wrong with it. @param {string} text @param {(folder: string) => any[]} read */
export function writeFigures(text, read) {
  const lines = text.split("\n")
  const wrong = []
  for (const [l, line] of lines.entries()) {
    const marked = MARK.exec(line)
    if (!marked) continue
    const columns = marked[1].split(";").flatMap((part) => {
      // A method may have options: the last colon is ours.
      const [, source, kinds] = /^\s*(.+):\s*([^:]+?)\s*$/.exec(part) ?? []
      const [, folder, chosen] = /^([^/]+)(?:\/(.+))?$/.exec(source) ?? []
      return kinds.split(/\s+/).map((kind) => ({ records: read(folder), chosen, kind }))
    })
    let row = lines.findIndex((other, o) => o > l && other.startsWith("|")) + 2
    for (; lines[row]?.startsWith("|"); row++) {
      const cells = lines[row].split("|").map((cell) => cell.trim())
      const name = /`([^`]+)`/.exec(cells[1])?.[1] ?? ""
      // A row from elsewhere, a published figure say, has no `name`.
      if (name === "") continue
      for (const [c, { records, chosen, kind }] of columns.entries()) {
        if (kind === "-") continue
        if (!KINDS[kind]) throw new Error(`column: expected one of ${Object.keys(KINDS).join(", ")}, got ${kind}`)
        const wanted = chosen === undefined ? [name] : [name, chosen]
        const runs = records.filter(
          ({ cell, status }) =>
            status === "done" &&
            wanted.includes(cell.method) &&
            (chosen === undefined || wanted.includes(cell.data.name)),
        )
        const method = runs[0]?.cell.method ?? name
        if (runs.length === 0) wrong.push(`no results of ${name} for ${line}`)
        else {
          const mean = (of) => runs.reduce((sum, { result }) => sum + of(result), 0) / runs.length
          const given = cells[c + 2].replaceAll("*", "")
          const made = KINDS[kind](mean, { text: given, method, task: runs[0].cell.task })
          if (made === given) continue
          wrong.push(`${name}, ${kind}: the results have ${made}, the page ${given}`)
          cells[c + 2] = cells[c + 2].replace(given, made)
        }
      }
      lines[row] = `| ${cells.slice(1, -1).join(" | ")} |`
    }
  }
  for (const [l, line] of lines.entries()) {
    const [, source, measure, method] = VERDICT.exec(line) ?? []
    if (source === undefined) continue
    const [folder, data] = source.split("/")
    const records = read(folder)
    const made = verdictOf(data ? records.filter(({ cell }) => cell.data.name === data) : records, measure, method)
    if (made === undefined) wrong.push(`no verdict on ${method} by ${measure} in ${source}`)
    else if (lines[l + 1] !== made) {
      wrong.push(`verdict of ${source}: the results say: ${made}`)
      lines[l + 1] = made
    }
  }
  for (let l = 0; l < lines.length; l++) {
    const [, folder, model] = ROWS.exec(lines[l]) ?? []
    if (folder === undefined) continue
    let end = l + 1
    while (lines[end]?.startsWith("|")) end++
    const made = labTable(read(folder), model)
    const given = lines.splice(l + 1, end - l - 1, ...made)
    for (const row of made) if (!given.includes(row)) wrong.push(`${folder}, ${model}: the page lacks ${row}`)
  }
  const written = lines.join("\n")
  for (const section of written.split(/^## /m)) {
    const said = section.split("\n").flatMap((line) => SAYS.exec(line)?.[1] ?? [])
    const claims = said.flatMap((list) => checkClaims(list, read))
    wrong.push(...claims.flatMap(({ fault }) => fault ?? []))
    if (said.length > 0) wrong.push(...unsaidFigures(section, new Set(claims.map(({ figure }) => figure))))
    else if (/^<!-- figures /m.test(section)) wrong.push(...strayFigures(section))
  }
  return { text: written, wrong }
}

/** The sentence of a report on a method by a measure. @param {any[]} records @param {string} measure @param {string} method */
function verdictOf(records, measure, method) {
  const notes = buildReport(records, { figures: false }).parts.flatMap(({ tables }) =>
    tables.flatMap((one) => one.notes),
  )
  const found = notes.find(
    (note) => note.includes(`, ${measure}: `) && new RegExp(`: (no control beats )?${method} \\(`).test(note),
  )
  return found && `> **After correction**, ${found}`
}

/** What stands in a list of claims, each with what is wrong with it. @param {string} list @param {(folder: string) => any[]} read */
function checkClaims(list, read) {
  return list.split(/;\s*/).flatMap((part) => {
    const [, folder, model, items = ""] = /^(\S+) (\w+): (.+)$/.exec(part) ?? []
    const runs = labRuns(read(folder ?? ""), model)
    return items.split(/,\s*/).map((item) => {
      const [, kind, method, other, below, figure] = /^(\w+) (\S+)(?: − (\S+))? (< )?(\d?\.\d+)$/.exec(item) ?? []
      const digits = figure?.split(".")[1].length ?? 0
      const mean = (name) => {
        const own = runs.get(name) ?? []
        return own.reduce((sum, { result }) => sum + result[kind], 0) / own.length
      }
      const measure = runs.values().next().value?.[0].cell.task === "topk" ? "recall" : "loss"
      const value =
        kind === "p" ? labPs(runs, measure).get(method) : other ? Math.abs(mean(method) - mean(other)) : mean(method)
      const holds = below ? value < Number(figure) : value !== undefined && short(value, digits) === figure
      return holds ? { figure } : { figure, fault: `${folder} ${model}: ${item}: the results have ${value}` }
    })
  })
}

/** A section's sentences: neither tables, nor what is quoted or a comment. @param {string} section */
const sentencesOf = (section) =>
  section
    .split("\n")
    .filter((line) => !/^([|>]|<!--)/.test(line))
    .join("\n")

/** Figures of a section's sentences that its list of claims does not have. @param {string} section @param {Set<string>} claimed */
function unsaidFigures(section, claimed) {
  return [...sentencesOf(section).matchAll(/(?<![\d.])\d?\.\d{2,}/g)]
    .filter(([figure]) => !claimed.has(figure))
    .map(([figure]) => `${figure} in "${section.split("\n")[0]}" is not among what it says`)
}

/** Figures of a section's sentences that its tables and verdicts do not have. @param {string} section */
function strayFigures(section) {
  const lines = section.split("\n")
  const table = lines.filter((line) => line.startsWith("|")).map((line) => line.split("|"))
  const width = Math.max(...table.map((cells) => cells.length))
  const known = new Set()
  const figuresOf = (text) => [...(text ?? "").matchAll(/(?<![\d.])\d?\.\d{4,}/g)].map(([figure]) => figure)
  // Of a column, and of a row: a method beside another one.
  const groups = [
    ...Array.from({ length: width }, (_, c) => table.flatMap((cells) => figuresOf(cells[c]))),
    ...table.map((cells) => cells.flatMap(figuresOf)),
  ]
  for (const values of groups) {
    for (const a of values) {
      known.add(a)
      for (const b of values) {
        const digits = a.split(".")[1].length
        known.add(short(Math.abs(Number(a) - Number(b)), digits))
        known.add(short(Math.abs(Number(a) - Number(b)), 4))
      }
    }
  }
  const said = sentencesOf(section)
  const strays = (found, inTable) =>
    [...found]
      .filter(([, figure]) => !inTable(figure))
      .map(([text]) => `${text} in "${section.split("\n")[0]}" is in no table of the section`)
  const quoted = lines.filter((line) => /^[|>]/.test(line)).join("\n")
  return [
    ...strays(said.matchAll(/(?<![\d.])(\d?\.\d{4,})/g), (figure) => known.has(figure)),
    ...strays(said.matchAll(/(?<![\d.,])(\d[\d,.]*) kB/g), (figure) =>
      new RegExp(`(?<![\\d,.])(${figure}|${figure.replaceAll(",", "")}000)(?![\\d,.])`).test(quoted),
    ),
    ...strays(said.matchAll(/\bp = ((?:\d?\.\d+(?:, and |, | and )?)+)/g), (figures) =>
      figures.match(/\d?\.\d+/g).every((figure) => new RegExp(`p = ${figure}(?!\\d)`.replace(".", "\\.")).test(quoted)),
    ),
  ]
}

/** @param {string} folder */
function readFolder(folder) {
  return readResults(join(root, "docs/results", folder))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const pages = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((name) => join("docs", name))
  for (const page of ["README.md", ...pages]) {
    if (!page.endsWith(".md") || /^docs.(api|results)\b/.test(page)) continue
    const before = readFileSync(join(root, page), "utf8")
    if (!/^<!-- (figures|rows|says|verdict) /m.test(before)) continue
    const { text, wrong } = writeFigures(before, readFolder)
    for (const one of wrong) console.error(`${page}: ${one}`)
    if (!process.argv.includes("--check") && text !== before) writeFileSync(join(root, page), text)
    if (wrong.length > 0) process.exitCode = 1
  }
}
