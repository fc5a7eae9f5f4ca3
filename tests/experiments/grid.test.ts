/** Grids: what is refused, what is filled in, and which cells come out. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, test } from "vitest"
import { cellKey, expandGrid } from "../../src/experiments/cells.ts"
import { completeGrid, type Grid } from "../../src/experiments/grid.ts"
import { PAPER_GRIDS } from "../../src/experiments/paper-grids.ts"
import { GRID_SCHEMA, PAPER_NAMES } from "../../src/experiments/schema.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-grid-"))
afterAll(() => rmSync(FOLDER, { recursive: true }))

const cellsOf = (grid: Grid) => expandGrid(completeGrid(grid, FOLDER))
const methodsOf = (grid: Grid) => cellsOf(grid).map(({ method }) => method)

describe("the cells of a grid", () => {
  test("are methods × tasks × models × data × seeds × presets × recipes × protocols × orders, each with its own key", () => {
    mkdirSync(join(FOLDER, "films"), { recursive: true })
    const cells = cellsOf({
      methods: ["dess-fre", "fixed-8"],
      tasks: ["binary", "multiclass", "topk"],
      models: ["ncf", "mf"],
      data: ["films", { path: "films", name: "again" }],
      seeds: 3,
      presets: ["paper", "calibrated"],
      recipes: ["paper"],
      protocols: ["split", "prequential"],
      orders: ["time", "shuffled"],
      controls: false,
    })
    expect(cells).toHaveLength(2 * 3 * 2 * 2 * 3 * 2 * 1 * 2 * 2)
    expect(new Set(cells.map(cellKey)).size).toBe(cells.length)
    expect(cells.map(({ seed }) => seed).slice(0, 24)).toEqual(Array(24).fill(1))
  })

  test("hold the controls of the task, random-grow last and matched with a warm DESS method in any order", () => {
    const sizes = [2, 4, 8]
    const rating = methodsOf({ methods: ["dess-cv"], seeds: 1, sizes })
    expect(rating).toEqual([
      ...["dess-cv", "fixed-128", "fixed-222", "plain-bias", "plain-factor-4", "plain-factor-16"],
      ...["never-grow", "always-grow", "uniform-2", "uniform-4", "uniform-8"],
      ...["uniform-2@8", "uniform-4@8", "uniform-8@8", "hash-1000", "random-grow"],
    ])
    const paper = methodsOf({ methods: ["dess-cv", "uniform-2@8", "hash-9"], recipes: ["paper"], seeds: 1, sizes })
    expect(paper.filter((method) => /@|hash/.test(method))).toEqual([])
    const topk = methodsOf({ methods: ["dess-cv"], tasks: ["topk"], seeds: 1, sizes })
    expect(topk).toEqual(expect.arrayContaining(["plain-popular", "plain-trending", "plain-knn", "plain-factor-4"]))
    expect(topk).toContain("isgd")
    expect(topk, "takes long: to be asked for").not.toContain("ease")
    expect(topk).toEqual(expect.arrayContaining(["uniform-8@16", "uniform-8@8", "hash-1000", "plain-recent-1000"]))
    expect(topk).not.toContain("plain-bias")
    const matchOf = (...methods: string[]) =>
      cellsOf({ methods: ["fixed-8", ...methods], seeds: 1 }).flatMap(({ method, match }) =>
        match ? [method, ...match] : [],
      )
    expect(matchOf("dess-fre", "dess-cv")).toEqual(["random-grow", "dess-cv", "dess-fre"])
    expect(matchOf("dess-cv-cold", "dess-fre-cold", "dess-fre")).toEqual([
      ...["random-grow", "dess-fre", "dess-cv-cold", "dess-fre-cold"],
    ])
    expect(matchOf("dess-fre-cold", "dess-cv-cold")).toEqual(["random-grow", "dess-fre-cold", "dess-cv-cold"])
  })

  test("have the recipe their models and methods need, and the head of their recipe", () => {
    const of = (grid: Grid) => {
      const { recipes, models } = completeGrid(grid, FOLDER)
      return [recipes, models]
    }
    expect(of({})).toEqual([["calibrated"], ["mf"]])
    expect(of({ recipes: ["paper"] })).toEqual([["paper"], ["ncf"]])
    expect(of({ methods: ["dess-cv", "esapn"] })).toEqual([["paper"], ["ncf"]])
    expect(of({ models: ["ncf", "mf"] })).toEqual([["paper"], ["ncf", "mf"]])
    expect(of({ recipes: ["paper", "calibrated"] })).toEqual([["paper", "calibrated"], ["mf"]])
  })

  test("have the preset of their recipe, unless presets are asked for", () => {
    const of = (grid: Grid) => {
      const cells = cellsOf({ methods: ["dess-fre"], seeds: 1, controls: false, ...grid })
      return cells.map(({ setting }) => `${setting.recipe} ${setting.preset}`)
    }
    expect(of({})).toEqual(["calibrated calibrated"])
    expect(of({ models: ["ncf"] })).toEqual(["paper paper"])
    expect(of({ recipes: ["paper", "calibrated"] })).toEqual(["paper paper", "calibrated calibrated"])
    expect(of({ recipes: ["paper"], presets: ["calibrated"] })).toEqual(["paper calibrated"])
    expect(of({ recipes: ["paper", "calibrated"], presets: ["paper", "calibrated"] })).toHaveLength(4)
  })

  test("leave out what cannot be: a ranker in a rating task, a matched control with nothing to match", () => {
    const both = cellsOf({ methods: ["plain-knn"], tasks: ["binary", "topk"], seeds: 1, controls: false })
    expect(both.map(({ task, method }) => [task, method])).toEqual([["topk", "plain-knn"]])
    expect(methodsOf({ methods: ["fixed-8"], seeds: 1 })).not.toContain("random-grow")
    expect(methodsOf({ methods: ["random-grow"], seeds: 1, controls: false })).toEqual(["random-grow"])
  })

  test("keep their key wherever the data lies, and lose it when the data or an option changes", () => {
    for (const place of ["here", "there"]) {
      mkdirSync(join(FOLDER, place, "films"), { recursive: true })
      writeFileSync(join(FOLDER, place, "films", "ratings.csv"), "12345")
    }
    const keyOf = (grid: Grid) => cellKey(cellsOf({ methods: ["dess-fre"], seeds: 1, ...grid })[0])
    const key = keyOf({ data: ["here/films"] })
    expect(keyOf({ data: ["there/films"] })).toBe(key)
    expect(keyOf({ data: ["there/films/ratings.csv"], segment: 500, k: 10 })).toBe(key)
    for (const change of [{ limit: 10 }, { segment: 100 }, { sizes: [2] }, { seeds: [2] }] as const)
      expect(keyOf({ data: ["here/films"], ...change })).not.toBe(key)
    writeFileSync(join(FOLDER, "here", "films", "ratings.csv"), "123456")
    expect(keyOf({ data: ["here/films"] })).not.toBe(key)
  })
})

test("options that are the default leave a cell's key as it is, others are part of it", () => {
  const one = { methods: ["dess-fre"], tasks: ["topk"], seeds: 1, controls: false } as const
  const keyOf = (more: Grid) => cellsOf({ ...one, ...more }).map(cellKey)
  expect(keyOf({ ranking: "bce", norm: "running", negatives: 10 })).toEqual(keyOf({}))
  const paper = { recipes: ["paper"] } as const
  expect(keyOf({ ...paper, negatives: 4 })).toEqual(keyOf(paper))
  const others = [{ ranking: "bpr", negatives: 4 }, { discount: 0.9 }, { discount: "auto", variation: 2 }] as const
  expect(new Set([{}, ...others].flatMap(keyOf)).size).toBe(4)
  expect(cellsOf({ ...one, ranking: "bpr" })[0].setting).toMatchObject({ ranking: "bpr", negatives: 10 })
})

describe("a grid is refused", () => {
  const refused: [unknown, RegExp][] = [
    [[], /^grid: expected an object, got \[\]/],
    [{ method: ["dess-cv"] }, /^grid key: expected one of \$schema, methods, .*, got "method"/],
    [{ tasks: ["rating"] }, /^grid tasks\[0\]: expected binary or multiclass or topk, got "rating"/],
    [{ tasks: "binary" }, /^grid tasks: expected a list of at least 1, got "binary"/],
    [{ methods: [] }, /^grid methods: expected a list of at least 1, got \[\]/],
    [{ seeds: 0 }, /^grid seeds: expected a whole number from 1 to 1000, got 0/],
    [{ seeds: 1e9 }, /^grid seeds: expected a whole number from 1 to 1000, got 1000000000/],
    [{ sizes: [4, 2] }, /^sizes: expected strictly increasing whole numbers/],
    [{ seeds: "5" }, /^grid seeds: expected a whole number from 1 to 1000 or a list of at least 1, got "5"/],
    [{ seeds: [1.5] }, /^grid seeds\[0\]: expected a whole number, got 1.5/],
    [{ controls: "yes" }, /^grid controls: expected true or false, got "yes"/],
    [{ paper: "table5" }, /^grid paper: expected table1 or .*, got "table5"/],
    [{ data: [{ name: "x" }] }, /^grid data\[0\]: expected the key path, got none/],
    [{ data: [{ path: "synthetic", rows: 5 }] }, /^grid data\[0\] key: expected one of path, .*, got "rows"/],
    [{ data: ["nothing-here"] }, /^grid data: expected "synthetic", a file or a folder, got nothing at .*nothing-here/],
    [{ data: ["synthetic", "synthetic"] }, /^grid data: expected different names, got "synthetic" twice/],
    [{ data: [{ path: ".", interactions: 5 }] }, /^data interactions: expected with the synthetic stream only/],
    [{ data: [{ path: "synthetic", ratingScale: "ten" }] }, /^rating scale: expected two numbers/],
    [{ data: [{ path: "synthetic", ratingScale: "0-10" }] }, /^data rating scale: expected with a file or folder/],
    [{ data: [{ path: ".", columns: "who" }] }, /^columns: expected user=<name>,.*, got "who"/],
    [{ ranking: "hinge" }, /^grid ranking: expected bce or bpr, got "hinge"/],
    [{ discount: "some" }, /^grid discount: expected a number above 0 to 1 or auto, got "some"/],
    [{ discount: 1.5 }, /^grid discount: expected a number above 0 to 1, got 1.5/],
    [{ discount: "auto" }, /^discount auto: expected with a variation/],
    [{ variation: 2 }, /^variation: expected with discount auto only/],
    [
      { norm: "batch", recipes: ["paper"], tasks: ["binary", "topk"] },
      /^norm: expected with recipe paper, task binary or multiclass only, got task topk/,
    ],
    [{ price: -1 }, /^grid price: expected/],
    [{ memoryBudget: 0.5 }, /^grid memoryBudget: expected/],
    [
      { recipes: ["paper"], price: 1e-4 },
      /^price: expected with method dess-\* or never-grow or always-grow or random-grow, recipe calibrated, .* only, got recipe paper/,
    ],
    [{ segment: 1 }, /^segment: expected at least 2 with the split protocol/],
    [{ methods: ["dess-magic"] }, /^method: expected one of .*, got "dess-magic"/],
    [{ methods: ["uniform-5"] }, /^method: expected uniform-<s> .*, got "uniform-5"/],
  ]
  test.each(refused)("%j", (grid, message) => {
    expect(() => completeGrid(grid as Grid, FOLDER)).toThrow(message)
  })
})

describe("the paper's experiments", () => {
  test("are all there, with five seeds and the paper's preset and recipe, and give way to what is asked for", () => {
    expect(Object.keys(PAPER_GRIDS).sort()).toEqual([...PAPER_NAMES].sort())
    for (const paper of PAPER_NAMES) {
      const grid = completeGrid({ paper, limit: 100 }, FOLDER)
      expect(grid).toMatchObject({ seeds: [1, 2, 3, 4, 5], recipes: ["paper"], limit: 100 })
      for (const { setting } of expandGrid(grid)) expect(setting).toMatchObject({ recipe: "paper", preset: "paper" })
      expect(grid.tasks).toEqual(PAPER_GRIDS[paper].tasks)
    }
    expect(PAPER_GRIDS.table1).toMatchObject({ tasks: ["topk"], models: ["ncf"] })
    expect(PAPER_GRIDS.table1.methods).toHaveLength(9)
    expect(PAPER_GRIDS.table3.methods).not.toContain("dess-cv")
    expect(PAPER_GRIDS.table4).toMatchObject({ tasks: ["binary"], models: ["mf", "distance"] })
    const small = completeGrid({ paper: "ablation", methods: ["dess-fre"], seeds: 2, tasks: ["binary"] }, FOLDER)
    expect(small).toMatchObject({ seeds: [1, 2], tasks: ["binary"], recipes: ["paper"] })
  })
})

test("the published schema names every key a grid may have, and is JSON", () => {
  const schema = JSON.parse(JSON.stringify(GRID_SCHEMA)) as typeof GRID_SCHEMA
  expect(schema.additionalProperties).toBe(false)
  const full = completeGrid({ limit: 1 }, FOLDER)
  expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(Object.keys(full)))
})
