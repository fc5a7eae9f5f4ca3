/** The rows of a table by section: the method itself, the paper's baselines, the controls of method.md §8. */

import type { Setting } from "../learning/options.ts"
import type { Task } from "../types.ts"

/** "own": from a plugin. */
export type MethodKind = "own" | "dess" | "baseline" | "control"

/** The control that no run is needed for: every run reports it. */
export const MAJORITY = "majority class"

export function methodKind(method: string): MethodKind {
  if (method.startsWith("dess-")) return "dess"
  return /^(plain-|isgd|ease|uniform-|hash-|prune-|sample-|(never|always|random)-grow|majority class)/.test(method)
    ? "control"
    : "baseline"
}

/**
 * The methods every grid of this task and recipe holds besides its own. `random-grow` comes last: it waits for the run it is
 * matched with. `hash-1000` shares a thousand rows among all ids; other numbers of rows, and methods that hold given bytes, are
 * to be asked for: what fits depends on the data. So is `ease`: a tenth of the speed of isgd.
 */
export function controlsOf(task: Task, sizes: readonly number[], recipe: Setting["recipe"]): string[] {
  const bits = recipe === "paper" ? [] : task === "topk" ? ["@16", "@8"] : ["@8"]
  const plain =
    task === "topk"
      ? ["plain-popular", "plain-trending", "plain-recent-1000", "plain-knn", "plain-neighbours", "isgd"]
      : ["plain-bias"]
  return [
    "fixed-128",
    "fixed-222",
    ...plain,
    "plain-factor-4",
    "plain-factor-16",
    "never-grow",
    "always-grow",
    ...["", ...bits].flatMap((suffix) => sizes.map((size) => `uniform-${size}${suffix}`)),
    ...(recipe === "paper" ? [] : ["hash-1000"]),
    "random-grow",
  ]
}

const PAPER_ORDER = [
  "fixed-128",
  "fixed-222",
  "darts",
  "autoemb",
  "esapn",
  "dess-fre-cold",
  "dess-fre",
  "dess-cv-cold",
  "dess-cv",
]
const CONTROL_ORDER = [
  MAJORITY,
  "plain-",
  "isgd",
  "ease",
  "never-grow",
  "uniform-",
  "hash-",
  "prune-",
  "sample-",
  "random-grow",
  "always-grow",
]

/** The order of a table's rows: baselines and DESS as in the paper, then the controls. */
export function compareMethods(a: string, b: string): number {
  const [left, right] = [place(a), place(b)]
  return left - right || a.localeCompare(b, "en", { numeric: true })
}

function place(method: string): number {
  const known = PAPER_ORDER.indexOf(method.split(":")[0])
  const kind = methodKind(method)
  if (kind === "baseline") return known < 0 ? 50 : known
  if (kind === "dess") return 100 + (known < 0 ? 50 : known)
  return 200 + CONTROL_ORDER.findIndex((start) => method.startsWith(start))
}
