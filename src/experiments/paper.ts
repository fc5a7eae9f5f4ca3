/** What the paper reports, to stand beside our figures (tables 1–4 of the paper). Never used to compute anything. */

import type { Setting } from "../learning/options.ts"
import type { HeadKind, Task } from "../types.ts"
import type { Measure } from "./summary.ts"

const DATA = ["ml-20m", "ml-latest", "amazon-books", "amazon-cds"] as const
export type PaperData = (typeof DATA)[number]

/** Table 1: Recall@10 and NDCG@10 per data set, in the order of DATA. */
const TOPK: Record<string, readonly number[]> = {
  "fixed-128": [0.0774, 0.0785, 0.0779, 0.0783, 0.0568, 0.0404, 0.0759, 0.0402],
  "fixed-222": [0.0769, 0.0779, 0.0785, 0.0791, 0.0573, 0.0416, 0.0742, 0.0397],
  darts: [0.0786, 0.0791, 0.0784, 0.0795, 0.0597, 0.0435, 0.0778, 0.0432],
  autoemb: [0.0771, 0.0782, 0.0783, 0.0792, 0.0571, 0.0412, 0.078, 0.0429],
  esapn: [0.0831, 0.0842, 0.0825, 0.0837, 0.0632, 0.0475, 0.0816, 0.0468],
  "dess-fre-cold": [0.0858, 0.0867, 0.0866, 0.0869, 0.0658, 0.0494, 0.0843, 0.0487],
  "dess-fre": [0.0866, 0.0876, 0.0874, 0.0879, 0.0672, 0.0507, 0.0852, 0.0493],
  "dess-cv-cold": [0.0875, 0.0888, 0.0879, 0.0887],
  "dess-cv": [0.0898, 0.0891, 0.0884, 0.0895],
}

/** Tables 2 and 3: accuracy in percent and loss, binary then multiclass, per data set in the order of DATA. */
const RATING: Record<string, readonly number[]> = {
  "fixed-128": [
    70.93, 0.1904, 47.88, 1.187, 70.98, 0.19, 48.28, 1.1804, 80.75, 0.1459, 54.31, 1.1225, 80.28, 0.1545, 57.17, 1.1638,
  ],
  "fixed-222": [
    71.09, 0.1896, 48.19, 1.1799, 71.13, 0.1892, 48.62, 1.1727, 80.87, 0.1433, 54.85, 1.1026, 80.09, 0.154, 57.24,
    1.1536,
  ],
  darts: [
    71.07, 0.1897, 48.24, 1.1781, 71.12, 0.1892, 48.73, 1.1702, 81.02, 0.1415, 55.22, 1.0895, 80.5, 0.1498, 57.74,
    1.1305,
  ],
  autoemb: [
    70.54, 0.1917, 47.99, 1.182, 71.0, 0.1892, 48.61, 1.1718, 80.6, 0.1456, 54.77, 1.091, 80.48, 0.1504, 57.89, 1.1232,
  ],
  esapn: [
    71.62, 0.1861, 49.24, 1.1539, 71.4, 0.187, 49.52, 1.151, 81.51, 0.1357, 56.84, 1.0437, 81.44, 0.1399, 59.5, 1.0616,
  ],
  "dess-fre-cold": [
    71.89, 0.1843, 49.55, 1.1463, 71.77, 0.1849, 49.89, 1.1435, 81.62, 0.1342, 57.14, 1.0372, 81.82, 0.1367, 60.02,
    1.0453,
  ],
  "dess-fre": [
    71.93, 0.1837, 49.67, 1.1438, 71.98, 0.1838, 50.05, 1.1383, 81.76, 0.1336, 57.35, 1.0329, 81.93, 0.1361, 60.15,
    1.0491,
  ],
  "dess-cv-cold": [72.29, 0.1823, 49.98, 1.1358, 72.35, 0.1819, 50.24, 1.1327],
  "dess-cv": [73.28, 0.1768, 51.19, 1.1103, 73.07, 0.1779, 50.73, 1.1216],
}

/** Table 4: binary accuracy in percent, MF on ml-20m and ml-latest, then distance. */
const BASE_MODELS: Record<string, readonly number[]> = {
  "fixed-128": [50.03, 50.08, 54.87, 55.36],
  "fixed-222": [50.07, 50.04, 52.02, 52.59],
  darts: [70.74, 70.92, 70.17, 70.17],
  autoemb: [69.77, 70.32, 70.3, 70.44],
  esapn: [70.21, 71.86, 71.55, 71.03],
  "dess-fre": [72.75, 72.61, 71.46, 71.84],
  "dess-cv": [73.84, 73.25, 73.02, 72.49],
}

/** Section 4.2.3: embedding memory, fixed-128 = 1. The paper gives it relative to dess-fre on ml-20m, the other way round on ml-latest. */
const MEMORY: Partial<Record<PaperData, Record<string, number>>> = {
  "ml-20m": { "fixed-128": 1, "dess-fre": 1 / 1.93, darts: 3.35 / 1.93, autoemb: 3.45 / 1.93 },
  "ml-latest": {
    "fixed-128": 1,
    "fixed-222": 0.502 / 0.289,
    darts: 0.502 / 0.289,
    autoemb: 0.502 / 0.282,
    "dess-fre": 0.502,
  },
}

export interface PaperPlace {
  data: string
  task: Task
  model: HeadKind
  setting: Pick<Setting, "k" | "recipe">
}

/** The length of the paper's ranked lists. */
const PAPER_K = 10

/**
 * The paper's figure for a method there, as a share (not in percent), or undefined. Beside the calibrated recipe's one
 * model stand the figures of the paper's own.
 */
export function paperFigure(place: PaperPlace, method: string, measure: Measure): number | undefined {
  const data = indexOfData(place.data)
  if (data < 0) return undefined
  const model = place.setting.recipe === "calibrated" ? "ncf" : place.model
  if (place.task === "topk") {
    if (model !== "ncf" || place.setting.k !== PAPER_K || (measure !== "recall" && measure !== "ndcg")) return undefined
    return own(TOPK, method)?.[2 * data + (measure === "recall" ? 0 : 1)]
  }
  if (model !== "ncf") {
    if (place.task !== "binary" || measure !== "accuracy" || data > 1) return undefined
    return percent(own(BASE_MODELS, method)?.[(model === "mf" ? 0 : 2) + data])
  }
  const value = own(RATING, method)?.[4 * data + (place.task === "binary" ? 0 : 2) + (measure === "accuracy" ? 0 : 1)]
  return measure === "accuracy" ? percent(value) : value
}

/** The paper's embedding memory there, fixed-128 = 1. */
export function paperMemory(data: string, method: string): number | undefined {
  const known = MEMORY[DATA[indexOfData(data)]]
  return known && own(known, method)
}

function indexOfData(name: string): number {
  return (DATA as readonly string[]).indexOf(name.toLowerCase())
}

function own<T>(table: Record<string, T>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined
}

const percent = (value: number | undefined) => (value === undefined ? undefined : value / 100)
