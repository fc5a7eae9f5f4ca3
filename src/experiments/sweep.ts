/**
 * A search over the options of methods without looking ahead: every candidate is run on the first part of the stream with one
 * seed; the best of each method is run along the whole of it with all seeds and measured on the rest alone.
 */

import { DessError, show } from "../errors.ts"
import { settingOf, withDefaults } from "../learning/options.ts"
import { type CompareOptions, compare } from "./compare.ts"
import { findData, openEntry } from "./data.ts"
import { type Grid, openGrid, settingOptions } from "./grid.ts"
import { runOptionsOf } from "./method-text.ts"
import { type DoneRecord, isDone } from "./results.ts"
import { mean, standardDeviation } from "./statistics.ts"
import { isBetter, MEASURES, type Measure } from "./summary.ts"

/** Values to try, by option. */
export type Space = Readonly<Record<string, readonly string[]>>

export interface SweepOptions extends Omit<CompareOptions, "out"> {
  /** The folder: <out>/validation and <out>/report are results of dess compare. */
  out: string
  /** Share of the stream that is for choosing (0.3). */
  validation?: number
}

export interface Tuned {
  method: string
  /** Candidates tried, and the one chosen, with its measure in validation. */
  budget: number
  /** Options of the search that the method does not have. */
  foreign: string[]
  chosen: string
  validation: number
  /** On the rest of the stream, which nothing was chosen by. */
  report: { mean: number; deviation: number; seeds: number } | undefined
}

export interface Sweep {
  measure: Measure
  /** Interactions for choosing, and of the whole stream. */
  cut: number
  interactions: number
  tuned: Tuned[]
}

/** Tunes every method of the grid on its one data set and task. */
export async function sweep(grid: Grid, space: Space, options: SweepOptions): Promise<Sweep> {
  const { validation = 0.3, out, ...work } = options
  if (!(validation > 0 && validation < 1))
    throw new DessError("INVALID_ARGUMENT", `validation: expected a share between 0 and 1, got ${show(validation)}`)
  const full = await openGrid(grid, options.base)
  const [data, ...more] = full.data
  const [task, ...others] = full.tasks
  if (more.length > 0 || others.length > 0)
    throw new DessError("INVALID_ARGUMENT", "sweep: expected one data set and one task, got several")
  const [measure] = MEASURES[task]
  const { sizes } = settingOf(settingOptions(full)[0])
  const candidates = new Map(
    full.methods.map((method) => {
      const found = candidatesOf(method, space, (text) => {
        withDefaults({ ...runOptionsOf(text, sizes, full.own), task, horizon: 1 })
      })
      return [method, found]
    }),
  )
  for (const name of Object.keys(space)) {
    const reasons = [...candidates.values()].map(({ foreign }) => foreign.get(name))
    if (reasons.every((reason) => reason !== undefined))
      throw new DessError(
        "INVALID_ARGUMENT",
        `vary: expected an option of some method, got ${show(name)}: ${reasons[0]}`,
      )
  }
  const stream = await openEntry(findData(data, "."), { seed: full.seeds[0], order: "time", limit: grid.limit })
  const interactions = Math.min(stream.interactions ?? 0, grid.limit ?? Number.POSITIVE_INFINITY)
  const cut = Math.floor(validation * interactions)
  if (cut < 2) throw new DessError("INVALID_DATA", `validation: expected interactions to choose by, got ${cut}`)
  const base = { ...grid, tasks: [task], controls: false }
  const tried = await compare(
    { ...base, methods: [...candidates.values()].flatMap(({ texts }) => texts), seeds: [full.seeds[0]], limit: cut },
    { ...work, out: `${out}/validation` },
  )
  const measured = (text: string) =>
    tried.records.filter(isDone).find(({ cell }) => cell.method === text)?.result[measure] ?? undefined
  const chosen = [...candidates].flatMap(([method, { texts, foreign }]) => {
    const best = texts.reduce<{ text: string; value: number } | undefined>((top, text) => {
      const value = measured(text)
      return value === undefined || (top && !isBetter(measure, value, top.value)) ? top : { text, value }
    }, undefined)
    return best ? [{ method, budget: texts.length, foreign: [...foreign.keys()], best }] : []
  })
  const final = await compare(
    { ...base, methods: chosen.map(({ best }) => best.text) },
    { ...work, out: `${out}/report` },
  )
  const done = final.records.filter(isDone)
  const tuned = chosen.map(({ method, budget, foreign, best }): Tuned => {
    const values = done
      .filter(({ cell }) => cell.method === best.text)
      .flatMap((record) => restOf(record, measure, cut) ?? [])
    const report =
      values.length === 0
        ? undefined
        : { mean: mean(values), deviation: standardDeviation(values), seeds: values.length }
    return { method, budget, foreign, chosen: best.text, validation: best.value, report }
  })
  return { measure, cut, interactions, tuned }
}

export interface Candidates {
  texts: string[]
  /** Options that the method does not have, by why it refused them. */
  foreign: Map<string, string>
}

/**
 * A method with every combination of the values of its options. An option it takes no value of is not its own, and leaves
 * it as it is; a value it refuses of an option it has is an error.
 */
export function candidatesOf(method: string, space: Space, check: (text: string) => void): Candidates {
  let texts = [method]
  const foreign = new Map<string, string>()
  for (const [name, values] of Object.entries(space)) {
    const refused = values.flatMap((value) => refusal(() => check(`${method}:${name}=${value}`)) ?? [])
    if (refused.length === values.length) foreign.set(name, refused[0])
    else if (refused.length > 0) throw new DessError("INVALID_ARGUMENT", `${method}: ${refused[0]}`)
    else texts = texts.flatMap((text) => values.map((value) => `${text}:${name}=${value}`))
  }
  return { texts, foreign }
}

function refusal(check: () => void): string | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if (error instanceof DessError && error.code === "INVALID_ARGUMENT") return error.message
    throw error
  }
}

/** The measure over the pieces that begin after the cut. */
export function restOf({ series }: DoneRecord, measure: Measure, cut: number): number | undefined {
  const values = series[measure]
  let [sum, weights] = [0, 0]
  for (const [i] of series.interactions.entries()) {
    const begin = i === 0 ? 0 : series.interactions[i - 1]
    const value = values?.[i]
    const weight = series.weights?.[i] ?? 0
    if (begin < cut || value === null || value === undefined) continue
    sum += weight * value
    weights += weight
  }
  return weights === 0 ? undefined : sum / weights
}
