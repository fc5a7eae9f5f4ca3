/** Methods from a module of the author's own: `export const policies = { … }`, `export const models = { … }`. */

import { readFileSync } from "node:fs"
import { resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { DessError, show } from "../errors.ts"
import type { CreateModel } from "../learning/own.ts"
import { METHOD_NAMES } from "../policies/methods.ts"
import type { CreatePolicy, OwnOptions } from "../policies/own.ts"
import { methodKind } from "./controls.ts"

/** What makes a method, and its options with their defaults; without options the function alone will do. */
export interface PluginEntry<Create> {
  create: Create
  options?: OwnOptions
}

export interface PluginFile {
  /** Not part of a result's key. */
  path: string
  /** Of the file's bytes; what it imports is not looked at. */
  sha256: string
}

export interface Plugin extends PluginFile {
  policies: Readonly<Record<string, PluginEntry<CreatePolicy>>>
  models: Readonly<Record<string, PluginEntry<CreateModel>>>
}

/** Loads a module. `expected`: its hash when the comparison began. */
export async function loadPlugin(path: string, base = ".", expected?: string): Promise<Plugin> {
  const full = resolve(base, path)
  let sha256: string
  try {
    const { createHash } = process.getBuiltinModule("node:crypto")
    sha256 = createHash("sha256").update(readFileSync(full)).digest("hex")
  } catch (error) {
    throw new DessError("NOT_FOUND", `plugin: expected a module, got ${show(path)} (${(error as Error).message})`)
  }
  if (expected !== undefined && sha256 !== expected)
    throw new DessError(
      "INVALID_DATA",
      `plugin ${full}: expected the file as it was when the comparison began, it has changed`,
    )
  let module: Record<string, unknown>
  try {
    module = (await import(pathToFileURL(full).href)) as Record<string, unknown>
  } catch (cause) {
    throw new DessError(
      "INVALID_DATA",
      `plugin ${full}: expected a module that loads, got ${show((cause as Error).message)}`,
      { cause },
    )
  }
  const { policies, models } = module
  if (policies === undefined && models === undefined)
    throw new DessError(
      "INVALID_DATA",
      `plugin ${full}: expected export const policies = { <name>: (start) => policy } or models, got ${show(Object.keys(module))}`,
    )
  const read = {
    policies: readEntries<CreatePolicy>("policies", policies),
    models: readEntries<CreateModel>("models", models),
  }
  const twice = Object.keys(read.models).find((name) => Object.hasOwn(read.policies, name))
  if (twice !== undefined)
    throw new DessError("INVALID_DATA", `plugin ${full}: expected different names, got ${show(twice)} twice`)
  return { path: full, sha256, ...read }
}

function readEntries<Create>(noun: string, given: unknown): Record<string, PluginEntry<Create>> {
  if (given === undefined) return {}
  if (typeof given !== "object" || given === null)
    throw new DessError("INVALID_DATA", `plugin ${noun}: expected an object of functions by name, got ${show(given)}`)
  return Object.fromEntries(Object.entries(given).map(([name, entry]) => [name, readEntry<Create>(name, entry)]))
}

const NAME = /^[a-z][a-z0-9-]*$/

function readEntry<Create>(name: string, given: unknown): PluginEntry<Create> {
  const refuse = (expected: string, got: unknown) => {
    throw new DessError("INVALID_DATA", `plugin method ${show(name)}: expected ${expected}, got ${show(got)}`)
  }
  const known = METHOD_NAMES.split(", ").includes(name) || methodKind(name) !== "baseline"
  if (!NAME.test(name) || known || /^(fixed-|own$)/.test(name))
    refuse("a name of small letters, digits and dashes that no method of dess has or begins with", name)
  if (typeof given === "function") return { create: given as Create }
  const { create, options = {}, ...rest } = (given ?? {}) as Partial<PluginEntry<Create>>
  if (typeof create !== "function") refuse("a function, or { create, options }", given)
  if (Object.keys(rest).length > 0) refuse("create and options only", Object.keys(rest))
  for (const [key, value] of Object.entries(options))
    if (!/^[a-z]\w*$/i.test(key) || !["number", "string", "boolean"].includes(typeof value))
      refuse("options that are numbers, texts or true or false", options)
  return { create: create as Create, options }
}
