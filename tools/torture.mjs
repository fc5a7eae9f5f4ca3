/**
 * Kills a recommender, or the service, under load, again and again (kill -9, at random moments, also inside snapshots,
 * forgetting and compaction), and checks after every kill:
 *   - every acknowledged event was taken exactly once, every other one at most once;
 *   - the training state is that of a run that was never interrupted: the same journal learned from the beginning, or,
 *     where rows were erased or dropped, from the older snapshot;
 *   - no trace of a user whose removal was acknowledged is left in any file.
 * node tools/torture.mjs [--kills 50] [--seed 1] [--case plain]
 */

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Recommender } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"
import { CASES, event, isNumbered, numberOf, openCase, workAndKill } from "./victim.mjs"

/** Every kill has numbers of its own; nobody sends as many. */
const STRIDE = 1_000_000
/** Sent and perhaps never told of. */
const UNTOLD = 2000

/** A copy of a directory as it is, without some of its snapshots, which are listed newest first. */
async function inCopy(directory, without, action) {
  const copy = mkdtempSync(join(tmpdir(), "dess-torture-copy-"))
  try {
    cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") })
    const snapshots = readdirSync(copy)
      .filter((name) => /^snapshot-\d+\.safetensors$/.test(name))
      .sort()
      .reverse()
    for (const name of without(snapshots)) rmSync(join(copy, name))
    return await action(copy)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** The state hash of a directory, how many events it has taken, and the numbers of those it keeps. */
async function examine(options, directory) {
  const recommender = await openCase(options, directory)
  const numbers = []
  for await (const event of recommender.events()) if (isNumbered(event)) numbers.push(numberOf(event))
  const hash = await recommender.hash()
  const { accepted } = recommender.status().events
  await recommender.close()
  return { hash, numbers, accepted }
}

/** Sends groups of numbers once more: how many of each were known. */
async function sendAgain(directory, groups) {
  const recommender = await Recommender.open({ directory, queue: 10_000_000, delay: "1h" })
  const known = []
  for (const numbers of groups) {
    let count = 0
    for (let at = 0; at < numbers.length; at += 5000) {
      const some = numbers.slice(at, at + 5000).map((number) => event(number, "somebody", "something"))
      count += (await recommender.observe(some)).duplicates
    }
    known.push(count)
  }
  await recommender.close()
  return known
}

/** Kills one case several times. */
async function tortureCase(name, { kills, seed, fail, log }) {
  const { options, forgets = false } = CASES[name]
  const { keepJournal = false } = options
  const random = new Random(seed, `torture ${name}`)
  const directory = mkdtempSync(join(tmpdir(), "dess-torture-"))
  const acknowledged = new Set()
  const forgotten = []
  const ranges = []
  for (let kill = 0; kill < kills; kill++) {
    const from = kill * STRIDE
    const job = { name, directory, from, seed: seed * 1000 + kill }
    const told = await workAndKill(job, 150 + random.integer(forgets ? 2000 : 900))
    for (const number of told.acknowledged) acknowledged.add(number)
    forgotten.push(...told.forgotten)
    ranges.push({ from, to: told.acknowledged.reduce((most, number) => Math.max(most, number), from) + UNTOLD })
    const { hash, numbers, accepted } = await examine(options, directory)
    const whole = keepJournal && !forgets
    const reference = await inCopy(
      directory,
      (snapshots) => (whole ? snapshots : snapshots.slice(0, -1)),
      (copy) => examine(options, copy),
    )
    if (hash !== reference.hash) fail(`state ${hash} is not that of an uninterrupted run, ${reference.hash}`)
    const present = new Set(numbers)
    if (present.size !== numbers.length) fail(`${numbers.length - present.size} events are there twice`)
    if (keepJournal) for (const number of acknowledged) if (!present.has(number)) fail(`event ${number} is lost`)
    const none = () => []
    const all = new Set(
      forgets ? [] : ranges.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, n) => from + n)),
    )
    for (const number of acknowledged) all.delete(number)
    const [known, others] = await inCopy(directory, none, (copy) => sendAgain(copy, [[...acknowledged], [...all]]))
    if (known < acknowledged.size) fail(`${acknowledged.size - known} acknowledged events are not known any more`)
    if (!forgets && known + others !== accepted) fail(`${accepted} events were taken, of ${known + others} known ones`)
    for (const user of forgotten)
      for (const file of readdirSync(directory))
        if (readFileSync(join(directory, file)).includes(user)) fail(`${user} was forgotten and is still in ${file}`)
    log(
      `${name}, kill ${kill + 1}: ${acknowledged.size} acknowledged, ${accepted} taken, ${forgotten.length} forgotten`,
    )
  }
  rmSync(directory, { recursive: true, force: true })
  return { events: acknowledged.size, forgotten: forgotten.length }
}

/** Shares the kills among the cases; with fewer kills than cases the seed says which. */
export async function torture({ kills, seed, only, log = () => {} }) {
  const result = { kills: 0, events: 0, forgotten: 0 }
  const names = only === undefined ? Object.keys(CASES) : [only]
  for (let c = 0; c < names.length; c++) {
    const name = names[(c + seed) % names.length]
    const share = Math.floor(kills / names.length) + (c < kills % names.length ? 1 : 0)
    if (share === 0) continue
    const fail = (text) => {
      throw new Error(`torture, case ${name}, seed ${seed}: ${text}`)
    }
    const { events, forgotten } = await tortureCase(name, { kills: share, seed, fail, log })
    result.kills += share
    result.events += events
    result.forgotten += forgotten
  }
  return result
}

const flag = (name, otherwise) => {
  const at = process.argv.indexOf(name)
  return at < 0 ? otherwise : process.argv[at + 1]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const started = Date.now()
  const result = await torture({
    kills: Number(flag("--kills", 50)),
    seed: Number(flag("--seed", 1)),
    only: flag("--case"),
    log: console.log,
  })
  console.log(
    `${result.kills} kills survived: ${result.events} acknowledged events once each, ${result.forgotten} users forgotten, ${Math.round((Date.now() - started) / 1000)} s`,
  )
}
