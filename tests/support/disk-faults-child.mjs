/**
 * A recommender on a disk that fails: goes through scenarios with one fault each, again and again, in one process that
 * controls its own faults. Reads a plan from the environment and prints a line of JSON for each run.
 *
 *   PLAN: [{ scenario, code, classes, failAt, failCount }]; failAt -1 counts the operations
 *   FOLDER: an empty folder; its folder "disk" is the one whose operations fail
 */

import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs"
import { join } from "node:path"
import { FILE_HEADER_BYTES, FrameReader } from "../../dist/engine/frames.js"
import { decodeRecord } from "../../dist/engine/records.js"
import { DessError, Recommender } from "../../dist/index.js"
import { Faults } from "../../tools/faults/faults.mjs"

const { FOLDER: folder, PLAN } = process.env
const DISK = join(folder, "disk")
const COPY = join(folder, "copy")
const TEMPLATE = join(folder, "template")
/** Milliseconds after which something that should have happened has not. */
const PATIENCE = 8000
/** Refusals before a lasting fault ends. */
const MOST_REFUSALS = 2
const OPTIONS = { segment: 16, delay: 50, threads: 1, sizes: [2, 4], snapshotEvents: 70, publishDelay: 0 }
const KNOWN = /^(dess\.json|journal-\d{12}\.log|snapshot-\d{12}\.safetensors|lookup-\d+-\d+\.run)$/

const faults = Faults.own()
let armed
let problems = []
process.on("unhandledRejection", (error) => problems.push(`unheard: ${error?.stack ?? error}`))
process.on("uncaughtException", (error) => problems.push(`uncaught: ${error?.stack ?? error}`))

/** Does something that neither fails nor counts. */
function calmly(action) {
  const { operations, failed, matchedByClass } = faults.counts()
  faults.disarm()
  try {
    return action()
  } finally {
    if (armed) {
      armed.before += operations
      armed.failed += failed
      add(armed.byClass, matchedByClass)
      const isOver = armed.failCount !== -1 && armed.failed > 0
      const failAt = armed.failAt === -1 || isOver ? -1 : Math.max(1, armed.failAt - armed.before)
      faults.arm({ ...armed.fault, failAt })
    }
  }
}

function arm({ code, classes, failAt, failCount }) {
  armed = { fault: { folder: DISK, code, classes, failCount }, failAt, failCount, before: 0, failed: 0, byClass: {} }
  faults.arm({ ...armed.fault, failAt })
}

/** What was counted until now. */
function disarm() {
  faults.disarm()
  if (!armed) return { operations: 0, failed: 0, byClass: {} }
  const { operations, failed, matchedByClass } = faults.counts()
  const { byClass, before } = armed
  add(byClass, matchedByClass)
  const total = { operations: operations + before, failed: failed + armed.failed, byClass }
  armed = undefined
  return total
}

function add(sums, numbers) {
  for (const [name, count] of Object.entries(numbers)) sums[name] = (sums[name] ?? 0) + count
}

/** One run: what was asked for and how it was answered. */
class Story {
  recommender
  options
  path
  counted
  /** Told by the time stamp, which is an event's number. */
  taken = new Map()
  refused = new Map()
  erased = new Set()
  pending = new Set()
  retracted = new Set()
  notes = new Map()
  refusals = 0
  /** Writes that were refused, in words. */
  log = []
  next = 1000
  reads = 0
  /** Of those that were refused, the ones that may be there all the same. */
  mayStay = new Set()
  #reading

  constructor(path, options = {}) {
    this.path = path
    this.options = { ...OPTIONS, directory: path, ...options }
  }

  problem(text) {
    problems.push(text)
  }

  /** Does something under the fault. Resolves with its result, or undefined where it was refused. */
  async attempt(name, codes, action) {
    let timer
    const late = new Promise((_, reject) => {
      timer = setTimeout(reject, PATIENCE, new Error("it never came to an end"))
    })
    try {
      return await Promise.race([action(), late])
    } catch (error) {
      this.log.push(`${name}: ${error.code}`)
      if (!(error instanceof DessError && codes.includes(error.code)))
        this.problem(`${name}: expected ${codes}, got ${error.code} ${error.stack}`)
      if (++this.refusals >= MOST_REFUSALS) await this.recover()
      return undefined
    } finally {
      clearTimeout(timer)
    }
  }

  write(name, action) {
    return this.attempt(name, ["CLOSED"], action)
  }

  async open() {
    const open = () => Recommender.open(this.options)
    this.recommender = await this.attempt("open", ["UNAVAILABLE", "INVALID_ARGUMENT", "INVALID_DATA"], open)
    if (!this.recommender) {
      this.end()
      try {
        this.recommender = await open()
      } catch (error) {
        this.problem(`second open: ${error.stack}`)
        throw error
      }
    }
    this.read()
    if (this.options.replay !== "behind") return
    const caughtUp = this.recommender.caughtUp().catch((error) => this.problem(`replay: ${error.stack}`))
    // A disk that cannot be read is waited for; what is asked for meanwhile is refused.
    await Promise.race([caughtUp, new Promise((resolve) => setTimeout(resolve, 3000).unref())])
  }

  async close() {
    clearInterval(this.#reading)
    const { recommender } = this
    // What was written and could neither be flushed nor cut off again may be there after a restart.
    if (armed && recommender.status().state === "refusing") this.mayStay = new Set(this.refused.keys())
    this.recommender = undefined
    await this.attempt("close", [], () => recommender.close())
  }

  /** Reads all the while. */
  read() {
    const { recommender } = this
    const user = this.options.reader ?? "u1"
    const look = () => {
      if (this.recommender !== recommender) return
      recommender.status()
      recommender.recommend(user).then(
        () => this.reads++,
        (error) => this.recommender === recommender && this.problem(`recommend: ${error.stack}`),
      )
    }
    look()
    this.#reading = setInterval(look, 12)
  }

  end() {
    this.counted ??= disarm()
  }

  /** The fault ends; writing is taken up again without a restart. */
  async recover() {
    this.end()
    const { recommender } = this
    if (!recommender) return
    await until(() => recommender.status().state === "learning", PATIENCE)
    const { state, reason } = recommender.status()
    if (state !== "learning") this.problem(`after the fault: expected learning, got ${state} ${reason}`)
  }

  events(count, more = () => ({})) {
    return Array.from({ length: count }, () => {
      const n = this.next++
      return { user: `u${n % 7}`, item: `i${(n * 5) % 23}`, timestamp: n, ...more(n) }
    })
  }

  async observe(count, more) {
    const events = this.events(count, more)
    const result = await this.write("observe", () => this.recommender.observe(events))
    for (const event of events) (result ? this.taken : this.refused).set(event.timestamp, event)
    if (result && result.accepted !== count) this.problem(`observe: expected ${count}, got ${JSON.stringify(result)}`)
  }

  /** Events that go into the lookup table. */
  observeNoted(count) {
    return this.observe(count, (n) => ({ key: `k${n}`, ...(n % 2 ? { type: `t${n}`, comment: `c${n}` } : {}) }))
  }

  async note(id, text) {
    const note = { labels: { text } }
    const put = () => this.recommender.putNotes("user", [{ id, note }]).then(() => true)
    if (await this.write("putNotes", put)) this.notes.set(id, JSON.stringify(note))
  }

  async retract() {
    const event = [...this.taken.values()].find(({ type, timestamp }) => type && !this.retracted.has(timestamp))
    if (!event) return
    const retract = () => this.recommender.retract(event.user, event.item, event.type)
    if ((await this.write("retract", retract)) !== undefined) this.retracted.add(event.timestamp)
  }

  async forget(user) {
    const receipt = await this.write("forget", () => this.recommender.forget(user))
    if (!receipt) return
    this.erased.add(user)
    if (receipt.status === "pending") this.pending.add(user)
    for (const [n, event] of this.taken) if (event.user === user) this.taken.delete(n)
    for (const [n, event] of this.refused) if (event.user === user) this.refused.delete(n)
    if (receipt.status === "done") calmly(() => this.look("when forget was done", user))
  }

  snapshot() {
    return this.attempt("snapshot", ["CLOSED", "UNAVAILABLE"], () => this.recommender.snapshot())
  }

  look(when, user) {
    const where = namesIn(this.path, user)
    if (where.length > 0) this.problem(`${when}: ${user} is in ${where}`)
  }

  /** After everything: it is as it should be. */
  async check({ replays }) {
    await this.recover()
    if (!this.recommender) await this.open()
    const { recommender } = this
    await until(() => recommender.status().erasures.pending === 0, PATIENCE)
    const { erasures, damaged } = recommender.status()
    if (erasures.pending > 0) this.problem(`erasures: ${JSON.stringify(erasures)}`)
    // A snapshot that could not be read is passed over; nothing else may be damaged.
    const worse = damaged?.filter((text) => !/^snapshot-/.test(text)) ?? []
    if (worse.length > 0) this.problem(`damaged: ${worse}`)
    const before = this.log.length
    await this.observe(3)
    await this.observeNoted(4)
    if (this.log.length > before) this.problem(`after the fault: refused ${this.log.slice(before)}`)
    const keyed = [...this.taken.values()].filter(({ key }) => key)
    const again = await recommender.observe(keyed)
    if (again.accepted > 0) this.problem(`keys: ${JSON.stringify(again)} of ${keyed.length}`)
    await this.#checkEvents()
    await this.#checkLookup()
    const hash = await recommender.hash()
    if (this.reads === 0) this.problem("nothing was read")
    await this.#checkCopy(hash, { replays })
    await this.close()
    const names = readdirSync(this.path)
    if (names.some((name) => !KNOWN.test(name)) || names.filter((name) => name.startsWith("snapshot")).length > 2)
      this.problem(`files: ${names}`)
    for (const user of this.erased) this.look("in the end", user)
  }

  async #checkEvents() {
    if (this.options.keepJournal) return
    const found = new Map()
    for await (const { timestamp } of this.recommender.events()) found.set(timestamp, (found.get(timestamp) ?? 0) + 1)
    for (const n of this.taken.keys())
      if (found.get(n) !== 1) this.problem(`event ${n}: there ${found.get(n) ?? 0} times`)
    for (const n of this.refused.keys())
      if (found.has(n) && !(this.mayStay.has(n) && found.get(n) === 1)) this.problem(`event ${n}: refused and there`)
    for (const n of found.keys())
      if (!this.taken.has(n) && !this.refused.has(n) && n >= 1000) this.problem(`event ${n}: nobody's`)
  }

  async #checkLookup() {
    const { recommender } = this
    const found = new Set()
    let after
    do {
      const { feedback, next } = await recommender.feedback({ ...(after && { after }), count: 1000 })
      for (const { timestamp } of feedback) found.add(timestamp)
      after = next
    } while (after)
    for (const [n, { type, item }] of this.taken)
      if (type && item !== this.gone && !this.retracted.has(n) && !found.has(n)) this.problem(`feedback ${n}: lost`)
    for (const n of this.refused.keys())
      if (found.has(n) && !this.mayStay.has(n)) this.problem(`feedback ${n}: refused and there`)
    for (const n of this.retracted) if (found.has(n)) this.problem(`feedback ${n}: retracted and there`)
    for (const [id, note] of this.notes) {
      const kept = JSON.stringify(recommender.note("user", id))
      if (kept !== note && !this.erased.has(id)) this.problem(`note of ${id}: ${kept}`)
    }
  }

  /** What a start would make of the files as they are now: from the newest snapshot, and from the whole journal. */
  async #checkCopy(hash, { replays }) {
    for (const whole of replays ? [false, true] : [false]) {
      rmSync(COPY, { recursive: true, force: true })
      const isSnapshot = (name) => /snapshot-/.test(name)
      cpSync(this.path, COPY, {
        recursive: true,
        filter: (name) => !/\.sock/.test(name) && !(whole && isSnapshot(name)),
      })
      try {
        const copy = await Recommender.open({ ...this.options, directory: COPY, replay: "wait" })
        const other = await copy.hash()
        if (other !== hash) this.problem(`hash: expected ${hash.slice(0, 8)}, got ${other.slice(0, 8)}, whole ${whole}`)
        await copy.close()
      } catch (error) {
        this.problem(`copy: ${error.stack}`)
      }
    }
  }
}

async function until(condition, milliseconds) {
  const start = Date.now()
  while (!condition() && Date.now() - start < milliseconds) await new Promise((resolve) => setTimeout(resolve, 10))
}

/** Files in which a name can be read. */
function namesIn(path, name) {
  const found = []
  const bytes = Buffer.from(name)
  for (const entry of readdirSync(path, { recursive: true })) {
    const file = join(path, entry)
    if (statSync(file).isFile() && !entry.endsWith(".sock") && readFileSync(file).includes(bytes)) found.push(entry)
  }
  for (const entry of readdirSync(path)) {
    if (!/^journal-\d+\.log$/.test(entry)) continue
    const file = openSync(join(path, entry), "r")
    const size = statSync(join(path, entry)).size
    const frames = new FrameReader({ file, size, at: FILE_HEADER_BYTES, position: Number(/\d+/.exec(entry)[0]) })
    for (const { position, records } of frames)
      records.forEach((bytes, r) => {
        const record = decodeRecord(bytes, position + r)
        if (JSON.stringify(record).includes(name)) found.push(`record ${position + r} (${record.kind})`)
      })
    closeSync(file)
  }
  return found
}

/** A directory as a crash leaves it: with a snapshot, a lookup table, and records behind both. */
async function makeTemplate() {
  const made = join(folder, "made")
  const recommender = await Recommender.open({ ...OPTIONS, directory: made })
  const some = (from, count, more) =>
    recommender.observe(
      Array.from({ length: count }, (_, n) => ({
        user: n % 5 === 0 ? (n % 2 ? "ANNA-who-goes" : "BERT-who-goes") : `u${n % 7}`,
        item: `i${(n * 5) % 23}`,
        timestamp: from + n,
        ...more?.(n),
      })),
    )
  await some(1, 40)
  await some(100, 20, (n) => ({ key: `t${n}`, type: "seen", comment: `hm ${n}` }))
  await recommender.putNotes("user", [
    { id: "ANNA-who-goes", note: { comment: "x" } },
    { id: "u1", note: { comment: "y" } },
  ])
  await recommender.snapshot()
  await some(200, 40)
  await some(300, 20, (n) => ({ key: `s${n}`, type: "liked" }))
  await recommender.drain()
  cpSync(made, TEMPLATE, { recursive: true, filter: (name) => !/\.sock/.test(name) })
  await recommender.close()
}

async function ingest(story) {
  await story.observe(20)
  await story.observeNoted(10)
  await story.write("putItems", () =>
    story.recommender.putItems([
      { item: "i1", categories: ["a"] },
      { item: "put", hidden: true },
    ]),
  )
  await story.note("u1", "one")
  await story.snapshot()
  await story.observe(20)
  await story.retract()
  if ((await story.write("deleteItems", () => story.recommender.deleteItems(["i2"]))) !== undefined) story.gone = "i2"
  await story.observeNoted(10)
  await story.snapshot()
  await story.observe(40)
  await story.observeNoted(40)
  await story.snapshot()
  await story.observe(5)
}

const SCENARIOS = {
  /** A new directory. */
  async new(isArmed) {
    const story = new Story(join(DISK, "new", "directory"))
    isArmed(story)
    await story.open()
    await story.observe(20)
    await story.observeNoted(5)
    await story.close()
    await story.open()
    await story.observe(5)
    await story.check({ replays: true })
  },
  /** Everything but erasing, with the whole journal kept. */
  async work(isArmed) {
    const story = new Story(join(DISK, "work"))
    cpSync(TEMPLATE, story.path, { recursive: true })
    isArmed(story)
    await story.open()
    await ingest(story)
    await story.close()
    // Limits are written at the start.
    story.options.memoryBudget = "1MB"
    await story.open()
    await story.observe(5)
    await story.check({ replays: true })
  },
  /** The same with as little of the journal as possible, replayed behind. */
  async short(isArmed) {
    const story = new Story(join(DISK, "short"), { keepJournal: "none", replay: "behind" })
    cpSync(TEMPLATE, story.path, { recursive: true })
    isArmed(story)
    await story.open()
    await ingest(story)
    await story.close()
    await story.open()
    await story.check({ replays: false })
  },
  async erase(isArmed) {
    const story = new Story(join(DISK, "erase"))
    cpSync(TEMPLATE, story.path, { recursive: true })
    isArmed(story)
    await story.open()
    await story.observe(20, (n) => (n % 3 ? {} : { user: "ANNA-who-goes" }))
    await story.snapshot()
    await story.observeNoted(6)
    await story.forget("ANNA-who-goes")
    await story.observe(20)
    await story.forget("BERT-who-goes")
    await story.observe(5, (n) => (n % 3 ? {} : { user: "CARL-who-goes" }))
    await story.close()
    await story.open()
    await story.forget("CARL-who-goes")
    await story.check({ replays: false })
  },
}

await makeTemplate()
for (const plan of JSON.parse(PLAN)) {
  problems = []
  const started = Date.now()
  rmSync(DISK, { recursive: true, force: true })
  mkdirSync(DISK, { recursive: true })
  let story
  try {
    await SCENARIOS[plan.scenario]((one) => {
      story = one
      arm(plan)
    })
  } catch (error) {
    problems.push(`scenario: ${error.stack}`)
  }
  const { operations, failed, byClass } = story?.counted ?? disarm()
  disarm()
  if (story?.recommender) await story.close()
  // Promises that nobody hears are told of a little later.
  await new Promise((resolve) => setTimeout(resolve, 5))
  const milliseconds = Date.now() - started
  const result = { ...plan, operations, failed, byClass, log: story?.log, problems: problems.slice(0, 6), milliseconds }
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
if (existsSync(COPY)) rmSync(COPY, { recursive: true })
process.exit(0)
