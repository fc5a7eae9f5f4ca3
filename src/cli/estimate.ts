/**
 * `dess estimate`: how well lists of some settings would have predicted what people did, by a replay of a journal. Before some of
 * the events a list is made for their user by each setting, of everything before them; a hit is a list with the event's item.
 */

import { resolve } from "node:path"
import { MOST_AT_ONCE } from "../engine/check.ts"
import { type Contents, openContents } from "../engine/contents.ts"
import { checkTypes } from "../engine/event-types.ts"
import { estimateRatio, interval, rateOf } from "../engine/experiments.ts"
import { Recommender } from "../engine/open.ts"
import { givenOptions } from "../engine/rebuild.ts"
import type { Event, ExperimentRate, Variant, Variants } from "../engine/types.ts"
import { checkVariants } from "../engine/variants.ts"
import { DessError, show } from "../errors.ts"
import { describeFlags, parseFlags } from "./flags.ts"
import { formatTable, Progress } from "./terminal.ts"

const FLAGS = {
  directory: { type: "string", description: "whose journal is replayed; it is only read", examples: ["<dir>"] },
  variants: {
    type: "string",
    description: "settings to compare, as for dess serve (the model's lists and what is popular)",
    examples: ['{"model":{"share":0.5},"capped":{"share":0.5,"options":{"cap":{"category":2}}}}'],
  },
  types: {
    type: "string",
    description: "what events weigh, in place of what the directory says",
    examples: ["<json>"],
  },
  leaveOut: { type: "array", items: { type: "string" }, description: "types whose item is left out of lists" },
  of: { type: "string", description: "only events of this type count, such as purchase", examples: ["<type>"] },
  count: { type: "integer", minimum: 1, maximum: 1000, description: "items a list (10)" },
  last: { type: "number", description: "share of the events, the last, before which lists are made (0.2)" },
  every: { type: "integer", minimum: 1, description: "a list before every so many of them (10)" },
  json: { type: "boolean", description: "one JSON object on stdout" },
} as const

const CAVEAT = `People chose without seeing these lists: a hit means that the list predicted the choice, not that it would sell more.
Settings that show what people would not have found by themselves (fresh, diversity) look worse here than they are.
dess serve --variants measures what a setting earns.`

const HELP = `dess estimate – how well lists of some settings would have predicted what people did, by a replay of the journal

Usage: dess estimate --directory <dir> [--variants <json>] [options]

Learns the events of a directory once more, in memory. Before some of the last ones it makes a list for their user by each
setting, of all that was before, and looks whether the event's item stands in it. Intervals are of 95 %, by the spread
between users; differences are to the first setting, on the same events.

${CAVEAT}

${describeFlags({ Options: FLAGS })}

Examples
  dess estimate --directory data
  dess estimate --directory data --of purchase --types '{"view":0.1,"purchase":1}'`

/** Items of a user that are remembered. */
const MOST_MET = 10_000
/** Events that are learned at a time. */
const SEGMENT = 500
const USUAL: Variants = { model: { share: 0.5 }, popular: { share: 0.5, list: "popular" } }

/** By user: lists made, how many of them before an item the user had met, and by setting how many were hits. */
type Sums = Map<string, { lists: number; met: number; hits: number[] }>

export interface Estimate {
  name: string
  hits: ExperimentRate
  /** To the first setting. */
  difference: ExperimentRate | undefined
}

export async function estimateCommand(args: string[]): Promise<void> {
  const { help, directory, json, ...flags } = parseFlags(args, FLAGS)
  if (help) return console.log(HELP)
  if (directory === undefined)
    throw new DessError("INVALID_ARGUMENT", "--directory: expected a recommender's, got none (dess estimate --help)")
  const { count = 10, last = 0.2, every = 10 } = flags
  if (!(last > 0 && last <= 1))
    throw new DessError("INVALID_ARGUMENT", `--last: expected more than 0, at most 1, got ${last}`)
  const variants =
    flags.variants === undefined ? USUAL : (checkVariants(parseJson("variants", flags.variants)) as Variants)
  const settings = Object.entries(variants).filter(([, { list }]) => list !== "off")
  const given = flags.types === undefined ? undefined : checkTypes(parseJson("types", flags.types), flags.leaveOut)
  const contents = await openContents(resolve(directory))
  try {
    for (const text of contents.gone) process.stderr.write(`dess: ${text}; lists are made of what is left\n`)
    const types = given ?? contents.types
    const sums = await replay(contents, {
      settings,
      types,
      isGiven: given !== undefined,
      count,
      last,
      every,
      of: flags.of,
    })
    const [lists, met] = [...sums.values()].reduce(([lists, met], one) => [lists + one.lists, met + one.met], [0, 0])
    if (lists === 0)
      throw new DessError(
        "INVALID_DATA",
        `journal: expected events to predict, got none${flags.of ? ` of type ${show(flags.of)}` : ""}`,
      )
    const estimates = settings.map(([name], s) => estimateOf(sums, name, s))
    if (json) return console.log(JSON.stringify({ lists, met, users: sums.size, count, settings: estimates }))
    console.log(
      `A list of ${count} was made before each of ${lists.toLocaleString("en")} events of ${sums.size.toLocaleString("en")} users. How many had the event's item:\n`,
    )
    const rows = estimates.map(({ name, hits, difference }) => [
      name,
      formatRate(hits),
      difference ? formatRate(difference) : "",
    ])
    console.log(
      formatTable([{ title: "setting" }, { title: "hits, %" }, { title: `more than ${settings[0][0]}, points` }], rows),
    )
    console.log("")
    for (const one of estimates.slice(1)) console.log(verdictOf(one, settings[0][0]))
    if (met > 0)
      console.log(
        `${met.toLocaleString("en")} of these events are of items that their user had met before: a list may have those with seen: true, or where their type leaves nothing out (--leave-out).`,
      )
    console.log(CAVEAT)
  } finally {
    await contents.close()
  }
}

interface Plan {
  settings: readonly (readonly [string, Variant])[]
  types: Contents["types"]
  /** Whether types are to weigh other than they did. */
  isGiven: boolean
  count: number
  last: number
  every: number
  of: string | undefined
}

async function replay(contents: Contents, plan: Plan): Promise<Sums> {
  let total = 0
  const found = new Set<string>()
  for await (const { type } of contents.events()) {
    total++
    if (type !== undefined) found.add(type)
  }
  if (plan.of !== undefined && !found.has(plan.of)) {
    const there = found.size > 0 ? `there are ${[...found].slice(0, 8).join(", ")}` : "its events have no types"
    throw new DessError(
      "INVALID_DATA",
      `journal: expected events to predict, got none of type ${show(plan.of)} (${there})`,
    )
  }
  const from = Math.floor((1 - plan.last) * total)
  const { types } = plan
  const recommender = await Recommender.open({
    ...givenOptions(contents.created),
    ...(types && { types: types.weights, leaveOut: types.leaveOut }),
  })
  const progress = new Progress("estimate", total, 10_000)
  const sums: Sums = new Map()
  try {
    // Whatever has expired by now had not then.
    const items = [...contents.items()].map(({ expires: _, features, ...item }) =>
      features ? { ...item, features } : item,
    )
    for (let at = 0; at < items.length; at += MOST_AT_ONCE)
      await recommender.putItems(items.slice(at, at + MOST_AT_ONCE))
    let waiting: Event[] = []
    let due = 0
    let n = 0
    for await (const { weight, ...event } of contents.events()) {
      // As it was weighed then, but where types say something else now.
      const own = weight === undefined || (plan.isGiven && event.type !== undefined) ? event : { ...event, weight }
      const isLike = (weight ?? 1) > 0 && (plan.of === undefined || event.type === plan.of)
      if (n >= from && isLike && due++ % plan.every === 0) {
        if (waiting.length > 0) await recommender.observe(waiting, { replace: true })
        waiting = []
        const known = sums.get(event.user) ?? { lists: 0, met: 0, hits: plan.settings.map(() => 0) }
        sums.set(event.user, known)
        known.lists++
        if (recommender.history(event.user, { count: MOST_MET }).includes(event.item)) known.met++
        for (let s = 0; s < plan.settings.length; s++) {
          const list = await recommender.recommendAs(plan.settings[s][1], event.user, { count: plan.count })
          if (list.some(({ item }) => item === event.item)) known.hits[s]++
        }
      }
      waiting.push(own)
      n++
      if (n % SEGMENT === 0) {
        await recommender.observe(waiting, { replace: true })
        waiting = []
        await recommender.drain()
        progress.update(n)
      }
    }
  } finally {
    progress.done()
    await recommender.close()
  }
  return sums
}

function estimateOf(sums: Sums, name: string, s: number): Estimate {
  const users = [...sums.values()]
  const lists = Float64Array.from(users, (one) => one.lists)
  const hits = Float64Array.from(users, (one) => one.hits[s])
  const more = Float64Array.from(users, (one) => one.hits[s] - one.hits[0])
  return {
    name,
    hits: rateOf(hits, lists),
    difference: s === 0 ? undefined : interval(estimateRatio(more, lists)),
  }
}

function verdictOf({ name, difference }: Estimate, first: string): string {
  const { low = null, high = null } = difference ?? {}
  if (low !== null && low > 0) return `${name} has more hits than ${first}.`
  if (high !== null && high < 0) return `${name} has fewer hits than ${first}.`
  return `Whether ${name} or ${first} has more hits cannot be said from so few events (--every 1 or a larger --last takes more).`
}

function formatRate({ estimate, low, high }: ExperimentRate): string {
  const points = (share: number | null) => (100 * (share ?? 0)).toFixed(1)
  return low === null ? points(estimate) : `${points(estimate)} (${points(low)} to ${points(high)})`
}

function parseJson(flag: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new DessError("INVALID_ARGUMENT", `--${flag}: expected JSON, got ${show(text)}`)
  }
}
