/** Variants of lists as they are set. */

import { DessError, show } from "../errors.ts"
import { checkOptionNames } from "./check.ts"
import type { Variants } from "./types.ts"

const MOST_VARIANTS = 16

export interface ExperimentSettings {
  variants: Variants | undefined
  /** Types of events that are what it is all about. */
  conversions: readonly string[]
}

export function checkVariants(given: unknown): Variants | undefined {
  if (given === undefined) return undefined
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new DessError("INVALID_ARGUMENT", `variants: expected an object of names and settings, got ${show(given)}`)
  const names = Object.keys(given)
  if (names.length < 2 || names.length > MOST_VARIANTS)
    throw new DessError("INVALID_ARGUMENT", `variants: expected 2 to ${MOST_VARIANTS}, got ${names.length}`)
  let total = 0
  for (const [name, variant] of Object.entries(given as Variants)) {
    if (name.length === 0 || name.length > 64)
      throw new DessError("INVALID_ARGUMENT", `variant name: expected 1 to 64 characters, got ${show(name)}`)
    checkOptionNames(`variant ${show(name)}`, variant, ["share", "list", "options"])
    const { share, list = "model" } = variant
    if (!(typeof share === "number" && share > 0 && share <= 1))
      throw new DessError(
        "INVALID_ARGUMENT",
        `share of ${show(name)}: expected more than 0, at most 1, got ${show(share)}`,
      )
    if (!["model", "popular", "off"].includes(list))
      throw new DessError(
        "INVALID_ARGUMENT",
        `list of ${show(name)}: expected model, popular or off, got ${show(list)}`,
      )
    total += share
  }
  if (Math.abs(total - 1) > 1e-9)
    throw new DessError("INVALID_ARGUMENT", `variants: expected shares that add up to 1, got ${total}`)
  return given as Variants
}
