/** Reads the values of flags. */

import { parseBytes } from "../engine/options.ts"
import { DessError, show } from "../errors.ts"

export function readNumber(flag: string, text: string): number {
  const value = Number(text)
  if (text.trim() === "" || !Number.isFinite(value))
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected a number, got ${show(text)}`)
  return value
}

export function readWhole(flag: string, text: string, least = 0): number {
  const value = readNumber(flag, text)
  if (!Number.isSafeInteger(value) || value < least)
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected a whole number from ${least}, got ${show(text)}`)
  return value
}

/** Bytes: a number, or a text such as 256KB. */
export function readBytes(flag: string, text: string): number {
  return parseBytes(`--${flag}`, text)
}

/** The bandit's γ, or "auto". */
export function readDiscount(text: string): number | "auto" {
  return text === "auto" ? text : readNumber("discount", text)
}

/** "a,b,c" as a list; a comma at the end makes a list of one. */
export function readList(flag: string, text: string): string[] {
  const parts = text.replace(/,$/, "").split(",")
  if (parts.some((part) => part.trim() === ""))
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected values with commas between them, got ${show(text)}`)
  return parts.map((part) => part.trim())
}
