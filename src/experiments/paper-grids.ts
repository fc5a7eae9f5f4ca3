/** The paper's experiments as grids (`--paper`). The user names the data set; other keys override these. */

import type { Grid } from "./grid.ts"
import type { PAPER_NAMES } from "./schema.ts"

export type PaperName = (typeof PAPER_NAMES)[number]

const SEARCHED = ["darts", "autoemb", "esapn"]
const FIXED = ["fixed-128", "fixed-222"]
const WARM = ["dess-cv", "dess-fre"]
const COLD_AND_WARM = [...WARM, "dess-cv-cold", "dess-fre-cold"]
const RATING_TASKS = ["binary", "multiclass"] as const

/** Five trials with different seeds, by the paper's own recipe. */
const COMMON = { models: ["ncf"], seeds: 5, recipes: ["paper"] } as const satisfies Grid

export const PAPER_GRIDS: Record<PaperName, Grid> = {
  /** Top-k on all four data sets. */
  table1: { ...COMMON, methods: [...FIXED, ...SEARCHED, ...COLD_AND_WARM], tasks: ["topk"] },
  /** Rating prediction on ml-20m and ml-latest. */
  table2: { ...COMMON, methods: [...FIXED, ...SEARCHED, ...COLD_AND_WARM], tasks: RATING_TASKS },
  /** Rating prediction on the Amazon data, which has no item features. */
  table3: { ...COMMON, methods: [...FIXED, ...SEARCHED, "dess-fre", "dess-fre-cold"], tasks: RATING_TASKS },
  /** Other base models. */
  table4: { ...COMMON, methods: [...FIXED, ...SEARCHED, ...WARM], tasks: ["binary"], models: ["mf", "distance"] },
  /** Regret of the hard methods. */
  regret: { ...COMMON, methods: ["esapn", ...WARM], tasks: RATING_TASKS },
  /** Embedding parameters. */
  memory: { ...COMMON, methods: [...FIXED, ...SEARCHED, ...WARM], tasks: RATING_TASKS },
  /** Time of training and inference; run one cell at a time. */
  time: { ...COMMON, methods: [...SEARCHED, ...WARM], tasks: RATING_TASKS },
  /** With and without warm initialisation. */
  ablation: { ...COMMON, methods: COLD_AND_WARM, tasks: ["topk", ...RATING_TASKS] },
}
