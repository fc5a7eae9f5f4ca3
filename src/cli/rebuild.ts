/** `dess rebuild`: a new directory from the journal of another. */

import { rebuild } from "../engine/rebuild.ts"
import { DessError, show } from "../errors.ts"
import { dropUndefined, RUN_OPTIONS } from "../learning/options.ts"
import { SAVED_METHOD_NAMES } from "../policies/methods.ts"
import { describeFlags, parseFlags, runFlags } from "./flags.ts"
import { formatSeconds, ReplayLine } from "./terminal.ts"

const DIRECTORIES = {
  directory: { type: "string", description: "whose journal is read", examples: ["<old>"] },
  out: { type: "string", description: "a new or empty directory", examples: ["<new>"] },
  recover: {
    type: "boolean",
    description: "first mend a damaged journal in the old directory: keep what is whole, say what is gone",
  },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const
const LEARNED = runFlags(
  ["task", "method", "recipe", "price", "sizes", "seed", "model", "negatives", "likeThreshold"],
  (option) => (option === RUN_OPTIONS.method ? `how ids get their sizes: ${SAVED_METHOD_NAMES}` : option.help),
)
const idle = { type: "string", examples: ["30d"] } as const
const LIMITS = {
  ...runFlags(["memoryBudget"], () => "the most the tables may hold"),
  idleShrink: { ...idle, description: "ids without an event for so long lose a step of their size" },
  idleLeave: { ...idle, description: "ids without an event for so long leave" },
} as const

const HELP = `dess rebuild – make a new directory from the journal of another

Usage: dess rebuild --directory <old> --out <new> [options]

Learns everything the old journal holds once more, in its order and segments: with another method or task, after an
update that learns differently, from a directory of an older format, or where snapshots are damaged. The old directory
is only read, but for --recover, and no service may have it open. What it was created with is kept where no option says otherwise.

${describeFlags({ Directories: DIRECTORIES, "What is learned": LEARNED, "Limits, which are not taken over from the old one": LIMITS })}

Examples
  dess rebuild --directory data --out data-new
  dess rebuild --directory data --out data-binary --task binary --method dess-fre
  dess rebuild --directory damaged --out mended --recover`

export async function rebuildCommand(args: string[]): Promise<void> {
  const {
    help,
    directory,
    out,
    recover = false,
    json,
    idleShrink: shrink,
    idleLeave: leave,
    ...learned
  } = parseFlags(args, {
    ...DIRECTORIES,
    ...LEARNED,
    ...LIMITS,
  })
  if (help) return console.log(HELP)
  if (directory === undefined || out === undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `directories: expected --directory and --out, got ${show(directory ?? out ?? "none")} (dess rebuild --help)`,
    )
  const line = new ReplayLine("dess: learning again")
  const started = performance.now()
  const idle = shrink === undefined && leave === undefined ? undefined : { shrink, leave }
  const options = { ...learned, ...dropUndefined({ idle }) }
  const rebuilt = await rebuild({
    ...{ directory, out, recover, options, onReplay: (progress) => line.update(progress) },
  }).finally(() => line.done())
  const seconds = (performance.now() - started) / 1000
  for (const text of rebuilt.gone) process.stderr.write(`dess: ${text}; what is gone is not in the new state\n`)
  if (json) return console.log(JSON.stringify({ ...rebuilt, out, seconds: Number(seconds.toFixed(1)) }))
  const { events, users, items } = rebuilt
  console.log(
    `${events.toLocaleString("en")} events of ${users.toLocaleString("en")} users and ${items.toLocaleString("en")} items learned again in ${formatSeconds(seconds)}: ${out}`,
  )
}
