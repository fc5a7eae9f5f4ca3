/** Checks a value against the part of JSON Schema that schema.ts uses. */

import { DessError, show } from "../errors.ts"

interface Schema {
  type?: string
  enum?: readonly string[]
  minimum?: number
  maximum?: number
  items?: object
  minItems?: number
  properties?: Record<string, object>
  required?: readonly string[]
  anyOf?: readonly object[]
}

/** Throws where the value departs from the schema, naming the place, what was expected and what came. */
export function checkSchema(value: unknown, schema: object, place: string): void {
  const s: Schema = schema
  if (s.anyOf) {
    const fitting = s.anyOf.find((option) => hasType(value, (option as Schema).type))
    if (fitting === undefined) throw refusal(place, s.anyOf.map(describe).join(" or "), value)
    checkSchema(value, fitting, place)
    return
  }
  const wrongValue =
    (s.enum && !s.enum.includes(value as string)) ||
    (s.minimum !== undefined && (value as number) < s.minimum) ||
    (s.maximum !== undefined && (value as number) > s.maximum)
  if (!hasType(value, s.type) || wrongValue) throw refusal(place, describe(s), value)
  if (Array.isArray(value)) checkItems(value, s, place)
  else if (typeof value === "object" && value !== null) checkKeys(value as Record<string, unknown>, s, place)
}

function checkItems(values: readonly unknown[], schema: Schema, place: string): void {
  if (values.length < (schema.minItems ?? 0)) throw refusal(place, describe(schema), values)
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

function hasType(value: unknown, type: string | undefined): boolean {
  if (type === undefined) return true
  if (type === "array") return Array.isArray(value)
  if (type === "integer") return Number.isSafeInteger(value)
  if (type === "number") return Number.isFinite(value)
  if (type === "object") return typeof value === "object" && value !== null && !Array.isArray(value)
  return typeof value === type
}

const NOUNS: Record<string, string> = {
  array: "a list",
  integer: "a whole number",
  number: "a number",
  object: "an object",
  string: "a text",
  boolean: "true or false",
}

function describe(schema: Schema): string {
  if (schema.enum) return `one of ${schema.enum.join(", ")}`
  const noun = NOUNS[schema.type ?? ""] ?? "a value"
  const most = schema.maximum === undefined ? "" : ` to ${schema.maximum}`
  if (schema.minimum !== undefined) return `${noun} from ${schema.minimum}${most}`
  return schema.minItems === undefined ? noun : `${noun} of at least ${schema.minItems}`
}

function refusal(place: string, expected: string, got: unknown): DessError {
  return new DessError("INVALID_ARGUMENT", `${place}: expected ${expected}, got ${show(got)}`)
}
