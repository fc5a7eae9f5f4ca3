/** What was run, in words: everything needed to run it again. */

import { SETTINGS, wordsOf } from "../learning/options.ts"
import { PRESETS } from "../policies/presets.ts"
import { RENT } from "../policies/rent.ts"
import { MAJORITY } from "./controls.ts"
import { type Block, formatSetting } from "./summary.ts"

export interface Fact {
  name: string
  value: string
}

/** The configuration of blocks that share a setting. */
export function configurationOf(blocks: readonly Block[]): Fact[] {
  const { setting } = blocks[0]
  const entries = blocks.flatMap((block) => block.entries.filter(({ label }) => label !== MAJORITY))
  const runs = entries.flatMap((entry) => entry.runs)
  const distinct = <T>(values: readonly T[]) => [...new Set(values)].join(", ")
  const { name: _, ...rest } = PRESETS[setting.preset]
  const rented = setting.preset === "calibrated" && setting.recipe === "calibrated"
  const preset = rented ? RENT : rest
  const details = Object.entries(preset).map(([key, value]) => `${key} ${value}`)
  return [
    { name: "data", value: distinct(blocks.map(({ data }) => data)) },
    { name: "tasks", value: distinct(blocks.map(({ task }) => task)) },
    { name: "models", value: distinct(blocks.map(({ model }) => model)) },
    { name: "methods", value: distinct(entries.map(({ label }) => label)) },
    { name: "seeds", value: distinct(runs.map(({ cell }) => cell.seed).sort((a, b) => a - b)) },
    ...SETTINGS.flatMap(([name, { unit }]) => {
      const value = setting[name]
      if (value === undefined) return []
      const note = name === "preset" ? ` (${details.join(", ")})` : unit === undefined ? "" : ` ${unit}`
      return { name: wordsOf(name), value: value === null ? "none" : `${formatSetting(value, ", ")}${note}` }
    }),
  ]
}
