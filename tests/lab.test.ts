/** Tables of docs come from configs in docs/lab and say what the raw figures beside them are. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { expandGrid } from "../src/experiments/cells.ts"
import { completeGrid, type Grid } from "../src/experiments/grid.ts"
import { readResults } from "../src/experiments/results.ts"
import { labRows } from "../tools/lab-table.mjs"

const DOCS = join(import.meta.dirname, "..", "docs")
const names = readdirSync(join(DOCS, "lab"))
  .filter((file) => file.endsWith(".json"))
  .map((file) => file.replace(/\.json$/, ""))
const page = readFileSync(join(DOCS, "lab", "results.md"), "utf8")

/** The folder and the head that a heading of the page speaks of. */
function sourceOf(heading: string): { folder: string; model: string } | undefined {
  const [, data, task, head] =
    /^(ML-1M|MovieTweetings|ML-latest-small), (binary|multiclass|top-k)(?:.*, (MF|distance) head)?/.exec(heading) ?? []
  if (data === undefined) return undefined
  const name = data.toLowerCase()
  if (head === undefined) return { folder: `${name}-${task.replace("-", "")}`, model: "ncf" }
  return { folder: `${name}-heads`, model: head.toLowerCase() }
}

test("every folder of raw figures has a config, and every config its folder", () => {
  expect(names.sort()).toEqual(readdirSync(join(DOCS, "results")).sort())
})

test("every config is in a table of a page; those of the first calibrated recipe are the notebook's", () => {
  const pages = [
    "lab/calibration.md",
    "lab/lists.md",
    "lab/results.md",
    "lab/calibration-notebook.md",
    "method/regret.md",
  ]
    .map((name) => readFileSync(join(DOCS, name), "utf8"))
    .join("\n")
  const heads = [...pages.matchAll(/^## (.+)$/gm)].map(([, heading]) => sourceOf(heading)?.folder)
  expect(names.filter((name) => !/^calibrated-/.test(name) && !pages.includes(name) && !heads.includes(name))).toEqual(
    [],
  )
})

describe.each(names)("docs/lab/%s.json", (name) => {
  test("asks for the runs whose figures are kept", () => {
    const home = mkdtempSync(join(tmpdir(), "dess-lab-"))
    try {
      const grid = JSON.parse(readFileSync(join(DOCS, "lab", `${name}.json`), "utf8")) as Grid
      // The data are not part of the repository: an empty folder stands for them.
      const base = join(home, "docs", "lab")
      for (const entry of grid.data ?? []) {
        const path = join(base, typeof entry === "string" ? entry : entry.path)
        mkdirSync(path, { recursive: true })
        writeFileSync(join(path, "ratings.dat"), "")
      }
      type Run = { method: string; model: string; task: string; seed: number; data: { name: string } }
      const runs = (cells: readonly Run[]) => [
        ...new Set(
          cells.map(({ method, model, task, seed, data }) => `${method} ${model} ${task} ${seed} ${data.name}`),
        ),
      ]
      const asked = runs(expandGrid(completeGrid(grid, base)))
      const kept = runs(readResults(join(DOCS, "results", name)).map(({ cell }) => cell))
      expect(kept.filter((run) => !asked.includes(run))).toEqual([])
    } finally {
      rmSync(home, { recursive: true })
    }
  })
})

describe("docs/lab/results.md", () => {
  const parts = page.split(/^## /m).slice(1)
  const known = parts.flatMap((part) => {
    const source = sourceOf(part)
    return source ? [{ heading: part.split("\n")[0], part, ...source }] : []
  })

  test("has tables of every folder of the paper's recipe", () => {
    const own = names.filter((name) => /^(ml-1m|movietweetings|ml-latest-small)-/.test(name))
    expect([...new Set(known.map(({ folder }) => folder))].sort()).toEqual(own)
  })

  test.each(known)("$heading: every row is what the raw figures are", ({ part, folder, model }) => {
    const rows = labRows(readResults(join(DOCS, "results", folder)), model)
    const printed = part.split("\n").filter((line) => /^\| [a-z]/.test(line) && !line.startsWith("| method"))
    let checked = 0
    for (const line of printed) {
      const method = line.split(" | ")[0].slice(2).split(" ")[0]
      const row = rows.get(method)
      if (row === undefined) continue
      checked++
      expect(line.startsWith(row.slice(0, -2)), `${line}\n${row}`).toBe(true)
    }
    expect(checked).toBeGreaterThan(15)
  })
})
