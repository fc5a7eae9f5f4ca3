#!/usr/bin/env node
/** The command line: finds the command, loads only what it needs, turns errors into one line and an exit code. */

import { DessError } from "../errors.ts"

/** Each command's module is loaded when it is asked for. */
const COMMANDS: Record<string, { summary: string; load: () => Promise<(args: string[]) => Promise<void>> }> = {
  run: { summary: "run one method along a stream", load: async () => (await import("./run.ts")).runCommand },
  prepare: {
    summary: "turn ratings files into a time-sorted folder",
    load: async () => (await import("./prepare.ts")).prepareCommand,
  },
  demo: {
    summary: "compare DESS with its controls on the embedded stream",
    load: async () => (await import("./demo.ts")).demoCommand,
  },
  compare: {
    summary: "run a grid of methods, tasks, models, data and seeds",
    load: async () => (await import("./compare.ts")).compareCommand,
  },
  sweep: {
    summary: "search a method's own options on the first part of a stream, report on the rest",
    load: async () => (await import("./sweep.ts")).sweepCommand,
  },
  serve: {
    summary: "the live recommender over HTTP",
    load: async () => (await import("./serve.ts")).serveCommand,
  },
  train: {
    summary: "a trainer of a cluster",
    load: async () => (await import("./train.ts")).trainCommand,
  },
  cluster: {
    summary: "state, snapshots and loading of a cluster",
    load: async () => (await import("./cluster.ts")).clusterCommand,
  },
  import: {
    summary: "bring events or items into a recommender",
    load: async () => (await import("./import.ts")).importCommand,
  },
  export: {
    summary: "write a recommender's events or items to a file",
    load: async () => (await import("./export.ts")).exportCommand,
  },
  estimate: {
    summary: "how well lists of some settings would have predicted what people did",
    load: async () => (await import("./estimate.ts")).estimateCommand,
  },
  rebuild: {
    summary: "make a new directory from the journal of another",
    load: async () => (await import("./rebuild.ts")).rebuildCommand,
  },
  report: {
    summary: "tables, statistics and figures of a comparison",
    load: async () => (await import("./report.ts")).reportCommand,
  },
}

function usage(): string {
  const lines = Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(10)}${summary}`)
  return `dess – a recommender that learns from every event, with vectors sized to the evidence

Usage: dess <command> [options]

${lines.join("\n")}

dess <command> --help tells more.`
}

async function main(args: string[]): Promise<void> {
  const [name, ...rest] = args
  if (name === undefined || name === "--help" || name === "-h" || name === "help") {
    console.log(usage())
    return
  }
  if (name === "--version" || name === "-v") {
    const { readFileSync } = await import("node:fs")
    const { join } = await import("node:path")
    const text = readFileSync(join(import.meta.dirname, "..", "..", "package.json"), "utf8")
    console.log((JSON.parse(text) as { version: string }).version)
    return
  }
  if (!Object.hasOwn(COMMANDS, name))
    throw new DessError(
      "INVALID_ARGUMENT",
      `command: expected one of ${Object.keys(COMMANDS).join(", ")}, got ${JSON.stringify(name)} (dess --help)`,
    )
  const command = await COMMANDS[name].load()
  await command(rest)
}

/** Writing to a closed pipe (`dess … | head`) is not an error; to a full disk it is. */
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0)
  process.stderr.write(`dess: standard output: expected to write to it, got ${error.message}\n`)
  process.exit(2)
})

main(process.argv.slice(2)).catch((error: unknown) => {
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  if (error instanceof DessError || code.startsWith("ERR_PARSE_ARGS")) {
    const hint = error instanceof DessError ? "" : ` (dess ${process.argv[2]} --help)`
    process.stderr.write(`dess: ${(error as Error).message}${hint}\n`)
    process.exitCode = 2
  } else {
    process.stderr.write(
      `dess: unexpected error: ${error instanceof Error ? (process.env.DESS_DEBUG ? error.stack : error.message) : String(error)}\n`,
    )
    process.exitCode = 1
  }
})
