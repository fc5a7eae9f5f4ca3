/** `dess serve`: the live recommender over HTTP. */

import { join } from "node:path"
import { type ParseArgsConfig, parseArgs } from "node:util"
import { DessError } from "../errors.ts"
import { requirePackages } from "../server/packages.ts"
import { ReplayLine } from "./terminal.ts"

type Configuring = typeof import("../server/configuration.ts")

const FLAGS = ["check", "schema", "help"]

export async function serveCommand(args: string[]): Promise<void> {
  try {
    await requirePackages()
  } catch (error) {
    if (!args.includes("--help") && !args.includes("-h")) throw error
    return console.log(help([`  more settings; to see them: ${(error as Error).message}`]))
  }
  const configuring = await import("../server/configuration.ts")
  const options: NonNullable<ParseArgsConfig["options"]> = { config: { type: "string" } }
  for (const { flag, isSwitch } of configuring.SETTINGS) options[flag] = { type: isSwitch ? "boolean" : "string" }
  for (const flag of FLAGS) options[flag] = { type: "boolean", ...(flag === "help" ? { short: "h" } : {}) }
  const { values } = parseArgs({ args, options, strict: true })
  const flags = values as Record<string, string | boolean | undefined>
  if (flags.help) return console.log(help(describeSettings(configuring)))
  if (flags.schema) {
    const { SettingsSchema } = await import("../server/settings.ts")
    return console.log(JSON.stringify(SettingsSchema, null, 2))
  }
  const configuration = configuring.configure(flags, process.env)
  if (flags.check) {
    const { tryOptions } = await import("../engine/try-options.ts")
    const engine = await tryOptions(configuring.recommenderOptions(configuration.settings))
    return console.log(JSON.stringify(configuring.describeConfiguration(configuration, engine), null, 2))
  }
  const { startService } = await import("../server/service.ts")
  const { openClusterReader } = await import("./cluster-options.ts")
  const open = configuration.settings.cluster === undefined ? undefined : () => openClusterReader(configuration, say)
  const line = new ReplayLine("dess: replaying the journal")
  const service = await startService({
    ...configuration,
    open,
    page: join(import.meta.dirname, "..", "web"),
    onError: (error, where) => say(`${where}: ${describe(error)}`),
    onReplay: (progress) => line.update(progress),
    say,
  })
  const { settings, keys } = configuration
  say(`listening on ${service.url} (${keys.write ? "with API keys" : "this machine only, without API keys"})`)
  const { stopped, isStopping } = untilSignal(service.stop, () => {
    const { reached } = line
    line.done()
    return reached === undefined ? "finishing what was accepted" : `the replay is interrupted at ${reached}`
  })
  try {
    await service.ready
    line.done()
  } catch (error) {
    line.done()
    await service.stop()
    if (isStopping()) return
    throw error
  }
  const place = settings.cluster === undefined ? settings.directory : `the cluster (role ${settings.role ?? "both"})`
  const sayReady = () =>
    say(place ? `ready; everything is kept in ${place}` : "ready; in memory only, nothing is kept (--directory)")
  if (service.state() === "refusing") {
    say("reading only: writing is refused until the disk takes it")
    const watch = setInterval(() => {
      if (service.state() === "refusing") return
      clearInterval(watch)
      if (service.state() === "learning") sayReady()
    }, 200).unref()
  } else sayReady()
  await stopped
}

/** Resolves when a signal has stopped the service; a second signal does not wait. */
function untilSignal(
  stop: () => Promise<void>,
  describeStop: () => string,
): { stopped: Promise<void>; isStopping: () => boolean } {
  let asked = false
  const stopped = new Promise<void>((resolve, reject) => {
    const onSignal = (signal: NodeJS.Signals) => {
      if (asked) process.exit(signal === "SIGINT" ? 130 : 143)
      asked = true
      say(`stopping: ${describeStop()}`)
      stop().then(() => {
        say("stopped")
        resolve()
      }, reject)
    }
    process.on("SIGTERM", onSignal)
    process.on("SIGINT", onSignal)
  })
  return { stopped, isStopping: () => asked }
}

function say(text: string): void {
  process.stderr.write(`dess: ${text}\n`)
}

function describe(error: unknown): string {
  if (error instanceof DessError) return error.message
  return error instanceof Error
    ? process.env.DESS_DEBUG
      ? (error.stack ?? error.message)
      : error.message
    : String(error)
}

function describeSettings({ SETTINGS }: Configuring): string[] {
  return SETTINGS.map(({ flag, isSwitch, description, default: value }) => {
    const shown = value === undefined || value === false ? "" : ` (${Array.isArray(value) ? value.join(",") : value})`
    return `  ${`--${flag}${isSwitch ? "" : " <…>"}`.padEnd(25)} ${description}${shown}`
  })
}

function help(lines: string[]): string {
  return `dess serve – the live recommender over HTTP

Usage: dess serve [options]

Each setting is a flag, a variable (--memory-budget: DESS_MEMORY_BUDGET) or a field of the config file (memoryBudget);
flags come first, then variables, then the file. API keys: DESS_READ_KEY and DESS_WRITE_KEY, or files.

  --config <file>           JSON file with settings (DESS_CONFIG)
  --check                   validate, print the effective settings, and stop
  --schema                  print the JSON Schema of the config file, and stop

${lines.join("\n")}

Examples
  dess serve --demo --rate 500
  dess serve --directory data --memory-budget 256MB
  DESS_WRITE_KEY=$(openssl rand -hex 24) dess serve --directory data --host 0.0.0.0
  PGPASSWORD=… dess serve --directory data --source postgres://shop@db/shop --source-table purchases
  dess serve --cluster redis://10.0.0.1:6379,redis://10.0.0.2:6379 --wait 1
  curl -d '{"user":"ada","item":"dune","rating":5}' -H 'content-type: application/json' localhost:8080/v1/interactions
  curl localhost:8080/v1/users/ada/recommendations`
}
