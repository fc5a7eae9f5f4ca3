/** What a paper is made of: LaTeX, PDF, Parquet, where results come from, and results made again from their config. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { openDuck } from "../../src/datasets/duck.ts"
import { svgToPdf } from "../../src/experiments/pdf.ts"
import { type DoneRecord, isDone, readResults } from "../../src/experiments/results.ts"
import { readUsers } from "../../src/experiments/user-scores.ts"
import { buildCommand, dess } from "../support/command.ts"

const home = mkdtempSync(join(tmpdir(), "dess-paper-"))
const first = join(home, "first")
const log = join(home, "log.csv")

beforeAll(async () => {
  buildCommand()
  const rows = Array.from({ length: 1500 }, (_, i) => `u${(i * 7) % 40},i${(i * i) % 53},${i}`)
  writeFileSync(log, `user,item,time\n${rows.join("\n")}\n`)
  const words = ["compare", "--data", log, "--methods", "dess-fre,fixed-16,plain-popular", "--no-controls"]
  await dess([...words, "--seeds", "2", "--segment", "100", "--out", first, "--json"])
  await dess(["report", first])
}, 120_000)
afterAll(() => rmSync(home, { recursive: true }))

/** A record without what is measured by a clock or a meter. */
function lasting({ milliseconds: _, provenance: __, result, ...rest }: DoneRecord): object {
  const { milliseconds: ___, interactionsPerSecond: ____, peakRssBytes: _____, ...figures } = result
  return { ...rest, result: figures }
}

test("dess compare --config of a folder's config.json makes its results and its report again, to the bit", async () => {
  const second = join(home, "second")
  const done = await dess(["compare", "--config", join(first, "config.json"), "--out", second, "--jobs", "1", "--json"])
  expect(JSON.parse(done.stdout)).toMatchObject({ cells: 6, computed: 6, failed: [] })
  const sorted = (folder: string) =>
    readResults(folder)
      .filter(isDone)
      .sort((a, b) => (a.key < b.key ? -1 : 1))
      .map(lasting)
  expect(sorted(second)).toEqual(sorted(first))
  await dess(["report", second])
  const measured = (name: string) => !name.includes("costs") && !/-(time|memory)\./.test(name)
  for (const folder of ["latex", "figures"])
    for (const name of readdirSync(join(first, "report", folder)).filter(measured))
      expect(
        readFileSync(join(second, "report", folder, name)).equals(readFileSync(join(first, "report", folder, name))),
        name,
      ).toBe(true)
}, 120_000)

test("every result says by which command, versions and machine it was made, and of which bytes", () => {
  for (const { provenance, machine } of readResults(first)) {
    expect(provenance?.command).toMatch(/^dess compare --data .*log\.csv --methods dess-fre,fixed-16,plain-popular/)
    expect(provenance?.versions.node).toBe(process.versions.node)
    expect(provenance?.data).toMatch(/^[0-9a-f]{64}$/)
    expect(machine).toMatch(/cores, Node v/)
  }
  expect(readFileSync(join(first, "report", "report.md"), "utf8")).toMatch(/Command: dess compare/)
})

describe("LaTeX", () => {
  test("has a booktabs table for each of the report's, whose rows have the columns it declares", () => {
    const names = readdirSync(join(first, "report", "latex"))
    expect(names.length).toBeGreaterThanOrEqual(2)
    for (const name of names) {
      const text = readFileSync(join(first, "report", "latex", name), "utf8")
      const [, columns = ""] = /\\begin\{tabular\}\{([lr]+)\}/.exec(text) ?? []
      for (const rule of ["toprule", "midrule", "bottomrule"]) expect(text).toContain(`\\${rule}`)
      const body = text.slice(text.indexOf("\\midrule"), text.indexOf("\\bottomrule"))
      const rows = body.split("\n").filter((line) => line.endsWith("\\\\"))
      expect(rows.length).toBeGreaterThan(0)
      for (const row of rows) expect(row.replaceAll("\\&", "").split("&").length, row).toBe(columns.length)
      // \textbf does not make a formula bold.
      expect(text).not.toContain("\\textbf{$")
      // Nothing that LaTeX would take for a command or refuse.
      expect(text.replace(/^%.*$/gm, "").match(/(?<!\\)[#_]|[^ -~\n]/g)).toBeNull()
    }
  })
})

describe("PDF", () => {
  test("figures are files whose table of places holds", () => {
    const names = readdirSync(join(first, "report", "figures")).filter((name) => name.endsWith(".pdf"))
    expect(names.length).toBeGreaterThan(2)
    for (const name of names) {
      const text = readFileSync(join(first, "report", "figures", name), "latin1")
      const start = Number(/startxref\n(\d+)\n%%EOF\n$/.exec(text)?.[1])
      expect(text.slice(start, start + 4)).toBe("xref")
      const places = [...text.slice(start).matchAll(/^(\d{10}) 00000 n $/gm)].map(([, place]) => Number(place))
      for (const [i, place] of places.entries()) expect(text.slice(place)).toMatch(new RegExp(`^${i + 1} 0 obj\\n`))
      expect(Number(/\/Length (\d+)/.exec(text)?.[1])).toBe(/stream\n([\s\S]*?)\nendstream/.exec(text)?.[1].length)
      expect(text).not.toMatch(/NaN|undefined|Infinity/)
    }
  })

  test("every kind of element that figures are made of is drawn", () => {
    const folder = join(first, "report", "figures")
    const kinds = readdirSync(folder)
      .filter((name) => name.endsWith(".svg"))
      .flatMap((name) =>
        [...readFileSync(join(folder, name), "utf8").matchAll(/<([a-zA-Z]+)/g)].map(([, kind]) => kind),
      )
    const drawn = ["circle", "line", "path", "rect", "text"]
    const others = ["svg", "g", "style", "title"]
    expect([...new Set(kinds)].filter((kind) => !drawn.includes(kind) && !others.includes(kind))).toEqual([])
    const circle = svgToPdf('<svg width="20" height="20"><circle cx="10" cy="5" r="4" fill="#0000ff"></circle></svg>')
    expect(circle.toString("latin1")).toMatch(/0 0 1 rg 6 15 m( [-\d.]+){24} c h f|0 0 1 rg 6 15 m .* 6 15 c h f/)
  })

  test("text, lines, arcs and colours stand where the SVG has them", () => {
    const svg = `<svg viewBox="0 0 100 50" width="100" height="50" font-size="10" fill="#333333"><g transform="translate(10,5)"><text x="20" y="10" text-anchor="end">100</text><line x1="0" x2="30" y1="20" y2="20" stroke="#ff0000" stroke-opacity="0.5"></line><path d="M4,0A4,4,0,1,1,-4,0A4,4,0,1,1,4,0" fill="#0000ff"></path></g></svg>`
    const text = svgToPdf(svg).toString("latin1")
    // Three digits of 0.556 × 10 end at 30.
    expect(text).toContain("/R 10 Tf 13.32 35 Td <313030> Tj")
    expect(text).toMatch(/1 0\.5 0\.5 RG 10 25 m 40 25 l S/)
    // A circle is four quarters, back to where it began.
    expect(text).toMatch(
      /0 0 1 rg 14 45 m( [-\d.]+){6} c( [-\d.]+){6} c( [-\d.]+){6} c [-\d.]+ [-\d.]+ [-\d.]+ [-\d.]+ 14 45 c f/,
    )
  })
})

test("users.parquet and segments.parquet hold what the records do", async () => {
  const duck = await openDuck({ memoryBytes: 2 ** 28, threads: 1, temporary: home })
  const from = (name: string) => `read_parquet('${join(first, "report", name)}')`
  try {
    const records = readResults(first).filter(isDone)
    const pieces = records.reduce((sum, { series }) => sum + series.interactions.length, 0)
    expect(await duck.number(`SELECT count(*) FROM ${from("segments.parquet")}`)).toBe(pieces)
    const [record] = records.filter(({ cell }) => cell.method === "dess-fre" && cell.seed === 1)
    const { counts, second } = readUsers(record.users!)
    const where = "WHERE method = 'dess-fre' AND seed = 1"
    expect(await duck.number(`SELECT sum(tests) FROM ${from("users.parquet")} ${where}`)).toBe(
      counts.reduce((a, b) => a + b, 0),
    )
    expect(await duck.number(`SELECT sum(second) FROM ${from("users.parquet")} ${where}`)).toBeCloseTo(
      second.reduce((a, b) => a + b, 0),
      3,
    )
  } finally {
    duck.close()
  }
})
