/** Checks of options, shared by the files of this folder. */

import { DessError, show } from "../errors.ts"

/** Refuses anything but a whole number of at least `least`. */
export function checkWhole(name: string, value: unknown, least: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number
  throw new DessError("INVALID_ARGUMENT", `${name}: expected a whole number, ${least} or more, got ${show(value)}`)
}

/** Refuses a seed that is not a whole number. */
export function checkSeed(value: unknown): number {
  if (Number.isSafeInteger(value)) return value as number
  throw new DessError("INVALID_ARGUMENT", `seed: expected a whole number, got ${show(value)}`)
}

/** Refuses anything but a number in [low, high]. */
export function checkRange(name: string, value: unknown, [low, high]: readonly [number, number]): number {
  if (typeof value === "number" && value >= low && value <= high) return value
  throw new DessError("INVALID_ARGUMENT", `${name}: expected a number from ${low} to ${high}, got ${show(value)}`)
}
