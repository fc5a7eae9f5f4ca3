/** Checks the parts of a request against their schemas. Bodies are taken as they are; path and query are text and converted. */

import { Readable } from "node:stream"
import type { FastifySchemaCompiler } from "fastify"
import type { TSchema } from "typebox"
import { Compile, type Validator } from "typebox/compile"
import { DessError, show } from "../errors.ts"

type Parts = { anyOf?: TSchema[]; type?: string }

/** Refuses what does not fit, with the place and what was expected there. */
export type Check = (value: unknown) => void

export function createCheck(schema: TSchema, noun: string): Check {
  const choices = (schema as Parts).anyOf ?? []
  const list = choices.find((choice) => (choice as Parts).type === "array")
  const other = choices.find((choice) => choice !== list)
  // One or many: the error names the form that was sent.
  if (choices.length === 2 && list && other) {
    const [checkList, checkOther] = [createCheck(list, noun), createCheck(other, noun)]
    return (value) => (Array.isArray(value) ? checkList : checkOther)(value)
  }
  const validator = Compile(schema)
  return (value) => {
    if (!validator.Check(value)) throw refusal(validator, value, noun)
  }
}

function refusal(validator: Validator, value: unknown, noun: string): DessError {
  // The deepest place says most.
  const errors = [...validator.Errors(value)].filter(({ message }) => message !== "schema is false")
  const depth = (path: string) => path.split("/").length
  const [first] = errors.sort((a, b) => depth(b.instancePath) - depth(a.instancePath))
  const place = first?.instancePath ?? ""
  const got = show(at(value, place))
  const extra = (first?.params as { additionalProperties?: string[] } | undefined)?.additionalProperties
  const expected = extra ? `no ${extra.map((name) => show(name)).join(", ")}` : expectation(first?.message)
  return new DessError("INVALID_DATA", `${noun}${place.slice(0, 200)}: expected ${expected}, got ${got}`)
}

function expectation(message = "what the schema says"): string {
  return message.replace(/^must (not )?(be |have )?/, (_, not) => (not ? "no " : ""))
}

/** The value at a JSON pointer. */
function at(value: unknown, pointer: string): unknown {
  let here = value
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~")
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, name)) return undefined
    here = (here as Record<string, unknown>)[name]
  }
  return here
}

const NOUNS: Record<string, string> = { body: "body", querystring: "query", params: "path", headers: "headers" }

export const compileValidator: FastifySchemaCompiler<TSchema> = ({ schema, httpPart = "" }) => {
  const check = createCheck(schema, NOUNS[httpPart] ?? httpPart)
  const convert = httpPart === "querystring" ? (value: unknown) => convertText(schema, value) : undefined
  return (given: unknown) => {
    // Lines are checked as they come.
    if (given instanceof Readable) return { value: given }
    try {
      const value = convert ? convert(given) : given
      check(value)
      return { value }
    } catch (error) {
      return { error: error as Error }
    }
  }
}

/** The texts of a query as the numbers and truths its schema asks for; a text that is none is left to be refused. */
function convertText(schema: TSchema, given: unknown): unknown {
  const { properties = {} } = schema as { properties?: Record<string, Parts> }
  const entries = Object.entries(given as Record<string, unknown>).map(([name, text]) => {
    const type = Object.hasOwn(properties, name) ? properties[name].type : undefined
    if ((type === "integer" || type === "number") && typeof text === "string" && text.trim() !== "")
      return [name, Number.isNaN(Number(text)) ? text : Number(text)]
    if (type === "boolean" && (text === "true" || text === "false")) return [name, text === "true"]
    return [name, text]
  })
  return Object.fromEntries(entries)
}
