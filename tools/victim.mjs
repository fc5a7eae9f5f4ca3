/** What `torture.mjs` kills: a recommender in a process of its own, or the service, with the load and the faults on it. */

import { fork, spawn } from "node:child_process"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Random } from "../dist/kernels/random.js"
import { CASES, openCase, until, wait } from "./torture/cases.mjs"
import { isRefusal, load, settle } from "./torture/load.mjs"
import { beRude } from "./torture/rude.mjs"
import { beginStorm, calmDown } from "./torture/storm.mjs"

/** Where the numbers of rude clients begin, behind those of the load. */
export const RUDE_NUMBERS = 500_000
/** Milliseconds until a victim must have started, and until it must be well again. */
const PATIENCE = 90_000

/** A service as a target. */
function connect(url) {
  const call = async (method, path, body) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" }
    const response = await fetch(url + path, { method, headers, body: JSON.stringify(body) })
    if (response.ok) return response.json()
    const error = new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    throw Object.assign(error, { code: response.status })
  }
  return {
    observe: (events) => call("POST", "/v1/interactions", events),
    snapshot: () => call("POST", "/v1/snapshots"),
    note: (user) => call("POST", "/api/user", { UserId: user, Comment: `about ${user}` }),
    forget: (user) => call("DELETE", `/v1/users/${encodeURIComponent(user)}`),
    putItems: (items) => call("PUT", "/v1/items", items),
    deleteItem: (item) => call("DELETE", `/v1/items/${encodeURIComponent(item)}`),
    merge: (guest, user) => call("POST", `/v1/users/${encodeURIComponent(user)}/merge`, { guest }),
    list: async (user) => {
      const response = await fetch(`${url}/v1/users/${encodeURIComponent(user)}/recommendations`)
      if (!response.ok) throw Object.assign(new Error(await response.text()), { code: response.status })
      return { id: response.headers.get("dess-list"), items: (await response.json()).map(({ item }) => item) }
    },
    status: () => call("GET", "/v1/status"),
    /** Requests under way beside the one that asks. */
    active: async () => {
      const text = await (await fetch(`${url}/metrics`)).text()
      return Number(/^dess_requests_active (\d+)/m.exec(text)?.[1]) - 1
    },
  }
}

/** A recommender as a target. */
function wrap(recommender) {
  return {
    observe: (events) => recommender.observe(events),
    snapshot: () => recommender.snapshot(),
    note: (user) => recommender.putNotes("user", [{ id: user, note: { comment: `about ${user}` } }]),
    forget: (user) => recommender.forget(user),
    putItems: (items) => recommender.putItems(items),
    deleteItem: (item) => recommender.deleteItems(item),
    merge: (guest, user) => recommender.merge(guest, user),
    list: async (user) => {
      const list = await recommender.recommend(user)
      return { id: list.id, items: list.map(({ item }) => item) }
    },
    status: async () => recommender.status(),
  }
}

/**
 * Lets a process work and kills it this long after the first answer. `storm`: faults meanwhile; `isEarly`: all that from
 * its start on. `settles`: before the kill the disk is well again, and so must everything else be. `onForgotten` is told of
 * users the moment their erasure is done. Returns what was told.
 */
export async function workAndKill(job, { milliseconds, faults, storm, isEarly, settles, onForgotten }) {
  const { options, http = false } = CASES[job.name]
  const told = { acknowledged: [], forgotten: [], pending: [], sent: [], shop: [], refused: 0, hasSettled: settles }
  let work = () => {}
  const working = new Promise((resolve) => {
    work = resolve
  })
  const tell = ({ acknowledged = [], forgotten, pending, shop, refused = 0 }) => {
    work()
    told.acknowledged.push(...acknowledged)
    told.refused += refused
    if (forgotten !== undefined) {
      told.forgotten.push(forgotten)
      onForgotten(forgotten)
    }
    if (pending !== undefined) told.pending.push(pending)
    if (shop !== undefined) told.shop.push(shop)
  }
  let endStorm = () => {}
  if (faults) {
    calmDown(faults)
    if (isEarly) endStorm = beginStorm(faults, storm)
  }
  const env = faults ? { ...process.env, ...faults.env() } : process.env
  const child = http ? startService(options, job.directory, env) : startRecommender(job, env)
  const victim = watch(child, { http, tell })
  try {
    const service = http ? workOn(await victim.started, job, tell) : undefined
    if (!isEarly) await victim.inTime(working, "working")
    if (faults && !isEarly) endStorm = beginStorm(faults, storm)
    await Promise.race([wait(milliseconds), victim.ended, service?.failed ?? victim.ended])
    if (settles) {
      endStorm()
      const problem = await (service ? service.settle() : victim.settle())
      if (problem) throw new Error(problem)
    }
    const isAlive = child.exitCode === null && child.signalCode === null
    child.kill("SIGKILL")
    const complaint = await victim.ended
    if (!isAlive) throw new Error(`the victim ended by itself (${child.signalCode ?? child.exitCode}): ${complaint}`)
    if (service) told.sent = await service.end()
    if (victim.problem) throw new Error(victim.problem)
    return told
  } finally {
    child.kill("SIGKILL")
    endStorm()
  }
}

/** What a process says: when it has started, with its URL; when it is well; when it has ended, with its complaints. */
function watch(child, { http, tell }) {
  let complaint = ""
  let begin
  let settled
  const victim = { problem: undefined }
  victim.ended = new Promise((resolve) => child.on("close", () => resolve(complaint)))
  const started = new Promise((resolve) => {
    begin = resolve
  })
  const inTime = (promise, what) => {
    let timer
    const timeout = new Promise((_, reject) => {
      const late = `the victim: expected it to be ${what} after ${PATIENCE} ms, it is not: ${complaint}`
      timer = setTimeout(() => reject(new Error(late)), PATIENCE)
    })
    return Promise.race([promise, victim.ended, timeout]).finally(() => clearTimeout(timer))
  }
  victim.inTime = inTime
  victim.started = inTime(started, "started")
  victim.started.catch(() => {})
  victim.settle = async () => {
    await inTime(started, "started")
    const answer = new Promise((resolve) => {
      settled = resolve
    })
    if (child.connected) child.send("settle", () => {})
    const answered = await inTime(answer, "well")
    return typeof answered === "object" ? answered.problem : undefined
  }
  child.stderr.on("data", (text) => {
    complaint = (complaint + text).slice(-10_000)
    if (http && /ready;|reading only:/.test(String(text))) begin(/http:\/\/\S+/.exec(complaint)[0])
  })
  child.on("message", (message) => {
    if (message.started) begin()
    else if (message.settled) settled(message)
    else if (message.problem) victim.problem = message.problem
    else tell(message)
  })
  return victim
}

/** The load on a service, which runs here. */
function workOn(url, job, tell) {
  const stop = { now: false }
  const target = connect(url)
  const loading = load(target, { ...job, stop }, tell).catch((error) => error)
  const endRudeness = beRude(url, new Random(job.seed, "torture rude"), job.from + RUDE_NUMBERS)
  let sent = []
  const end = async () => {
    stop.now = true
    sent = [...sent, ...(await endRudeness())]
    const error = await loading
    // A refusal came from a service that was alive.
    if (error && !/fetch failed|terminated/.test(error.message)) throw error
    return sent
  }
  return {
    failed: loading.then((error) => error && wait(50)),
    end,
    async settle() {
      await end()
      const problem = await settle(target)
      if (problem) return problem
      let active
      const isIdle = async () => {
        active = await target.active()
        return active <= 0
      }
      return (await until(isIdle, 10_000)) ? undefined : `${active} requests are still under way, nobody waits for any`
    },
  }
}

function startRecommender(job, env) {
  const program = fileURLToPath(import.meta.url)
  return fork(program, ["--work", JSON.stringify(job)], { env, stdio: ["ignore", "ignore", "pipe", "ipc"] })
}

function startService({ sizes, delay, ...rest }, directory, env) {
  const settings = { ...rest, sizes: sizes.join(","), delay: `${delay}ms`, directory, port: 0 }
  const flags = Object.entries(settings).flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    typeof value === "object" ? JSON.stringify(value) : String(value),
  ])
  const program = join(import.meta.dirname, "../dist/cli/main.js")
  return spawn(process.execPath, [program, "serve", ...flags], { env, stdio: ["ignore", "ignore", "pipe"] })
}

/** Opens it, again and again where the disk refuses. */
async function openUnderFaults({ name, directory, isFaulty }) {
  for (;;) {
    try {
      return await openCase(CASES[name].options, directory)
    } catch (error) {
      if (!isFaulty || !isRefusal(error)) throw error
      await wait(50)
    }
  }
}

const at = process.argv.indexOf("--work")
if (at > 0 && process.argv[1] === fileURLToPath(import.meta.url)) {
  const job = JSON.parse(process.argv[at + 1])
  const stop = { now: false }
  const target = wrap(await openUnderFaults(job))
  process.send({ started: true })
  const loading = load(target, { ...job, stop }, (message) => process.send(message)).catch((error) =>
    process.send({ problem: `the load failed: ${error.stack}` }),
  )
  process.on("message", async () => {
    stop.now = true
    await loading
    process.send({ settled: true, problem: await settle(target).catch((error) => error.stack) })
  })
}
