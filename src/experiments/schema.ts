/** The JSON Schema of a grid's config file (`dess compare --schema` prints it); what is enforced is what is published. */

const list = (items: object, description: string) => ({ type: "array", items, minItems: 1, description })
const choice = (values: readonly string[], description: string) => list({ type: "string", enum: values }, description)
const whole = (minimum: number, description: string) => ({ type: "integer", minimum, description })

const DATA_ENTRY = {
  type: "object",
  additionalProperties: false,
  required: ["path"],
  properties: {
    path: {
      type: "string",
      description: '"synthetic", or a file or folder, relative to the config file',
    },
    name: { type: "string", description: "what the tables call it (by default the end of the path)" },
    columns: { type: "string", description: 'names or places of columns, e.g. "user=who,item=what"' },
    ratingScale: { type: "string", description: 'scale of the ratings, e.g. "0-10"' },
    likeThreshold: { type: "number", description: "a rating above it is liked" },
    interactions: whole(1, "of the synthetic stream"),
    users: whole(1, "of the synthetic stream"),
    items: whole(1, "of the synthetic stream"),
  },
}

export const PAPER_NAMES = ["table1", "table2", "table3", "table4", "regret", "memory", "time", "ablation"] as const

export const GRID_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "dess compare grid",
  description: "methods × tasks × models × data × seeds (× presets × recipes × protocols × orders)",
  type: "object",
  additionalProperties: false,
  properties: {
    $schema: { type: "string" },
    paper: {
      type: "string",
      enum: PAPER_NAMES,
      description: "an experiment of the paper; other keys override its own",
    },
    methods: list({ type: "string" }, "names as dess run --method takes them"),
    tasks: choice(["binary", "multiclass", "topk"], "what is predicted"),
    models: choice(["ncf", "mf", "distance"], "heads"),
    data: list({ anyOf: [{ type: "string" }, DATA_ENTRY] }, "data sets"),
    seeds: {
      anyOf: [{ ...whole(1, "this many seeds, from 1"), maximum: 1000 }, list(whole(0, "a seed"), "these seeds")],
      description: "how many seeds, or which",
    },
    presets: choice(["paper", "calibrated"], "reward and exploration of the policy"),
    recipes: choice(["paper", "calibrated"], "how the model learns"),
    protocols: choice(["split", "prequential"], "protocols"),
    orders: choice(["time", "shuffled"], "orders of the stream"),
    sizes: list(whole(1, "a size"), "sizes of the ladder"),
    segment: whole(1, "interactions per segment"),
    limit: whole(1, "only the first so many interactions"),
    k: whole(1, "length of the ranked list (top-k task)"),
    negatives: whole(1, "negatives per positive (top-k task; 10, or 4 with the paper recipe and bce)"),
    ranking: { type: "string", enum: ["bce", "bpr"], description: "what the top-k task optimises (bce)" },
    norm: { type: "string", enum: ["running", "batch"], description: "statistics a test normalises with (running)" },
    discount: {
      anyOf: [
        { type: "number", minimum: 0, description: "the bandit's γ instead of the preset's" },
        { type: "string", enum: ["auto"], description: "Corollary 1's, for the variation given" },
      ],
      description: "the bandit's γ, or auto",
    },
    variation: { type: "number", minimum: 0, description: "B of Corollary 1, with discount auto" },
    price: {
      type: "number",
      minimum: 0,
      description: "loss a number must save per 500 events to be held (dess methods, calibrated recipe and preset)",
    },
    memoryBudget: whole(1, "most bytes the tables may hold (dess methods, calibrated recipe and preset)"),
    controls: { type: "boolean", description: "add the controls of every task (true)" },
  },
} as const
