/** The JSON Schema of a grid's config file (`dess compare --schema` prints it); what is enforced is what is published. */

import { describeConditions, OPTION_ENTRIES, RUN_OPTIONS, type RunOption } from "../learning/options.ts"
import type { Schema } from "../learning/schema.ts"
import { DATA_OPTIONS } from "./data.ts"

/** A schema with a description. */
export type Described = Schema & { description: string }

const list = (items: Schema, description: string): Described => ({ type: "array", items, minItems: 1, description })

export const PAPER_NAMES = ["table1", "table2", "table3", "table4", "regret", "memory", "time", "ablation"] as const

/** What an option is for, where, and what it is by default. */
export function describeOption(option: RunOption): string {
  const { help, applies, requires, otherwise = option.default } = option
  const where = applies ?? requires
  const notes = [where && `with ${describeConditions(where)}`, otherwise === undefined ? "" : `default ${otherwise}`]
  const remarks = notes.filter(Boolean).join("; ")
  return remarks === "" ? help : `${help} (${remarks})`
}

/** The name of an option in a grid: `tasks` of `task`. */
export const gridName = (name: string, { grid }: RunOption) => (grid === "list" ? `${name}s` : name)

function gridSchema(option: RunOption): Described {
  const description = describeOption(option)
  return option.grid === "list" ? list(option.schema, description) : { ...option.schema, description }
}

const properties = Object.fromEntries(
  OPTION_ENTRIES.filter(([, { grid }]) => grid).map(([name, option]) => [gridName(name, option), gridSchema(option)]),
)

/** The keys of a grid that are flags of `dess compare` too. */
export const GRID_KEYS: Readonly<Record<string, Described>> = {
  ...properties,
  methods: list(
    { type: "string" },
    "names as dess run --method takes them, with options of their own: mine:least=8 (dess-cv,dess-fre)",
  ),
  seeds: {
    anyOf: [{ type: "integer", minimum: 1, maximum: 1000 }, list(RUN_OPTIONS.seed.schema, "these seeds")],
    description: "how many seeds, from 1, or which (5)",
  },
  plugin: {
    type: "string",
    description: "a module with methods of your own: export const policies = { … }, models = { … }",
    examples: ["<mine.mjs>"],
  },
  paper: {
    type: "string",
    enum: PAPER_NAMES,
    description:
      "an experiment of the paper: its methods, tasks, models, five seeds, recipe paper; other keys override its own",
  },
}

export const GRID_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "dess compare grid",
  description: "methods × tasks × models × data × seeds (× recipes × presets × protocols × orders)",
  type: "object",
  additionalProperties: false,
  properties: {
    $schema: { type: "string" },
    ...GRID_KEYS,
    data: list(
      {
        anyOf: [
          { type: "string" },
          {
            type: "object",
            additionalProperties: false,
            required: ["path"],
            properties: {
              path: { type: "string", description: '"synthetic", or a file or folder, relative to the config file' },
              name: { type: "string", description: "what the tables call it (by default the end of the path)" },
              ...DATA_OPTIONS,
            },
          },
        ],
      },
      "data sets",
    ),
    controls: { type: "boolean", description: "add the controls of every task (true)" },
  },
} as const
