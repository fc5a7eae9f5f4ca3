/**
 * Kills a recommender, or the service, under load, again and again (kill -9, at random moments, also inside snapshots,
 * erasures and compaction), while its disk is full, broken, read-only or out of descriptors and its clock is wrong, and
 * checks after every kill:
 *   - every acknowledged event was taken exactly once, every other one at most once;
 *   - the training state is that of a run that was never interrupted: the same journal learned from the beginning, or,
 *     where rows were erased or dropped, from the older snapshot;
 *   - of a user whose erasure was answered with "done" no file holds anything, of one answered with "pending" none does
 *     after the next start;
 *   - items have the properties they were put with, guests who were merged are nobody, and clicks on lists count once;
 *   - nobody has left because of a clock that was wrong for a moment;
 *   - after some kills: where one bit of a file is flipped, nothing is silently different, and `recover` helps.
 * The same seed gives the same faults; when the processes get where is up to the machine.
 * node tools/torture.mjs [--kills 50] [--seed 1] [--jobs 1] [--case plain] [--calm] [--verbose]
 * The long form: TMPDIR=/dev/shm node tools/torture.mjs --kills 1000 --jobs 4
 * It says how far it is, and, where it is stopped, how to go on.
 */

import { fork } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Random } from "../dist/kernels/random.js"
import { buildFaults, Faults } from "./faults/faults.mjs"
import { CASES } from "./torture/cases.mjs"
import { atOneMoment, examine, ghostsIn, inCopy, settleDirectory, snapshotsOf } from "./torture/checks.mjs"
import { checkFlip } from "./torture/flip.mjs"
import { ShopLedger } from "./torture/shop.mjs"
import { planStorm } from "./torture/storm.mjs"
import { workAndKill } from "./victim.mjs"

/** Every kill has numbers of its own; nobody sends as many. */
const STRIDE = 1_000_000
/** Sent and perhaps never told of. */
const UNTOLD = 2000
/** Kills of one directory; then a new one begins, with the next seed. */
const MOST_KILLS = 10
/** Between the first seeds of two processes. */
const SEEDS_PER_JOB = 10_000
/** Milliseconds between two lines of progress. */
const PROGRESS = 5000

/** Kills one case several times, with a directory of its own. */
class Round {
  #name
  #seed
  #case
  #isWhole
  #directory = mkdtempSync(join(tmpdir(), "dess-torture-"))
  #faults
  #random
  #say
  acknowledged = new Set()
  forgotten = new Set()
  #pending = new Set()
  #ranges = []
  #sent = []
  /** Found on disk after an earlier kill without having been acknowledged: from then on they stay. */
  #found = new Set()
  #shop = new ShopLedger()
  /** Events beside those that are numbered and those of users who were erased. */
  #unnumbered = 0

  constructor({ name, seed, isFaulty, say }) {
    this.#name = name
    this.#seed = seed
    this.#case = CASES[name]
    this.#isWhole = this.#case.options.keepJournal === "all"
    this.#random = new Random(seed, `torture ${name}`)
    this.#faults = isFaulty ? new Faults({ folder: this.#directory }) : undefined
    this.#say = say
  }

  get directory() {
    return this.#directory
  }

  close() {
    this.#faults?.close()
  }

  /** One kill and what is to hold after it; rejects where it does not. */
  async kill(number) {
    const told = await this.#work(number)
    for (const one of told.acknowledged) this.acknowledged.add(one)
    for (const user of told.forgotten) this.forgotten.add(user)
    for (const user of told.pending) this.#pending.add(user)
    const from = number * STRIDE
    this.#ranges.push({ from, to: told.acknowledged.reduce((most, one) => Math.max(most, one), from) + UNTOLD })
    this.#sent.push(...told.sent)
    for (const one of told.shop) this.#shop.add(one)
    if (told.hasSettled) this.#unnumbered++
    this.#findGhosts("after the kill")
    const found = await this.#compare()
    this.#checkEvents(found)
    if (this.#isWhole) this.#resolve(found)
    await this.#settle(found)
    if (this.#random.next() < 0.3) await this.#flip()
    return { ...told, accepted: found.accepted }
  }

  #work(number) {
    const { forgets = false, http = false, jumps = false, options } = this.#case
    const random = this.#random
    const isFaulty = this.#faults !== undefined
    // Mostly short, so that there are many; some long enough for writing to be refused and taken up again, twice.
    const longest = isFaulty && random.next() < 0.2 ? 3000 : forgets ? 1000 : 700
    const milliseconds = 100 + random.integer(longest)
    const isEarly = isFaulty && !http && random.next() < 0.2
    const movesClock = options.idle !== undefined && !jumps
    const storm = planStorm(random, milliseconds, { isEarly, movesClock })
    const settles = random.next() < 0.35
    if (isFaulty) for (const one of storm) this.#say(JSON.stringify(one))
    const seed = this.#seed * 1000 + number
    const job = { name: this.#name, directory: this.#directory, from: number * STRIDE, seed, isFaulty }
    const onForgotten = (user) => {
      for (const { user: found, file } of ghostsIn(this.#directory))
        if (found === user) this.#early ??= `${user} was erased, it was said, and is still in ${file}`
    }
    return workAndKill(job, { milliseconds, faults: this.#faults, storm, isEarly, settles, onForgotten })
  }

  /** A trace that was found while the victim worked. */
  #early

  #findGhosts(when) {
    if (this.#early) throw new Error(this.#early)
    for (const { user, file } of ghostsIn(this.#directory))
      if (this.forgotten.has(user)) throw new Error(`${user} was erased and is still in ${file}, ${when}`)
  }

  /** The state as it is taken up, and as it is learned again. */
  async #compare() {
    const { options, forgets = false } = this.#case
    const snapshots = snapshotsOf(this.#directory)
    const isFromStart = this.#isWhole && !forgets
    const without = isFromStart
      ? snapshots
      : options.keepJournal === "none"
        ? []
        : snapshots.length > 1
          ? snapshots.slice(0, 1)
          : []
    const groups = [[...this.acknowledged, ...this.#found], this.#others()]
    const [found, reference] = await atOneMoment(() =>
      Promise.all([
        inCopy(
          this.#directory,
          () => false,
          (copy) => examine(options, copy, { groups, ledger: this.#shop }),
        ),
        inCopy(
          this.#directory,
          (name) => without.includes(name),
          (copy) => examine(options, copy),
        ),
      ]),
    )
    if (found.hash !== reference.hash)
      throw new Error(
        `state ${found.hash} is not that of an uninterrupted run, ${reference.hash} (without ${without}; ${found.accepted} and ${reference.accepted} events)`,
      )
    if (found.problem) throw new Error(found.problem)
    return found
  }

  /** Numbers that may have been sent and were not acknowledged. */
  #others() {
    const all = new Set(this.#sent)
    for (const { from, to } of this.#ranges) for (let number = from; number < to; number++) all.add(number)
    for (const known of [this.acknowledged, this.#found]) for (const number of known) all.delete(number)
    return [...all]
  }

  /** Of what was sent so far it is known now what is there: nobody sends the rest any more, and it is not asked for again. */
  #resolve({ numbers }) {
    for (const number of numbers) if (!this.acknowledged.has(number)) this.#found.add(number)
    this.#ranges = []
    this.#sent = []
  }

  #checkEvents({ numbers, accepted, damaged, known: [known, others] }) {
    const { forgets = false } = this.#case
    if (damaged.length > 0) throw new Error(`nothing was damaged, and yet: ${damaged}`)
    const present = new Set(numbers)
    if (present.size !== numbers.length) throw new Error(`${numbers.length - present.size} events are there twice`)
    const durable = [...this.acknowledged, ...this.#found]
    const missing = this.#isWhole ? durable.filter((number) => !present.has(number)) : []
    if (missing.length > 0) throw new Error(`${missing.length} events are lost: ${missing.slice(0, 10)}`)
    if (known < durable.length) throw new Error(`${durable.length - known} events are not known any more`)
    if (this.#isWhole && present.size !== known + others)
      throw new Error(`${present.size} events are exported, of ${known + others} known ones`)
    if (!forgets && accepted !== known + others + this.#unnumbered)
      throw new Error(`${accepted} events were taken, of ${known + others + this.#unnumbered} known ones`)
  }

  /** Takes the directory up, as the next victim will. */
  async #settle(before) {
    const { numbers, damaged, memory, problem } = await settleDirectory(this.#case.options, this.#directory)
    if (problem) throw new Error(problem)
    if (damaged) throw new Error(`nothing was damaged, and yet: ${damaged}`)
    if (this.#isWhole && numbers.length !== before.numbers.length)
      throw new Error(`${numbers.length} events are exported, ${before.numbers.length} before`)
    for (const user of this.#pending) this.forgotten.add(user)
    this.#pending.clear()
    this.#findGhosts("after the next start")
    if (!this.#case.jumps) return
    const { left } = memory
    if (left.user + left.item > 0) throw new Error(`the clock jumped and they left: ${JSON.stringify(left)}`)
  }

  async #flip() {
    const problem = await checkFlip(this.#case, this.#directory, {
      random: this.#random,
      say: this.#say,
      numbers: [...this.acknowledged],
    })
    if (problem) throw new Error(problem)
  }
}

/**
 * Shares the kills among the cases, each time with the next seed; with fewer kills than cases the seed says which.
 * `onKill` is told how many there were, and with which seed how many are left, from the beginning of this directory.
 */
export async function torture({ kills, seed, only, isFaulty, onKill = () => {}, log = () => {}, say = () => {} }) {
  const result = { kills: 0, events: 0, forgotten: 0, refused: 0 }
  const names = only === undefined ? Object.keys(CASES) : [only]
  const most = Math.min(MOST_KILLS, Math.ceil(kills / names.length))
  for (let r = 0; result.kills < kills; r++) {
    const name = names[(r + seed) % names.length]
    const round = new Round({ name, seed: seed + r, isFaulty, say })
    let refused = 0
    let kill = 0
    try {
      const share = Math.min(most, kills - result.kills)
      for (; kill < share; kill++) {
        const told = await round.kill(kill)
        refused += told.refused
        result.kills++
        const left = kill + 1 < share ? kills - result.kills + kill + 1 : kills - result.kills
        onKill({ done: result.kills, left, next: seed + r + (kill + 1 < share ? 0 : 1) })
        log(
          `${name}, seed ${seed + r}, kill ${kill + 1}: ${round.acknowledged.size} acknowledged, ${told.accepted} taken, ${refused} refused and sent again, ${round.forgotten.size} erased`,
        )
      }
    } catch (cause) {
      const again = `npm run torture -- --case ${name} --seed ${seed + r} --kills ${kill + 1}${isFaulty ? "" : " --calm"}`
      throw new Error(
        `torture, case ${name}, seed ${seed + r}, kill ${kill + 1}: ${cause.message}\nits directory: ${round.directory}\nto see it again: ${again}`,
        { cause },
      )
    } finally {
      round.close()
    }
    rmSync(round.directory, { recursive: true, force: true })
    result.events += round.acknowledged.size
    result.forgotten += round.forgotten.size
    result.refused += refused
  }
  return result
}

const flag = (name, otherwise) => {
  const at = process.argv.indexOf(name)
  return at < 0 ? otherwise : process.argv[at + 1]
}

/** Says every few seconds how far it is. */
function showProgress(kills) {
  const started = Date.now()
  let shown = started
  return (done) => {
    const now = Date.now()
    if (now - shown < PROGRESS) return
    shown = now
    const minutes = (((now - started) / done) * (kills - done)) / 60_000
    console.error(
      `${done} of ${kills} kills, about ${minutes < 2 ? `${Math.round(minutes * 60)} s` : `${Math.round(minutes)} min`} to go`,
    )
  }
}

/** Shares the kills among processes of their own: a moment is one process's, so each tortures one directory at a time. */
async function tortureInProcesses({ kills, seed, jobs, only }) {
  const children = Array.from({ length: jobs }, (_, j) => {
    const share = Math.floor(kills / jobs) + (j < kills % jobs ? 1 : 0)
    const flags = process.argv.includes("--calm") ? ["--calm"] : []
    const given = [
      "--kills",
      share,
      "--seed",
      seed + j * SEEDS_PER_JOB,
      ...(only === undefined ? [] : ["--case", only]),
    ]
    return fork(fileURLToPath(import.meta.url), [...given.map(String), ...flags])
  })
  const sum = { kills: 0, events: 0, forgotten: 0, refused: 0 }
  const ended = children.map(
    (child) =>
      new Promise((resolve, reject) => {
        child.on("message", (result) => {
          for (const name of Object.keys(sum)) sum[name] += result[name]
        })
        child.on("exit", (code) =>
          code === 0 ? resolve() : reject(new Error("one of the processes failed, see above")),
        )
      }),
  )
  try {
    await Promise.all(ended)
    return sum
  } finally {
    for (const child of children) child.kill()
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--help")) {
    console.log(
      readFileSync(process.argv[1], "utf8")
        .split("*/")[0]
        .replace(/^\/?\*\*? ?|^ \*? ?/gm, "")
        .trim(),
    )
    process.exit()
  }
  const started = Date.now()
  const [kills, seed, jobs, only] = [flag("--kills", 50), flag("--seed", 1), flag("--jobs", 1), flag("--case")]
  const { reason } = buildFaults()
  const isFaulty = reason === undefined && !process.argv.includes("--calm")
  if (reason !== undefined) console.error(`without faults of the disk: ${reason}`)
  const plan = { kills: Number(kills), seed: Number(seed), jobs: Number(jobs), only, isFaulty }
  const progress = showProgress(plan.kills)
  let rest
  const onKill = ({ done, left, next }) => {
    progress(done)
    const others = [...(only === undefined ? [] : ["--case", only]), ...(isFaulty ? [] : ["--calm"])]
    rest = `${done} kills survived; to go on: ${["npm run torture -- --kills", left, "--seed", next, ...others].join(" ")}`
  }
  for (const signal of ["SIGINT", "SIGTERM"])
    process.on(signal, () => {
      if (rest !== undefined) console.error(rest)
      process.exit(130)
    })
  const log = (text) => console.log(text)
  const say = process.argv.includes("--verbose") ? (text) => console.error(`  ${text}`) : undefined
  try {
    const result = await (plan.jobs > 1 ? tortureInProcesses(plan) : torture({ ...plan, onKill, log, say }))
    process.send?.(result)
    console.log(
      `${result.kills} kills survived: ${result.events} acknowledged events once each, ${result.refused} times refused and sent again, ${result.forgotten} users erased, ${Math.round((Date.now() - started) / 1000)} s`,
    )
    process.disconnect?.()
  } catch (error) {
    console.error(error.message)
    if (process.argv.includes("--verbose")) console.error(error.cause)
    process.exit(1)
  }
}
