/** `dess rebuild`: a new directory from the journal of another. */

import { parseArgs } from "node:util"
import { rebuild } from "../engine/rebuild.ts"
import type { RecommenderOptions } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { readList, readNumber } from "./flags.ts"
import { formatSeconds, ReplayLine } from "./terminal.ts"

const HELP = `dess rebuild – make a new directory from the journal of another

Usage: dess rebuild --directory <old> --out <new> [options]

Learns everything the old journal holds once more, in its order and segments: with another method or task, after an
update that learns differently, from a directory of an older format, or where snapshots are damaged. The old directory
is only read, and no service may have it open. What it was created with is kept where no option says otherwise.

  --directory <old>     whose journal is read
  --out <new>           a new or empty directory
  --recover             first mend a damaged journal in the old directory: keep what is whole, say what is gone
  --json                one JSON object on stdout

  --task topk|binary|multiclass   what is learned
  --method <name>       how embeddings are sized, as in dess run --help
  --price <number>      what a number must save to be held
  --model, --recipe, --preset, --seed, --negatives, --like-threshold   as in dess serve --help
  --sizes 2,4,8         sizes of the ladder
  --memory-budget, --idle-shrink, --idle-leave   limits; they are not taken over from the old one

Examples
  dess rebuild --directory data --out data-new
  dess rebuild --directory data --out data-binary --task binary --method dess-fre
  dess rebuild --directory damaged --out mended --recover`

const TEXT = { type: "string" } as const

const OPTIONS = {
  ...{ directory: TEXT, out: TEXT, task: TEXT, method: TEXT, price: TEXT, model: TEXT, recipe: TEXT, preset: TEXT },
  ...{ seed: TEXT, negatives: TEXT, "like-threshold": TEXT, sizes: TEXT },
  ...{ "memory-budget": TEXT, "idle-shrink": TEXT, "idle-leave": TEXT },
  recover: { type: "boolean", default: false },
  json: { type: "boolean", default: false },
  help: { type: "boolean", short: "h" },
} as const

export async function rebuildCommand(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: OPTIONS, strict: true })
  if (values.help) return console.log(HELP)
  const { directory, out, recover, json } = values
  if (directory === undefined || out === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `directories: expected --directory and --out, got ${show(directory ?? out ?? "none")} (dess rebuild --help)`,
    )
  const line = new ReplayLine("dess: learning again")
  const started = performance.now()
  const rebuilt = await rebuild({
    ...{ directory, out, recover, options: readOptions(values), onReplay: (progress) => line.update(progress) },
  }).finally(() => line.done())
  const seconds = (performance.now() - started) / 1000
  if (!rebuilt.isWhole)
    process.stderr.write(
      "dess: the old journal does not reach back to the first event; what it no longer has is not in the new state\n",
    )
  if (json) return console.log(JSON.stringify({ ...rebuilt, out, seconds: Number(seconds.toFixed(1)) }))
  const { events, users, items } = rebuilt
  console.log(
    `${events.toLocaleString("en")} events of ${users.toLocaleString("en")} users and ${items.toLocaleString("en")} items learned again in ${formatSeconds(seconds)}: ${out}`,
  )
}

type Values = Partial<Record<keyof typeof OPTIONS, string | boolean>>

function readOptions(values: Values): Omit<RecommenderOptions, "directory"> {
  const text = (name: keyof typeof OPTIONS) => values[name] as string | undefined
  const number = (name: keyof typeof OPTIONS) => {
    const given = text(name)
    return given === undefined ? undefined : readNumber(name, given)
  }
  const sizes = text("sizes")
  const [shrink, leave] = [text("idle-shrink"), text("idle-leave")]
  const options = {
    ...{ task: text("task"), method: text("method"), model: text("model"), recipe: text("recipe") },
    ...{ preset: text("preset"), price: number("price"), seed: number("seed"), negatives: number("negatives") },
    likeThreshold: number("like-threshold"),
    sizes: sizes === undefined ? undefined : readList("sizes", sizes).map((size) => readNumber("sizes", size)),
    memoryBudget: text("memory-budget"),
    idle: shrink === undefined && leave === undefined ? undefined : { shrink, leave },
  }
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
}
