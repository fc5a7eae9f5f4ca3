/** The part of JSON Schema that options use: the type a schema describes, and the check of a value. */

import { DessError, show } from "../errors.ts"

export interface Schema {
  type?: "array" | "boolean" | "integer" | "number" | "object" | "string"
  description?: string
  enum?: readonly string[]
  minimum?: number
  exclusiveMinimum?: number
  maximum?: number
  items?: Schema
  minItems?: number
  properties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  additionalProperties?: false
  anyOf?: readonly Schema[]
  /** A flag also takes a text such as 256MB, or 90s, and turns it into bytes or milliseconds. */
  format?: "bytes" | "duration"
  examples?: readonly string[]
}

/** The values a schema describes. */
export type ValueOf<S> = S extends { enum: readonly (infer V)[] }
  ? V
  : S extends { anyOf: readonly (infer Alternative)[] }
    ? ValueOf<Alternative>
    : S extends { type: "array"; items: infer Item }
      ? readonly ValueOf<Item>[]
      : S extends { type: "object"; properties: infer P }
        ? { -readonly [K in keyof P]: ValueOf<P[K]> }
        : S extends { type: "integer" | "number" }
          ? number
          : S extends { type: "boolean" }
            ? boolean
            : string

/** Throws where the value departs from the schema, naming the place, what was expected and what came (`shown`, if it came as a text). */
export function checkSchema(value: unknown, s: Schema, place: string, shown: unknown = value): void {
  if (s.anyOf) {
    const fitting = s.anyOf.find((one) => hasType(value, one.type) && (one.enum?.includes(value as string) ?? true))
    if (fitting === undefined) throw refusal(place, describeSchema(s), shown)
    checkSchema(value, fitting, place, shown)
    return
  }
  if (!hasType(value, s.type) || isOutside(value, s)) throw refusal(place, describeSchema(s), shown)
  if (Array.isArray(value)) checkItems(value, s, place)
  else if (typeof value === "object" && value !== null) checkKeys(value as Record<string, unknown>, s, place)
}

function isOutside(value: unknown, s: Schema): boolean {
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY, exclusiveMinimum } = s
  if (s.enum) return !s.enum.includes(value as string)
  return (
    typeof value === "number" &&
    (value < minimum || (exclusiveMinimum !== undefined && value <= exclusiveMinimum) || value > maximum)
  )
}

function checkItems(values: readonly unknown[], schema: Schema, place: string): void {
  if (values.length < (schema.minItems ?? 0)) throw refusal(place, describeSchema(schema), values)
  for (const [i, value] of values.entries()) checkSchema(value, schema.items ?? {}, `${place}[${i}]`)
}

function checkKeys(value: Record<string, unknown>, schema: Schema, place: string): void {
  const { properties = {}, required = [] } = schema
  const missing = required.find((key) => !Object.hasOwn(value, key))
  if (missing !== undefined) throw new DessError("INVALID_ARGUMENT", `${place}: expected the key ${missing}, got none`)
  for (const [key, inner] of Object.entries(value)) {
    if (!Object.hasOwn(properties, key))
      throw refusal(`${place} key`, `one of ${Object.keys(properties).join(", ")}`, key)
    checkSchema(inner, properties[key], `${place} ${key}`)
  }
}

function hasType(value: unknown, type: Schema["type"]): boolean {
  if (type === undefined) return true
  if (type === "array") return Array.isArray(value)
  if (type === "integer") return Number.isSafeInteger(value)
  if (type === "number") return Number.isFinite(value)
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value)
  return typeof value === type
}

const NOUNS = {
  array: "a list",
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  object: "an object",
  string: "a text",
}

/** What a schema asks for, in words. */
function describeSchema(s: Schema): string {
  if (s.anyOf) return s.anyOf.map(describeSchema).join(" or ")
  if (s.enum) return s.enum.join(" or ")
  const noun = s.type === undefined ? "a value" : NOUNS[s.type]
  const from = s.minimum !== undefined ? ` from ${s.minimum}` : ""
  const above = s.exclusiveMinimum !== undefined ? ` above ${s.exclusiveMinimum}` : ""
  const most = s.maximum !== undefined ? ` ${from || above ? "" : "up "}to ${s.maximum}` : ""
  const least = s.minItems !== undefined ? ` of at least ${s.minItems}` : ""
  return `${noun}${from}${above}${most}${least}`
}

function refusal(place: string, expected: string, got: unknown): DessError {
  return new DessError("INVALID_ARGUMENT", `${place}: expected ${expected}, got ${show(got)}`)
}
