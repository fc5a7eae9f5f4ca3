/** `dess prepare`: data as published → a folder that `dess run --data` reads in constant memory. */

import { existsSync } from "node:fs"
import { parseColumnChoice } from "../datasets/header.ts"
import type { Dedupe, Manifest } from "../datasets/manifest.ts"
import { type PrepareOptions, type PrepareProgress, prepareData } from "../datasets/prepare.ts"
import { describePublished, downloadsFolder, PUBLISHED } from "../datasets/publishers.ts"
import { DessError, show } from "../errors.ts"
import { dropUndefined } from "../learning/options.ts"
import { parseRatingScale } from "../stream/interaction.ts"
import { describeFlags, parseArguments } from "./flags.ts"
import { untilStopped } from "./interrupt.ts"
import { formatBytes, formatSeconds, noteLatin1, Progress } from "./terminal.ts"

const READING = {
  columns: {
    type: "string",
    description: "columns that are not recognised; places from 1 where there is no header",
    examples: ["user=<name>,item=<name>,rating=<name>,timestamp=<name>"],
  },
  ratingScale: { type: "string", description: "scale of the ratings, e.g. 0-10 (0-5)", examples: ["<lo-hi>"] },
  implicit: { type: "boolean", description: "every row is a positive, whether there are ratings or not" },
  types: {
    type: "array",
    items: { type: "string" },
    minItems: 1,
    description: "kinds of events that count (all); their column is recognised, or type=<name> of --columns",
    examples: ["click,buy"],
  },
  likeThreshold: {
    type: "number",
    description: "a rating above it, on that scale, is a like (7/10 of the scale: 3.5 of 5)",
  },
} as const
const FILTERS = {
  dedupe: {
    type: "string",
    description: "of several ratings of an item by a user keep one, or all (none)",
    examples: ["last|first|none"],
  },
  minRatings: { type: "number", description: "leave out users with fewer", examples: ["<n>"] },
  kCore: { type: "number", description: "leave out users and items with fewer, until none has", examples: ["<n>"] },
} as const
const WORK = {
  out: { type: "string", description: "the folder to make; it appears when it is whole", examples: ["<dir>"] },
  replace: { type: "boolean", description: "make a folder anew that dess prepare made before" },
  memory: {
    type: "number",
    exclusiveMinimum: 0,
    description: "what DuckDB may take (1.5); the process takes more by the size of its id maps",
    examples: ["<GiB>"],
  },
  threads: { type: "integer", minimum: 1, description: "(all cores)" },
  downloads: {
    type: "string",
    description: `where files fetched by name are kept (${downloadsFolder()})`,
    examples: ["<dir>"],
  },
  mirror: { type: "string", description: "fetch them from there instead (or DESS_MIRROR)", examples: ["<url>"] },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

const HELP = `dess prepare – bring a data set into the form that dess run reads in constant memory

Usage: dess prepare <source> --out <dir> [options]

Source
  a name            ${Object.keys(PUBLISHED).slice(0, 7).join(", ")},
                    ${Object.keys(PUBLISHED).slice(7, 12).join(", ")},
                    ${Object.keys(PUBLISHED).slice(12).join(", ")}: fetched from the publisher
  a folder or zip   MovieLens (genres, or the tag genome where there is one), RecBole (.inter, .item), Parquet
  a file            CSV, TSV, JSON lines, .inter, Parquet; gzip or zstd; Amazon's ratings files without a header too

${describeFlags({ Reading: READING, "Filters, in this order": FILTERS, Work: WORK })}

Examples
  dess prepare ml-20m --out data/ml-20m
  dess prepare ml-25m.zip --out data/ml-25m
  dess prepare ratings_Books.csv --out data/books --k-core 10 --dedupe last
  dess prepare Books.jsonl.gz --out data/books-2023
  dess prepare log.tsv --out data/log --columns user=visitor,item=page,rating=score,timestamp=at --rating-scale 0-10

Then: dess run --data data/ml-20m`

export async function prepareCommand(args: string[]): Promise<void> {
  const { values, positionals } = parseArguments(args, { ...READING, ...FILTERS, ...WORK })
  if (values.help) {
    console.log(HELP)
    return
  }
  const { json, out, columns, ratingScale, memory, dedupe, ...rest } = values
  const [source, ...more] = positionals
  if (source === undefined || more.length > 0) refuse("source", "one file, folder or name", positionals.join(" "))
  if (out === undefined) refuse("--out", "the folder to make", undefined)
  const options = {
    ...rest,
    out,
    columns: columns === undefined ? undefined : parseColumnChoice(columns),
    ratingScale: ratingScale === undefined ? undefined : parseRatingScale(ratingScale),
    dedupe: dedupe as Dedupe | undefined,
    memoryBytes: memory === undefined ? undefined : memory * 2 ** 30,
    mirror: rest.mirror ?? (process.env.DESS_MIRROR || undefined),
  }
  if (Object.hasOwn(PUBLISHED, source) && !existsSync(source))
    process.stderr.write(`dess: ${source}: ${describePublished(source)}\n`)
  const started = performance.now()
  const manifest = await untilStopped((signal) => prepare(source, { ...dropUndefined(options), signal }))
  if (manifest === undefined) return
  if (manifest.source.encoding === "latin-1") noteLatin1(manifest.source.from)
  for (const note of manifest.notes ?? []) process.stderr.write(`dess: ${manifest.name}: ${note}\n`)
  const seconds = (performance.now() - started) / 1000
  console.log(json ? JSON.stringify(summarise(manifest, out, seconds)) : describe(manifest, out, seconds))
}

/** Runs to the end with a progress bar; Ctrl-C leaves nothing behind. */
async function prepare(source: string, options: PrepareOptions): Promise<Manifest | undefined> {
  let bar = new Progress("")
  let phase: PrepareProgress["phase"] | undefined
  try {
    const steps = prepareData(source, options)
    for (;;) {
      const { value, done } = await steps.next()
      if (done) return value
      if (value.phase !== phase) {
        bar.done()
        bar = new Progress(value.phase, value.total)
        phase = value.phase
      }
      bar.update(value.done ?? 0)
    }
  } catch (error) {
    if (!(error instanceof DessError) || error.code !== "INTERRUPTED") throw error
    process.stderr.write(`dess: ${error.message}\n`)
    process.exitCode = 130
    return undefined
  } finally {
    bar.done()
  }
}

function summarise({ files, features, format, version, ...rest }: Manifest, out: string, seconds: number): object {
  const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0)
  const summary = features === undefined ? null : { ...features, columns: features.columns.length }
  return { out, ...rest, features: summary, bytes, seconds: Number(seconds.toFixed(1)), format, version }
}

function describe(manifest: Manifest, out: string, seconds: number): string {
  const { name, interactions, users, items, ratingScale, likeThreshold, features, dropped, files } = manifest
  const count = (n: number) => n.toLocaleString("en")
  const day = (time: number) => new Date(1000 * time).toISOString().slice(0, 10)
  const taken = [
    dropped.duplicates > 0 ? `${count(dropped.duplicates)} repeated` : "",
    dropped.minRatings > 0 ? `${count(dropped.minRatings)} of users with few ratings` : "",
    dropped.kCore > 0 ? `${count(dropped.kCore)} outside the core` : "",
  ].filter((text) => text !== "")
  const kind = features?.kind === "genres" ? "genres" : "tags of the genome"
  const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0)
  return [
    `${name}: ${count(interactions)} interactions of ${count(users)} users with ${count(items)} items, ${day(manifest.firstTimestamp)} to ${day(manifest.lastTimestamp)}`,
    taken.length > 0 ? `left out: ${taken.join(", ")}` : "",
    manifest.implicit
      ? "no ratings"
      : `ratings from ${ratingScale.min} to ${ratingScale.max}; a like is more than ${likeThreshold}`,
    features === undefined
      ? "item features: none, so dess-fre rather than dess-cv"
      : `item features: ${count(features.columns.length)} ${kind}, for ${count(features.items)} items`,
    `written to ${out} (${formatBytes(bytes)}) in ${formatSeconds(seconds)}; next: dess run --data ${/\s/.test(out) ? JSON.stringify(out) : out}`,
  ]
    .filter((line) => line !== "")
    .join("\n")
}

function refuse(noun: string, expected: string, got: string | undefined): never {
  const shown = got === undefined || got === "" ? "nothing" : show(got)
  throw new DessError("INVALID_ARGUMENT", `${noun}: expected ${expected}, got ${shown} (dess prepare --help)`)
}
