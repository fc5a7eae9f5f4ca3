/**
 * The name of a method in a grid, with options of its own: `dess-fre:price=0.001`, `mine:least=8`. A method that gives ids
 * sizes may stand before a model from outside: `never-grow+my-model`.
 */

import { DessError, show } from "../errors.ts"
import { OPTION_ENTRIES, RUN_OPTIONS, type RunOptions } from "../learning/options.ts"
import { checkSchema, type Schema } from "../learning/schema.ts"
import { parseMethod } from "../policies/methods.ts"
import type { OwnOptions } from "../policies/own.ts"
import type { Plugin } from "./plugin.ts"

export interface MethodText {
  /** Without options. */
  name: string
  /** What decides on sizes, and the model from outside. */
  method: string
  model?: string
  options: Readonly<Record<string, string>>
}

/** Takes the text apart; nothing is known of plugins here. */
export function splitMethod(text: string): MethodText {
  const [name, ...parts] = text.split(":")
  const options: Record<string, string> = {}
  for (const part of parts) {
    const [, key = "", value = ""] = /^(\w+)=(.+)$/.exec(part) ?? []
    if (key === "" || Object.hasOwn(options, key))
      throw new DessError(
        "INVALID_ARGUMENT",
        `method ${show(text)}: expected :<option>=<value>, each once, got ${show(part)}`,
      )
    options[key] = value
  }
  const cut = name.indexOf("+")
  return cut < 0
    ? { name, method: name, options }
    : { name, method: name.slice(0, cut), model: name.slice(cut + 1), options }
}

/** Whether a method comes, wholly or in part, from a plugin. */
export function isOwn(text: string, plugin: Plugin | undefined): boolean {
  const { method, model } = splitMethod(text)
  return (
    plugin !== undefined && [method, model].some((name) => name !== undefined && entryOf(plugin, name) !== undefined)
  )
}

function entryOf({ policies, models }: Plugin, name: string) {
  if (Object.hasOwn(policies, name)) return policies[name]
  return Object.hasOwn(models, name) ? models[name] : undefined
}

/** Run options of dess that a method's name may give. */
const METHOD_OPTIONS = OPTION_ENTRIES.filter(
  ([name, { grid, setting, group }]) =>
    grid === "value" && setting && (group === "Method" || group === "Advanced") && !["k", "variation"].includes(name),
).map(([name]) => name)

/** The options of a run that the text asks for; refuses names and options that nobody has. */
export function runOptionsOf(text: string, sizes: readonly number[], plugin: Plugin | undefined): RunOptions {
  const { method, model, options } = splitMethod(text)
  const given = model ?? method
  const ownModel = plugin && Object.hasOwn(plugin.models, given) ? plugin.models[given] : undefined
  if (model !== undefined && !ownModel)
    throw new DessError(
      "INVALID_ARGUMENT",
      `method ${show(text)}: expected a model of a plugin behind the plus sign, got ${show(model)}${plugin ? "" : "; name the plugin with --plugin <file>"}`,
    )
  const ownPolicy = plugin && Object.hasOwn(plugin.policies, method) ? plugin.policies[method] : undefined
  const defaults = { ...ownPolicy?.options, ...ownModel?.options }
  const builtIn = ownPolicy || (ownModel && model === undefined) ? undefined : method
  if (builtIn !== undefined) checkName(builtIn, sizes, plugin)
  const forDess: Record<string, unknown> = {}
  const forOwn: Record<string, OwnOptions[string]> = { ...defaults }
  for (const [key, value] of Object.entries(options)) {
    if (Object.hasOwn(defaults, key)) forOwn[key] = readOwn(text, { key, value, usual: defaults[key] })
    else if (METHOD_OPTIONS.some((name) => name === key))
      forDess[key] = readOption(RUN_OPTIONS[key as keyof typeof RUN_OPTIONS].schema, value, `method ${text} ${key}`)
    else {
      const known = [...Object.keys(defaults), ...METHOD_OPTIONS]
      throw new DessError(
        "INVALID_ARGUMENT",
        `method ${show(text)}: expected an option of ${known.join(", ")}, got ${show(key)}`,
      )
    }
  }
  return {
    ...(builtIn === undefined ? {} : { method: builtIn }),
    ...(ownPolicy ? { policy: ownPolicy.create } : {}),
    ...(ownModel ? { model: ownModel.create } : {}),
    ...(ownPolicy || ownModel ? { ownOptions: forOwn } : {}),
    ...forDess,
  }
}

/** Refuses a name that no method has; it may be one of a plugin that was not named. */
function checkName(name: string, sizes: readonly number[], plugin: Plugin | undefined): void {
  try {
    parseMethod(name, sizes)
  } catch (error) {
    if (plugin || !(error instanceof DessError)) throw error
    throw new DessError(error.code, `${error.message}; a method of your own comes with --plugin <file>`)
  }
}

function readOwn(text: string, p: { key: string; value: string; usual: OwnOptions[string] }): OwnOptions[string] {
  const { key, value, usual } = p
  if (typeof usual === "string") return value
  if (typeof usual === "boolean" && (value === "true" || value === "false")) return value === "true"
  if (typeof usual === "number" && value.trim() !== "" && Number.isFinite(Number(value))) return Number(value)
  const expected = typeof usual === "boolean" ? "true or false" : "a number"
  throw new DessError("INVALID_ARGUMENT", `method ${show(text)} ${key}: expected ${expected}, got ${show(value)}`)
}

/** A value by its schema; the parts of a list have plus signs between them. */
function readOption(schema: Schema, value: string, place: string): unknown {
  const types = schema.anyOf?.map(({ type }) => type) ?? [schema.type]
  const read =
    schema.type === "array"
      ? value.split("+").map(Number)
      : types.some((type) => type === "number" || type === "integer") && Number.isFinite(Number(value))
        ? Number(value)
        : value
  checkSchema(read, schema, place, value)
  return read
}
