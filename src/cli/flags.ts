/** Flags and their help, made of schemas; and the values of flags. */

import { type ParseArgsConfig, parseArgs } from "node:util"
import { parseBytes, parseDuration } from "../engine/options.ts"
import { DessError, show } from "../errors.ts"
import { type Described, describeOption } from "../experiments/schema.ts"
import { type OptionName, RUN_OPTIONS, type RunOption } from "../learning/options.ts"
import { checkSchema, type Schema, type ValueOf } from "../learning/schema.ts"

/** A flag that is `repeated` is given once per value; its values are not cut at commas. */
type Flag = Described & { repeated?: true }

type Values<F> = { -readonly [K in keyof F]?: ValueOf<F[K]> } & { help?: boolean }

/** Reads the flags named, `--like-threshold` for `likeThreshold`; others and values that do not fit are refused. */
export function parseFlags<const F extends Readonly<Record<string, Flag>>>(args: string[], flags: F): Values<F> {
  return parseArguments(args, flags, false).values
}

/** The same for a command that also takes arguments without a flag. */
export function parseArguments<const F extends Readonly<Record<string, Flag>>>(
  args: string[],
  flags: F,
  allowPositionals = true,
): { values: Values<F>; positionals: string[] } {
  const options: NonNullable<ParseArgsConfig["options"]> = { help: { type: "boolean", short: "h" } }
  for (const [name, { type, repeated = false }] of Object.entries(flags))
    options[flagOf(name)] = { type: type === "boolean" ? type : "string", multiple: repeated }
  const { values, positionals } = parseArgs({ args, options, allowPositionals, strict: true })
  const read = Object.entries({ ...flags, help: { type: "boolean" } as const }).flatMap(([name, schema]) => {
    const value = values[flagOf(name)]
    return value === undefined
      ? []
      : [[name, typeof value === "string" ? readFlag(flagOf(name), schema, value) : value]]
  })
  return { values: Object.fromEntries(read) as Values<F>, positionals }
}

export const flagOf = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

function readFlag(flag: string, schema: Schema, text: string): unknown {
  const { type, anyOf, items = {}, properties, format } = schema
  if (anyOf) {
    const fits = (one: Schema) => one.enum?.includes(text) || (one.type === "array") === text.includes(",")
    return readFlag(flag, anyOf.find((one) => one.enum?.includes(text)) ?? anyOf.find(fits) ?? anyOf[0], text)
  }
  if (type === "array") return readList(flag, text).map((part) => readFlag(flag, items, part))
  if (type === "object" && properties) return readParts(flag, properties, text)
  if (format === "bytes") return parseBytes(`--${flag}`, text)
  if (format === "duration") return parseDuration(`--${flag}`, text)
  const value = type === "string" ? text : text.trim() === "" ? Number.NaN : Number(text)
  checkSchema(value, schema, `--${flag}`, text)
  return value
}

/** One number for all, or one for each. */
function readParts(flag: string, properties: Readonly<Record<string, Schema>>, text: string): Record<string, unknown> {
  const names = Object.keys(properties)
  const parts = readList(flag, text)
  if (parts.length > 1 && parts.length !== names.length)
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected one number or ${names.length}, got ${show(text)}`)
  return Object.fromEntries(names.map((name, i) => [name, readFlag(flag, properties[name], parts[i] ?? parts[0])]))
}

/** Options of a run as flags. */
export function runFlags<N extends OptionName>(
  names: readonly N[],
  describe: (option: RunOption) => string = describeOption,
): { [K in N]: (typeof RUN_OPTIONS)[K]["schema"] & { description: string } } {
  const flags = names.map((name) => [name, { ...RUN_OPTIONS[name].schema, description: describe(RUN_OPTIONS[name]) }])
  return Object.fromEntries(flags)
}

const COLUMN = 35
const WIDTH = 120

/** The help of flags under their headings. */
export function describeFlags(sections: Readonly<Record<string, Readonly<Record<string, Flag>>>>): string {
  return Object.entries(sections)
    .map(([heading, flags]) => [heading, ...Object.entries(flags).map(describeFlag)].join("\n"))
    .join("\n\n")
}

function describeFlag([name, schema]: [string, Flag]): string {
  const head = `  --${flagOf(name)} ${valueText(schema)}`.trimEnd()
  const lines = head.length < COLUMN - 1 ? [head.padEnd(COLUMN)] : [head, " ".repeat(COLUMN)]
  for (const word of schema.description.split(" ")) {
    const last = lines.length - 1
    if (lines[last].length + word.length > WIDTH) lines.push(`${" ".repeat(COLUMN)}${word} `)
    else lines[last] += `${word} `
  }
  return lines.map((line) => line.trimEnd()).join("\n")
}

/** The value shown after a flag in the help. */
function valueText({ type, enum: values, anyOf, items = {}, examples, format, properties }: Schema): string {
  if (examples) return examples[0]
  if (values) return values.join("|")
  if (anyOf) return anyOf.map(valueText).join("|")
  if (properties) return `<x> or <${Object.keys(properties).join(",")}>`
  if (type === "array") return items.enum ? items.enum.join(",") : "<a,b,…>"
  if (format === "bytes") return "<bytes|1MB>"
  if (format === "duration") return "<time>"
  return { boolean: "", integer: "<n>", number: "<x>", string: "<text>", object: "" }[type ?? "string"]
}

/** The one file a command takes. */
export function onlyFile(command: string, positionals: readonly string[]): string {
  if (positionals.length === 1) return positionals[0]
  const got = show(positionals.join(" "))
  throw new DessError("INVALID_ARGUMENT", `file: expected one, got ${got} (dess ${command} --help)`)
}

/** "a,b,c" as a list; a comma at the end makes a list of one. */
export function readList(flag: string, text: string): string[] {
  const parts = text.replace(/,$/, "").split(",")
  if (parts.some((part) => part.trim() === ""))
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected values with commas between them, got ${show(text)}`)
  return parts.map((part) => part.trim())
}
