/** Names of methods (method.md §8) and what they mean. */

import { DessError, show } from "../errors.ts"
import { TRENDING_DECAY } from "../models/controls/popular.ts"
import type { Bits } from "../models/row-packing.ts"

/** A policy moves ids up the ladder. */
export interface SearchMethod {
  family: "search"
  policy:
    | { name: "dess"; context: "fre" | "cv" }
    | { name: "never" | "always" | "random" | "esapn" }
    /** One from outside. */
    | { name: "own" }
    /** Controls that hold given bytes of rows. */
    | { name: "prune" | "sample"; bytes: number }
  initial: "warm" | "cold"
}

export type Method =
  | SearchMethod
  /** Every id held at one size of the ladder. */
  | { family: "uniform"; size: number; bits?: Bits }
  /** All sizes at once, mixed. */
  | { family: "soft"; method: "darts" | "autoemb" }
  /** One size, no ladder. */
  | { family: "fixed"; size: number; bits?: Bits }
  | { family: "plain-bias" }
  /** Rankers of their own: counts that decay, item–item neighbours or weights, incremental factors. */
  | { family: "ranker"; name: "popular"; decay: number }
  | { family: "ranker"; name: "recent"; pairs: number }
  | { family: "ranker"; name: "knn" | "neighbours" }
  | { family: "ranker"; name: "isgd"; width: number }
  | { family: "ranker"; name: "ease"; items: number }
  | { family: "plain-factor"; width: number }
  /** Rows that ids share by two hashes, this many a side. */
  | { family: "hash"; rows: number; bits?: Bits }

export const METHOD_NAMES =
  "dess-cv, dess-fre, dess-cv-cold, dess-fre-cold, esapn, darts, autoemb, fixed-<n>[@<bits>], uniform-<s>[@<bits>], hash-<rows>[@<bits>], never-grow, always-grow, random-grow, prune-<kB>, sample-<kB>, plain-bias, plain-factor-<k>, plain-popular, plain-trending, plain-recent-<n>, plain-knn, plain-neighbours, isgd, isgd-<k>, ease, ease-<n>"

/** Those whose state can be saved, which live use needs. */
export const SAVED_METHOD_NAMES = METHOD_NAMES.split(", ")
  .filter((name) => !/^(darts|autoemb|hash-|plain-|isgd|ease)/.test(name))
  .join(", ")

const NAMED: Record<string, Method> = {
  "dess-fre": { family: "search", policy: { name: "dess", context: "fre" }, initial: "warm" },
  "dess-cv": { family: "search", policy: { name: "dess", context: "cv" }, initial: "warm" },
  "dess-fre-cold": { family: "search", policy: { name: "dess", context: "fre" }, initial: "cold" },
  "dess-cv-cold": { family: "search", policy: { name: "dess", context: "cv" }, initial: "cold" },
  "never-grow": { family: "search", policy: { name: "never" }, initial: "warm" },
  "always-grow": { family: "search", policy: { name: "always" }, initial: "warm" },
  "random-grow": { family: "search", policy: { name: "random" }, initial: "warm" },
  esapn: { family: "search", policy: { name: "esapn" }, initial: "warm" },
  darts: { family: "soft", method: "darts" },
  autoemb: { family: "soft", method: "autoemb" },
  "plain-bias": { family: "plain-bias" },
  "plain-popular": { family: "ranker", name: "popular", decay: 1 },
  "plain-trending": { family: "ranker", name: "popular", decay: TRENDING_DECAY },
  "plain-knn": { family: "ranker", name: "knn" },
  "plain-neighbours": { family: "ranker", name: "neighbours" },
  isgd: { family: "ranker", name: "isgd", width: 10 },
  ease: { family: "ranker", name: "ease", items: 1000 },
}

/** Whether a method is one of the calibrated recipe alone: it has rows of fewer bits, shared ones, or sets sizes by itself. */
export function isCalibrated(name: string): boolean {
  return name.includes("@") || /^(hash|prune|sample)-/.test(name)
}

/** Reads a method's name. */
export function parseMethod(name: string, sizes: readonly number[]): Method {
  if (Object.hasOwn(NAMED, name)) return NAMED[name]
  const budgeted = /^(prune|sample)-([1-9]\d{0,8})$/.exec(name)
  if (budgeted) {
    const policy = { name: budgeted[1] as "prune" | "sample", bytes: 1000 * Number(budgeted[2]) }
    return { family: "search", policy, initial: "warm" }
  }
  const numbered =
    /^(fixed|uniform|hash|(?:plain-factor|plain-recent|isgd|ease)(?=-\d+$))-(\d{1,5})(?:@(8|16|32))?$/.exec(name)
  const size = numbered ? Number(numbered[2]) : 0
  const bits = numbered?.[3] ? { bits: Number(numbered[3]) as Bits } : {}
  if (numbered?.[1] === "fixed" && size > 0) return { family: "fixed", size, ...bits }
  if (numbered?.[1] === "hash" && size > 0) return { family: "hash", rows: size, ...bits }
  if (numbered?.[1] === "plain-recent" && size > 0) return { family: "ranker", name: "recent", pairs: size }
  if (numbered?.[1] === "isgd" && size > 0 && size <= 4096) return { family: "ranker", name: "isgd", width: size }
  if (numbered?.[1] === "ease" && size > 0 && size <= 4096) return { family: "ranker", name: "ease", items: size }
  if (numbered?.[1] === "plain-factor" && size > 0) return { family: "plain-factor", width: size }
  if (numbered?.[1] === "uniform") {
    if (sizes.includes(size)) return { family: "uniform", size, ...bits }
    throw new DessError(
      "INVALID_ARGUMENT",
      `method: expected uniform-<s> with s one of the sizes ${sizes.join(", ")}, got ${show(name)}`,
    )
  }
  throw new DessError("INVALID_ARGUMENT", `method: expected one of ${METHOD_NAMES}, got ${show(name)}`)
}
