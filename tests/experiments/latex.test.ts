/** LaTeX tables whatever they name: read strictly, and set by pdfLaTeX where it is installed. */

import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { renderLatex } from "../../src/experiments/latex.ts"
import { buildReport } from "../../src/experiments/report.ts"
import { type CellRecord, readResults } from "../../src/experiments/results.ts"
import { makeRecords } from "../support/experiments.ts"

/** Every letter that LaTeX takes for its own, marks at the start of a row, and writing of other kinds. */
const AWKWARD = [
  "a_b%c&d$e#f{g}~h^i\\j",
  "[1]",
  "*",
  "<x|y>",
  "\"q\" 'r' `s` -- ?` !`",
  "tab\tand\r\nlines",
  "Łódź, Đà Nẵng, São Paulo, Þór, Straße",
  "电影",
  "книги",
  "−1 … → ½ µ ✓ 😀",
]

/** What a table may be made of; anything else with a backslash is a fault. */
const COMMANDS =
  "begin end caption label smallskip centering resizebox ifdim width linewidth else fi toprule midrule bottomrule cmidrule multicolumn textbf boldmath pm dagger to dots textbackslash textasciitilde textasciicircum".split(
    " ",
  )

/** What is wrong with a table, read as pdfLaTeX would read it. */
function faultsOf(text: string): string[] {
  const faults: string[] = []
  const say = (condition: boolean, fault: string) => {
    if (!condition) faults.push(fault)
  }
  const read = text.replace(/(?<!\\)%.*$/gm, "")
  for (const [, name] of read.matchAll(/\\([a-z]+)/gi)) say(COMMANDS.includes(name), `\\${name}`)
  for (const [sign] of read.matchAll(/\\[^a-z\s]/gi)) say(/\\[\\&%$#_{}]/.test(sign), sign)
  const plain = read.replace(/\\[\\&%$#_{}]/g, (sign) => (sign === "\\\\" ? "\\\\" : " "))
  say(!/[#_~]/.test(plain), "a sign of LaTeX's own as text")
  say(!/[^ -~\nÀ-ÖØ-öø-ÿ]|[ÐÞðþ]/.test(read), "a letter that pdfLaTeX does not have")
  say(!/\\\\\s*[[*]/.test(read), "a row that begins with an option of \\\\")
  say(!/\n\s*\n/.test(text.trim()), "an empty line, which ends a paragraph")
  say((plain.match(/\$/g)?.length ?? 0) % 2 === 0, "a formula that does not end")
  let depth = 0
  for (const [brace] of plain.matchAll(/[{}]/g)) {
    depth += brace === "{" ? 1 : -1
    say(depth >= 0, "a brace too many")
  }
  say(depth === 0, "a brace too few")
  const outside = plain.replace(/\$[^$]*\$/g, "")
  say(!/\^/.test(outside), "^ outside a formula")
  const columns = /\\begin\{tabular\}\{([lr]+)\}/.exec(read)?.[1].length ?? 0
  const table = plain.slice(plain.indexOf("\\toprule"), plain.indexOf("\\bottomrule"))
  const rows = table.split("\n").filter((line) => line.endsWith("\\\\"))
  say(rows.length > 1, "no rows")
  for (const row of rows) {
    const spanned = [...row.matchAll(/\\multicolumn\{(\d+)\}/g)].reduce((sum, [, count]) => sum + Number(count) - 1, 0)
    say(row.split("&").length + spanned === columns, `not ${columns} columns: ${row}`)
  }
  return faults
}

/** The tables of all kept results and of awkward names, by a name of their own. */
function allTables(): Map<string, string> {
  const folder = join(import.meta.dirname, "../../docs/results")
  const sources: [string, CellRecord[]][] = readdirSync(folder).map((name) => [name, readResults(join(folder, name))])
  const named = AWKWARD.flatMap((name) => [
    ...makeRecords({ method: `dess-fre:${name}`, data: name }, [0.6, 0.61, 0.63]),
    ...makeRecords({ method: name, data: name }, [0.5, 0.52, 0.51]),
    ...makeRecords({ method: "plain-popular", data: name, task: "topk" }, [0.5, 0.52, 0.51]),
    ...makeRecords({ method: "dess-fre", data: name, task: "topk" }, [0.6, 0.6, 0.6]),
  ])
  sources.push(["awkward", named])
  return new Map(
    sources.flatMap(([source, records]) =>
      Object.entries(renderLatex(buildReport(records, { figures: false }))).map(
        ([file, text]) => [`${source}-${file}`, text] as const,
      ),
    ),
  )
}

test("every table, of kept results and of awkward names, is one that pdfLaTeX sets", () => {
  const tables = allTables()
  // Data sets of one name in ASCII letters share no file.
  expect([...tables.keys()].filter((name) => name.startsWith("awkward")).length).toBeGreaterThan(4 * AWKWARD.length)
  for (const [name, text] of tables) expect(faultsOf(text), name).toEqual([])

  if (spawnSync("pdflatex", ["--version"]).status !== 0) {
    console.warn("pdflatex is not installed: tables were read, but not set by LaTeX itself")
    return
  }
  const folder = mkdtempSync(join(tmpdir(), "dess-latex-"))
  try {
    for (const [name, text] of tables) writeFileSync(join(folder, name), text)
    const inputs = [...tables.keys()].map((name) => `\\input{${name}}\\clearpage`)
    const lines = ["\\documentclass{article}", "\\usepackage{booktabs,graphicx}", "\\begin{document}", ...inputs]
    writeFileSync(join(folder, "all.tex"), [...lines, "\\end{document}", ""].join("\n"))
    const words = ["-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    const { status, stdout } = spawnSync("pdflatex", words, { cwd: folder, encoding: "latin1" })
    expect(status === 0 ? "" : stdout.slice(-2000)).toBe("")
    const log = readFileSync(join(folder, "all.log"), "latin1")
    expect(log.match(/^(!|Overfull|Missing character).*$/gm)).toBeNull()
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 120_000)
