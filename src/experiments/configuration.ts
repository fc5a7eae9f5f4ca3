/** What was run, in words: everything somebody needs to run it again. */

import { PRESETS } from "../search/presets.ts"
import { RENT } from "../search/rent.ts"
import { MAJORITY } from "./controls.ts"
import type { Block } from "./summary.ts"

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
  const { name: _, rent, ...rest } = PRESETS[setting.preset]
  const rented = setting.preset === "calibrated" && setting.recipe === "calibrated"
  const preset = rented ? { rent, ...RENT } : rest
  const { ranking, norm, discount, variation, price, memoryBudget } = setting
  const given = Object.entries({ ranking, norm, discount, variation, price, "memory budget": memoryBudget })
  const details = Object.entries(preset).map(([key, value]) => `${key} ${value}`)
  return [
    { name: "data", value: distinct(blocks.map(({ data }) => data)) },
    { name: "tasks", value: distinct(blocks.map(({ task }) => task)) },
    { name: "models", value: distinct(blocks.map(({ model }) => model)) },
    { name: "methods", value: distinct(entries.map(({ label }) => label)) },
    { name: "seeds", value: distinct(runs.map(({ cell }) => cell.seed).sort((a, b) => a - b)) },
    { name: "preset", value: `${setting.preset} (${details.join(", ")})` },
    { name: "recipe", value: setting.recipe },
    { name: "protocol", value: setting.protocol },
    { name: "order", value: setting.order },
    { name: "segment", value: `${setting.segment} interactions` },
    { name: "sizes", value: setting.sizes.join(", ") },
    { name: "ranked list", value: `${setting.k} items, ${setting.negatives} negatives per positive` },
    ...given.flatMap(([name, value]) => (value === undefined ? [] : [{ name, value: String(value) }])),
    {
      name: "limit",
      value: setting.limit === null ? "none" : `first ${setting.limit.toLocaleString("en")} interactions`,
    },
  ]
}
