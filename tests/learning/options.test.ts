/** The table of run options: everything is made of it, and what was made of it before can still be read. */

import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test, vi } from "vitest"
import { COMPARE_FLAGS, compareCommand, gridOf } from "../../src/cli/compare.ts"
import { parseFlags } from "../../src/cli/flags.ts"
import { RUN_FLAGS, runCommand } from "../../src/cli/run.ts"
import { optionsOf } from "../../src/experiments/cell-run.ts"
import { cellKey, expandGrid } from "../../src/experiments/cells.ts"
import { renderRunsCsv, renderSummaryCsv } from "../../src/experiments/csv.ts"
import { DATA_OPTIONS } from "../../src/experiments/data.ts"
import { completeGrid, type Grid } from "../../src/experiments/grid.ts"
import { readResults } from "../../src/experiments/results.ts"
import { GRID_SCHEMA } from "../../src/experiments/schema.ts"
import { Random } from "../../src/kernels/random.ts"
import {
  OPTION_ENTRIES,
  type OptionValues,
  RUN_OPTIONS,
  type RunOptions,
  settingOf,
  withDefaults,
} from "../../src/learning/options.ts"
import type { Schema } from "../../src/learning/schema.ts"

const kebab = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

async function helpOf(command: (args: string[]) => Promise<void>): Promise<string[]> {
  const log = vi.spyOn(console, "log").mockImplementation(() => {})
  try {
    await command(["--help"])
    return [...String(log.mock.calls[0][0]).matchAll(/^ {2}--([\w-]+)/gm)].map(([, flag]) => flag)
  } finally {
    log.mockRestore()
  }
}

describe("every option of the table, and nothing beside it,", () => {
  test("is in the help of dess run, once, where it has a flag", async () => {
    const flags = OPTION_ENTRIES.filter(([, { group }]) => group).map(([name]) => name)
    const own = [
      "data",
      "json",
      "out",
      "plugin",
      ...Object.keys(DATA_OPTIONS).filter((name) => !flags.includes(name as "k")),
    ]
    const all = [...flags, ...own].map(kebab).sort()
    expect((await helpOf(runCommand)).sort()).toEqual(all)
    expect(Object.keys(RUN_FLAGS).map(kebab).sort()).toEqual(all)
  })

  test("is in the help, the flags and the schema of dess compare, once, where a grid takes it", async () => {
    const keys = OPTION_ENTRIES.flatMap(([name, { grid }]) => (grid ? [grid === "list" ? `${name}s` : name] : []))
    expect(Object.keys(GRID_SCHEMA.properties).sort()).toEqual(
      [...keys, "$schema", "paper", "plugin", "data", "controls"].sort(),
    )
    const command = ["noControls", "config", "schema", "out", "jobs", "threads", "json"]
    const all = [...keys, "paper", "plugin", "data", ...Object.keys(DATA_OPTIONS), ...command].map(kebab).sort()
    expect((await helpOf(compareCommand)).sort()).toEqual(all)
    expect(Object.keys(COMPARE_FLAGS).map(kebab).sort()).toEqual(all)
  })

  test("is checked: a value of another type is refused by its name", () => {
    const wrong = Symbol("wrong")
    for (const [name, { stream }] of OPTION_ENTRIES) {
      const words = stream ? "option" : kebab(name).replaceAll("-", " ")
      expect(() => withDefaults({ [name]: wrong } as RunOptions), name).toThrow(new RegExp(`^${words}: expected`))
    }
    expect(() => withDefaults({ colour: "red" } as RunOptions)).toThrow(/^option: expected one of .*, got "colour"/)
    expect(() => parseFlags(["--colour", "red"], RUN_FLAGS)).toThrow(/Unknown option '--colour'/)
  })

  test("that distinguishes results is a column of the tables, in the former order", () => {
    const before =
      "preset,recipe,protocol,order,limit,segment,sizes,k,negatives,ranking,norm,discount,variation,price,memory_budget,bits"
    const since = "cut,every,core"
    expect(renderRunsCsv([])).toMatch(`data,task,model,method,matched,seed,${before},${since},interactions,accuracy,`)
    expect(renderSummaryCsv([])).toMatch(`data,task,model,${before},${since},method,kind,`)
  })
})

describe("a recipe", () => {
  test("brings its preset, its head and its negatives, and gives way to what is asked for", () => {
    const of = (options: RunOptions) => {
      const { recipe, preset, model, negatives } = withDefaults(options)
      return `${recipe} ${preset} ${model} ${negatives}`
    }
    expect(of({})).toBe("calibrated calibrated mf 10")
    expect(of({ recipe: "paper" })).toBe("paper paper ncf 4")
    expect(of({ recipe: "paper", ranking: "bpr", model: "mf" })).toBe("paper paper mf 10")
    expect(of({ recipe: "paper", preset: "calibrated" })).toBe("paper calibrated ncf 4")
    expect(of({ preset: "paper" })).toBe("calibrated paper mf 10")
    expect(of({ method: "esapn" })).toBe("paper paper ncf 4")
    expect(of({ method: "esapn", recipe: "calibrated" })).toBe("calibrated calibrated mf 10")
    const full = withDefaults({ recipe: "paper" })
    expect(withDefaults(full)).toEqual(full)
  })
})

/** A value that fits a schema. */
function draw(schema: Schema, random: Random): unknown {
  const pick = <T>(values: readonly T[]) => values[random.integer(values.length)]
  if (schema.enum) return pick(schema.enum)
  if (schema.anyOf) return draw(pick(schema.anyOf), random)
  if (schema.properties)
    return Object.fromEntries(Object.entries(schema.properties).map(([name, part]) => [name, draw(part, random)]))
  if (schema.type === "array") return [1, 2, 3].map((_, i) => 10 * i + 1 + random.integer(9))
  const least = schema.minimum ?? schema.exclusiveMinimum ?? 0
  const span = Math.min((schema.maximum ?? 1000) - least, 1000)
  if (schema.type === "integer") return least + random.integer(span)
  return schema.type === "number"
    ? least + span * (1 - random.integer(1000) / 1000)
    : pick(["dess-fre", "fixed-8", "esapn", "random-grow"])
}

const textOf = (value: unknown) => (typeof value === "object" ? Object.values(value ?? {}).join(",") : String(value))
const flagsOf = (options: object) => Object.entries(options).map(([name, value]) => `--${kebab(name)}=${textOf(value)}`)

test("800 random sets of options are the same as flags, as a grid of flags and as a grid's file", () => {
  let whole = 0
  for (let seed = 1; seed <= 800; seed++) {
    const random = new Random(seed, "options")
    const drawn = OPTION_ENTRIES.filter(([, { group }]) => group && random.integer(3) === 0).map(
      ([name, { schema }]) => [name, draw(schema, random)],
    )
    const options = Object.fromEntries(drawn) as Partial<OptionValues>
    expect(parseFlags(flagsOf(options), RUN_FLAGS), `seed ${seed}`).toEqual(options)

    const asked = Object.entries(options).filter(([name]) => "grid" in RUN_OPTIONS[name as keyof OptionValues])
    const { order = "time", ...run } = Object.fromEntries(asked) as Partial<OptionValues>
    let full: RunOptions
    try {
      full = withDefaults({ ...run, method: run.method ?? "dess-fre", horizon: 1000 })
    } catch {
      continue
    }
    whole++
    const lists = { method: "dess-fre", ...Object.fromEntries(asked), seed: `${run.seed ?? 1},` }
    const plural = Object.entries(lists).map(([name, value]) => [
      RUN_OPTIONS[name as keyof OptionValues & keyof typeof RUN_OPTIONS as "task"].grid === "list" ? `${name}s` : name,
      value,
    ])
    const grid = gridOf(parseFlags(flagsOf(Object.fromEntries(plural)), COMPARE_FLAGS), undefined)
    const file = JSON.parse(JSON.stringify({ ...grid, controls: false })) as Grid
    // A ranker stands in no rating task; of a grid of one method and seed comes one cell.
    const [cell, ...more] = expandGrid(completeGrid(file))
    expect(more, `seed ${seed}`).toEqual([])
    expect(withDefaults({ ...optionsOf(cell), horizon: 1000 }), `seed ${seed}`).toEqual(full)
    expect(cell.setting, `seed ${seed}`).toEqual(settingOf({ ...run, recipe: full.recipe!, order }))
  }
  expect(whole).toBeGreaterThan(50)
})

const STORED = join(import.meta.dirname, "../../docs/results")
const folders = readdirSync(STORED).filter((name) => existsSync(join(STORED, name, "results.jsonl")))

test.each(folders)("the results kept in docs/results/%s are found again by the grid that made them", (name) => {
  for (const { key, cell } of readResults(join(STORED, name))) {
    expect(cellKey(cell)).toBe(key)
    const { preset, recipe, protocol, order, limit, ...rest } = cell.setting
    const grid: Grid = {
      ...{ methods: [cell.method], tasks: [cell.task] },
      ...{ models: [cell.model], seeds: [cell.seed], recipes: [recipe], protocols: [protocol], orders: [order] },
      ...{ presets: [preset], controls: false, ...rest, ...(limit === null ? {} : { limit }) },
    }
    const [found, ...more] = expandGrid({ ...completeGrid(grid), data: [cell.data] })
    expect(more).toEqual([])
    expect(cellKey(cell.match ? { ...found, match: cell.match } : found)).toBe(key)
  }
})
