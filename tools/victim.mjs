/** What `torture.mjs` kills: a recommender in a process of its own, or the service, and the load on it. */

import { fork, spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Recommender } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"

const SMALL = { method: "dess-fre", model: "mf", sizes: [2, 4, 8], threads: 1, segment: 50, delay: 20 }
const EAGER = { ...SMALL, snapshotEvents: 400 }
const LIMITS = { memoryBudget: 100_000, idle: { shrink: "1s", leave: "2s" } }

/** `ids`: users and items, so many of each. */
export const CASES = {
  plain: { options: { ...EAGER, keepJournal: true }, ids: 150 },
  /** Users are forgotten meanwhile. */
  forgetting: { options: { ...EAGER, keepJournal: true }, ids: 150, forgets: true },
  /** Ids shrink and leave, and their numbers are given to others. */
  limits: { options: { ...EAGER, ...LIMITS, keepJournal: true }, ids: 2000 },
  /** And the journal is truncated, as it is unless one asks for it. */
  truncated: { options: { ...EAGER, ...LIMITS }, ids: 2000 },
  ncf: { options: { ...EAGER, model: "ncf" }, ids: 150 },
  /** `dess serve`. */
  service: { options: EAGER, ids: 150, forgets: true, http: true },
}

/** Numbers travel as timestamps. */
const EPOCH = 1_600_000_000

export const isNumbered = ({ timestamp }) => timestamp >= EPOCH
export const numberOf = ({ timestamp }) => timestamp - EPOCH
export const event = (number, user, item, rating = 5) => {
  return { user, item, rating, timestamp: EPOCH + number, key: `key ${number}` }
}

export function openCase(options, directory) {
  return Recommender.open({ ...options, directory })
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Observes, takes snapshots, forgets; tells what was acknowledged. Ends with the target. */
async function load(target, { name, from, seed }, tell) {
  const { ids, forgets = false } = CASES[name]
  const random = new Random(seed, "torture load")
  const pick = (word) => `${word} ${random.integer(ids)}`
  let next = from
  let ghosts = 0
  const observing = async () => {
    for (;;) {
      const events = Array.from({ length: 1 + random.integer(40) }, () =>
        event(next++, pick("user"), pick("item"), 1 + random.integer(5)),
      )
      await target.observe(events)
      tell({ acknowledged: events.map(numberOf) })
      // Forgetting waits for what was accepted before it; let it get there.
      if (forgets) await wait(20)
    }
  }
  const others = async () => {
    for (;;) {
      await wait(random.integer(forgets ? 40 : 120))
      if (!forgets || random.next() < 0.25) await target.snapshot()
      else {
        const user = `ghost-${seed}-${ghosts++}!`
        await target.observe([{ user, item: pick("item"), timestamp: EPOCH - 1 }])
        await target.note?.(user)
        await target.forget(user)
        tell({ forgotten: user })
      }
    }
  }
  await Promise.all([observing(), observing(), others()])
}

/** A service as a target. */
function connect(url) {
  const call = async (method, path, body) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" }
    const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  return {
    observe: (events) => call("POST", "/v1/interactions", events),
    snapshot: () => call("POST", "/v1/snapshots"),
    note: (user) => call("POST", "/api/user", { UserId: user, Comment: `about ${user}` }),
    forget: (user) => call("DELETE", `/v1/users/${encodeURIComponent(user)}`),
  }
}

/** Lets a process work and kills it so long after it has started; what was acknowledged. */
export function workAndKill(job, milliseconds) {
  const { options, http = false } = CASES[job.name]
  return new Promise((resolve, reject) => {
    const told = { acknowledged: [], forgotten: [] }
    const tell = ({ acknowledged = [], forgotten = [] }) => {
      told.acknowledged.push(...acknowledged)
      told.forgotten.push(...[forgotten].flat())
    }
    let loading = Promise.resolve()
    let complaint = ""
    const child = http ? startService(options, job.directory) : startRecommender(job)
    const killSoon = () => setTimeout(() => child.kill("SIGKILL"), milliseconds)
    child.stderr.on("data", (text) => {
      complaint += text
      if (!http || !String(text).includes("ready;")) return
      killSoon()
      const [url] = /http:\/\/\S+/.exec(complaint)
      loading = load(connect(url), job, tell).catch((error) => error)
    })
    child.on("message", (message) => {
      if (message.started) killSoon()
      else tell(message)
    })
    child.on("close", async (_, signal) => {
      const error = await loading
      // A refusal came from a service that was alive.
      if (signal !== "SIGKILL") reject(new Error(`the victim ended by itself: ${complaint}`))
      else if (error && !/fetch failed|terminated/.test(error.message)) reject(error)
      else resolve(told)
    })
  })
}

function startRecommender(job) {
  const program = fileURLToPath(import.meta.url)
  return fork(program, ["--work", JSON.stringify(job)], { stdio: ["ignore", "ignore", "pipe", "ipc"] })
}

function startService({ sizes, delay, ...rest }, directory) {
  const settings = { ...rest, sizes: sizes.join(","), delay: `${delay}ms`, directory, port: 0 }
  const flags = Object.entries(settings).flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    String(value),
  ])
  const program = join(import.meta.dirname, "../dist/cli/main.js")
  return spawn(process.execPath, [program, "serve", ...flags], { stdio: ["ignore", "ignore", "pipe"] })
}

const at = process.argv.indexOf("--work")
if (at > 0 && process.argv[1] === fileURLToPath(import.meta.url)) {
  const job = JSON.parse(process.argv[at + 1])
  const recommender = await openCase(CASES[job.name].options, job.directory)
  process.send({ started: true })
  await load(recommender, job, (message) => process.send(message))
}
