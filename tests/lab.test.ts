/** Tables of docs come from configs in docs/lab and say what the raw figures beside them are. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { expandGrid } from "../src/experiments/cells.ts"
import { completeGrid, type Grid } from "../src/experiments/grid.ts"
import { readResults } from "../src/experiments/results.ts"

const DOCS = join(import.meta.dirname, "..", "docs")
const names = readdirSync(join(DOCS, "lab"))
  .filter((file) => file.endsWith(".json"))
  .map((file) => file.replace(/\.json$/, ""))
const page = readFileSync(join(DOCS, "lab", "results.md"), "utf8")

test("every folder of raw figures has a config, and every config its folder", () => {
  expect(names.sort()).toEqual(readdirSync(join(DOCS, "results")).sort())
})

test("every config is in a table of a page", () => {
  const pages = [
    "lab/calibration.md",
    "lab/lists.md",
    "lab/results.md",
    "lab/calibration-notebook.md",
    "method/regret.md",
  ]
    .map((name) => readFileSync(join(DOCS, name), "utf8"))
    .join("\n")
  expect(names.filter((name) => !pages.includes(name))).toEqual([])
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
      // Nothing in these is drawn: one seed says it all.
      const drawn = asked.filter(
        (run) => !/^plain-(popular|trending|recent-\d+|knn|neighbours) .* ([2-9]) \S+$/.test(run),
      )
      expect(drawn.filter((run) => !kept.includes(run))).toEqual([])
    } finally {
      rmSync(home, { recursive: true })
    }
  })
})

test("the runs of a folder are of one learning, so that a table compares methods and not builds", () => {
  const learnings = names.map((name): [string, string[]] => [
    name,
    // Results from before it was kept lack it.
    [
      ...new Set(
        readResults(join(DOCS, "results", name)).flatMap(({ provenance }) => provenance?.versions.learning ?? []),
      ),
    ],
  ])
  expect(learnings.filter(([, found]) => found.length > 1)).toEqual([])
})

test("docs/lab/results.md has tables of every folder of the paper's recipe", () => {
  const own = names.filter((name) => /^(ml-1m|movietweetings|ml-latest-small)-/.test(name))
  expect(new Set([...page.matchAll(/^<!-- rows (\S+) /gm)].map(([, folder]) => folder))).toEqual(new Set(own))
})
