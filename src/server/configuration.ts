/** The effective configuration: flags before the environment before the config file before the defaults. */

import { readFileSync } from "node:fs"
import { Compile } from "typebox/compile"
import { parseColumnChoice } from "../datasets/header.ts"
import { type EngineOptions, parseBytes, parseDuration } from "../engine/options.ts"
import type { RecommenderOptions, Variants } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { type ApiKeys, readKey } from "./api-keys.ts"
import { isLoopback } from "./origin.ts"
import type { PostgresSourceOptions } from "./postgres-source.ts"
import { type CompleteSettings, type SettingName, type Settings, SettingsSchema } from "./settings.ts"

export interface Configuration {
  settings: CompleteSettings
  keys: ApiKeys
  bodyBytes: number
}

interface PropertySchema {
  type?: string
  items?: { type?: string }
  anyOf?: unknown[]
  description?: string
  default?: unknown
}

const PROPERTIES = SettingsSchema.properties as unknown as Record<SettingName, PropertySchema>

/** Every setting: its name in the config file, as a flag and in the environment. */
export const SETTINGS = (Object.keys(PROPERTIES) as SettingName[]).map((name) => {
  const words = name.split(/(?=[A-Z])/).map((word) => word.toLowerCase())
  const { description = "", type } = PROPERTIES[name]
  return {
    name,
    flag: words.join("-"),
    variable: `DESS_${words.join("_").toUpperCase()}`,
    isSwitch: type === "boolean",
    description,
    default: PROPERTIES[name].default,
  }
})

const OTHER_VARIABLES = ["DESS_CONFIG", "DESS_READ_KEY", "DESS_WRITE_KEY", "DESS_DEBUG", "DESS_MIRROR", "DESS_GOLDEN"]

type Environment = Record<string, string | undefined>

/** `flags` by flag name, as they were given. */
export function configure(
  flags: Record<string, string | boolean | undefined>,
  environment: Environment,
): Configuration {
  const fromFlags = readLayer(
    (setting) => flags[setting.flag],
    (setting) => `--${setting.flag}`,
  )
  const fromEnvironment = readLayer(
    (setting) => environment[setting.variable],
    (setting) => setting.variable,
  )
  const known = [...SETTINGS.map(({ variable }) => variable), ...OTHER_VARIABLES]
  for (const variable of Object.keys(environment))
    if (variable.startsWith("DESS_") && !known.includes(variable))
      throw new DessError("INVALID_ARGUMENT", `environment: expected a setting's variable, got ${show(variable)}`)
  const file = (flags.config as string | undefined) ?? environment.DESS_CONFIG
  const defaults = Object.fromEntries(
    SETTINGS.filter((one) => one.default !== undefined).map((one) => [one.name, one.default]),
  )
  const settings = {
    ...defaults,
    ...(file === undefined ? {} : readConfigFile(file)),
    ...fromEnvironment,
    ...fromFlags,
  } as CompleteSettings
  const keys = {
    read: readKey("read key", { text: environment.DESS_READ_KEY, file: settings.readKeyFile }),
    write: readKey("write key", { text: environment.DESS_WRITE_KEY, file: settings.writeKeyFile }),
  }
  checkTogether(settings, keys)
  return { settings, keys, bodyBytes: parseBytes("body limit", settings.bodyLimit) }
}

type Setting = (typeof SETTINGS)[number]

function readLayer(get: (setting: Setting) => unknown, noun: (setting: Setting) => string): Settings {
  const layer: Record<string, unknown> = {}
  for (const setting of SETTINGS) {
    const given = get(setting)
    if (given === undefined || given === "") continue
    layer[setting.name] = checkSetting(setting.name, fromText(setting.name, given), noun(setting))
  }
  return layer as Settings
}

/** A flag or variable as the type of its setting; a text that is none is left to be refused. */
function fromText(name: SettingName, given: unknown): unknown {
  if (typeof given !== "string") return given
  const { type, items } = PROPERTIES[name]
  const number = (text: string) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text)
  if (type === "boolean")
    return given === "true" || given === "1" ? true : given === "false" || given === "0" ? false : given
  // A size or a duration may be either.
  if (type === "integer" || type === "number" || PROPERTIES[name].anyOf) return number(given)
  if (type === "object") return fromJson(given)
  if (type !== "array") return given
  const parts = given.split(",").map((part) => part.trim())
  return items?.type === "integer" ? parts.map(number) : parts
}

/** A text that is no JSON is left to be refused. */
function fromJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function checkSetting(name: SettingName, value: unknown, noun: string): unknown {
  const schema = PROPERTIES[name]
  const validator = Compile(schema as object)
  if (validator.Check(value)) return value
  const [error] = validator.Errors(value)
  const expected =
    Object.hasOwn(schema, "enum") || !error
      ? schema.description
      : `${error.message.replace(/^must (be |match )?/, "")} (${schema.description})`
  throw new DessError("INVALID_ARGUMENT", `${noun}: expected ${expected}, got ${show(value)}`)
}

function readConfigFile(path: string): Settings {
  let given: unknown
  try {
    given = JSON.parse(readFileSync(path, "utf8"))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new DessError("INVALID_DATA", `config file: expected JSON, got ${code ?? message} (${path})`, {
      cause: error,
    })
  }
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new DessError("INVALID_DATA", `config file: expected an object, got ${show(given)} (${path})`)
  const { $schema: _, ...layer } = given as Record<string, unknown>
  for (const [name, value] of Object.entries(layer)) {
    if (!Object.hasOwn(PROPERTIES, name))
      throw new DessError(
        "INVALID_DATA",
        `config file: expected settings of dess serve --schema, got ${show(name)} (${path})`,
      )
    checkSetting(name as SettingName, value, `config file ${name}`)
  }
  return layer as Settings
}

function checkTogether(settings: CompleteSettings, keys: ApiKeys): void {
  const { host } = settings
  if (keys.read !== undefined && keys.write === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      "write key: expected one where there is a read key, got none (DESS_WRITE_KEY)",
    )
  if (!isLoopback(host) && keys.write === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `host: expected a loopback address such as 127.0.0.1 as long as there is no API key, got ${show(host)}; set DESS_WRITE_KEY (openssl rand -hex 24) or --write-key-file`,
    )
  if (keys.read !== undefined && keys.read === keys.write)
    throw new DessError("INVALID_ARGUMENT", "read key: expected another than the write key, got the same")
  if (settings.ratingScale !== undefined) parseRatingScale(settings.ratingScale)
  checkCluster(settings)
  checkSourceSettings(settings)
}

function checkSourceSettings(settings: CompleteSettings): void {
  const { source, sourceTable, sourceDeletes, sourceDeletesCursor, cluster } = settings
  for (const name of ["sourceTable", "sourceCursor", "sourceColumns", "sourceDeletes"] as const)
    if (source === undefined && settings[name] !== undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `${name}: expected with a source only (--source), got ${show(settings[name])}`,
      )
  if (sourceDeletesCursor !== undefined && sourceDeletes === undefined)
    throw new DessError("INVALID_ARGUMENT", "source deletes cursor: expected with --source-deletes only")
  if (settings.sourceColumns !== undefined) parseColumnChoice(settings.sourceColumns)
  if (source === undefined) return
  if (sourceTable === undefined)
    throw new DessError("INVALID_ARGUMENT", "source table: expected a table or a query (--source-table), got none")
  if (cluster !== undefined) throw new DessError("INVALID_ARGUMENT", "source: expected without --cluster, got both")
  if (!URL.canParse(source))
    throw new DessError("INVALID_ARGUMENT", "source: expected postgres://user@host:port/database")
}

/** What is followed, where there is a source. */
export function sourceOptions(
  settings: CompleteSettings,
): Omit<PostgresSourceOptions, "signal" | "onError"> | undefined {
  const { source, sourceTable, sourceCursor = "id", sourceDeletes, sourceDeletesCursor = "id" } = settings
  if (source === undefined || sourceTable === undefined) return undefined
  return {
    url: source,
    events: { table: sourceTable, cursor: sourceCursor },
    deletes: sourceDeletes === undefined ? undefined : { table: sourceDeletes, cursor: sourceDeletesCursor },
    columns: settings.sourceColumns === undefined ? {} : parseColumnChoice(settings.sourceColumns),
    every: parseDuration("source every", settings.sourceEvery ?? "1s"),
  }
}

/** What goes with a cluster, and what does not. */
function checkCluster(settings: CompleteSettings): void {
  const { cluster, directory, demo } = settings
  for (const name of ["clusterPrefix", "clusterAddresses", "partitions", "role", "wait"] as const)
    if (cluster === undefined && settings[name] !== undefined)
      throw new DessError(
        "INVALID_ARGUMENT",
        `${name}: expected with a cluster only (--cluster), got ${show(settings[name])}`,
      )
  if (cluster === undefined) return
  if (directory !== undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `directory: expected none with --cluster, which keeps everything, got ${show(directory)}`,
    )
  if (demo) throw new DessError("INVALID_ARGUMENT", "demo: expected without --cluster, got both")
}

/** The options the recommender is opened with. */
export function recommenderOptions(settings: Settings): RecommenderOptions {
  const { ratingScale, idleShrink, idleLeave, idempotencyKeys } = settings
  const { directory, memoryBudget, task, method, model, recipe, sizes, seed, features } = settings
  const { likeThreshold, negatives, segment, delay, publishDelay, snapshotEvents, snapshotDelay } = settings
  const { queue, threads, keepJournal, recover, types, leaveOut, variants, tracking, conversions } = settings
  const options = {
    ...{ directory, memoryBudget, task, method, model, recipe, sizes, seed, features, likeThreshold, negatives },
    ...{
      segment,
      delay,
      publishDelay,
      snapshotEvents,
      snapshotDelay,
      queue,
      threads,
      keepJournal,
      recover,
      types,
      variants: variants as Variants | undefined,
      tracking,
      conversions,
      leaveOut,
    },
    keys: idempotencyKeys,
    scale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
    idle: idleShrink === undefined && idleLeave === undefined ? undefined : { shrink: idleShrink, leave: idleLeave },
  }
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as RecommenderOptions
}

/** A source's address without who reads it and its options, which may hold a password, too. */
function withoutSecrets(source: string): string {
  const { protocol, username, host, pathname } = new URL(source)
  return `${protocol}//${username === "" ? "" : "…@"}${host}${pathname}`
}

/** What --check prints: everything but the keys, of which only whether they are set. */
export function describeConfiguration({ settings, keys }: Configuration, engine: EngineOptions): object {
  const say = (key: string | undefined) => (key === undefined ? "not set" : "set")
  const source = settings.source && withoutSecrets(settings.source)
  const cluster = settings.cluster?.replace(/\/\/[^@/,]*@/g, "//…@")
  const { run, segment, delay, publishDelay, snapshotEvents, snapshotDelay, queue, keepJournal, scale } = engine
  const { task, method, model, recipe, sizes, seed, negatives, threads, price } = run
  return {
    ...{ task, method, model, recipe, sizes, seed, negatives },
    ...(price === undefined ? {} : { price }),
    ...{ likeThreshold: (run.likeThreshold * scale.max) / 5, ratingScale: `${scale.min}-${scale.max}` },
    ...{ segment, delay, publishDelay, snapshotEvents, snapshotDelay, queue, threads, keepJournal },
    ...{ idempotencyKeys: engine.keys, directory: null, memoryBudget: null },
    ...settings,
    ...(cluster ? { cluster } : {}),
    ...(source ? { source } : {}),
    ...{ readKey: say(keys.read), writeKey: say(keys.write) },
  }
}
