/**
 * The service under a real load: this process sends, another one serves, events are on disk before they are acknowledged.
 * npm run bench -- serve [--items 27000] [--users 2000] [--events 100000] [--batch 1000] [--rate 1000] [--seconds 20]
 *   [--tasks topk,binary] [--model ncf]
 */

import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { Agent, request } from "node:http"
import os, { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"
import { Random } from "../dist/kernels/random.js"

const MAIN = new URL("../dist/cli/main.js", import.meta.url).pathname
const agent = new Agent({ keepAlive: true, maxSockets: 16 })
/** Requests sent at a time while ingesting. */
const CLIENTS = 4

export async function run(options) {
  const flag = (name, otherwise) => {
    const at = options.indexOf(`--${name}`)
    return at < 0 ? otherwise : options[at + 1]
  }
  const plan = {
    items: Number(flag("items", 27_000)),
    users: Number(flag("users", 2000)),
    events: Number(flag("events", 100_000)),
    batch: Number(flag("batch", 1000)),
    rate: Number(flag("rate", 1000)),
    seconds: Number(flag("seconds", 20)),
    model: flag("model", "ncf"),
  }
  for (const task of flag("tasks", "topk,binary").split(",")) await measureTask(task, plan)
}

async function measureTask(task, plan) {
  const folder = mkdtempSync(join(tmpdir(), "dess-bench-"))
  const args = ["--directory", folder, "--task", task, "--model", plan.model, "--snapshot-events", "1000000000"]
  args.push("--snapshot-delay", "20d", "--queue", "10000000")
  let service
  try {
    service = await serve(args)
    const batches = makeBatches(plan)
    const count = batches.reduce((sum, events) => sum + events.length, 0)
    const started = performance.now()
    await sendAll(service.port, batches)
    const ingested = seconds(started)
    say(task, "ingest, durable, over HTTP", `${perSecond(count, ingested)} in batches of ${plan.batch}`)
    const { events } = await get(service.port, "/v1/status")
    if (events.accepted !== count) throw new Error(`expected ${count} events accepted, got ${events.accepted}`)

    // No farewell: everything acknowledged is learned again from the journal.
    await service.kill()
    service = await serve(args)
    const cpu = (await processorSeconds(service.port)) - service.cpu
    const { segments, events: replayed } = await get(service.port, "/v1/status")
    const rates = `${perSecond(count, service.time)}; ${perSecond(count, cpu)} of processor time`
    say(task, "replay after kill -9", `${rates}; ${replayed.learned} events, ${segments} segments`)

    await measureReading(service.port, task, plan)
    const farewell = performance.now()
    await service.stop()
    say(task, "SIGTERM to exit, with a snapshot", `${seconds(farewell).toFixed(1)} s`)
  } finally {
    await service?.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Lists asked for one after the other while events come at a rate. */
async function measureReading(port, task, { rate, seconds: duration, users, items }) {
  const { items: known } = await get(port, "/v1/status")
  await askLists(port, users, 20)
  const before = await processorSeconds(port)
  const idle = await askLists(port, users, 200)
  const each = (1000 * ((await processorSeconds(port)) - before)) / idle.length
  say(
    task,
    `GET recommendations, ${known.held} items, idle`,
    `${describe(idle)}, ${each.toFixed(1)} ms of processor time`,
  )
  const random = new Random(2, "serve bench")
  const end = performance.now() + 1000 * duration
  const feeding = (async () => {
    const started = performance.now()
    for (let sent = 0; performance.now() < end; ) {
      const due = Math.floor(((performance.now() - started) / 1000) * rate) - sent
      if (due > 0)
        await send(
          port,
          "POST",
          "/v1/interactions",
          Array.from({ length: due }, () => makeEvent(random, users, items)),
        )
      sent += due
      await wait(20)
    }
  })()
  const times = []
  while (performance.now() < end) {
    times.push(...(await askLists(port, users, 1)))
    await wait(20)
  }
  await feeding
  const { freshness, events } = await get(port, "/v1/status")
  say(task, `GET recommendations at ${rate} events/s`, `${describe(times)}, ${times.length} requests`)
  const [p50, p99] = [freshness.p50, freshness.p99].map((value) => `${(value / 1000).toFixed(2)} s`)
  say(task, `freshness at ${rate} events/s`, `p50 ${p50}, p99 ${p99}, ${events.queue} waiting`)
}

async function askLists(port, users, count) {
  const times = []
  for (let n = 0; n < count; n++) {
    const before = performance.now()
    const list = await get(port, `/v1/users/user%20${Math.floor(Math.random() * Math.min(users, 500))}/recommendations`)
    times.push(performance.now() - before)
    if (list.length !== 10) throw new Error(`expected 10 items, got ${list.length}`)
  }
  return times
}

/** Users and items of very different popularity, as in life; every item once, so that all are in the model. */
function makeBatches({ items, users, events, batch }) {
  const random = new Random(1, "serve bench")
  const all = Array.from({ length: items }, (_, i) => ({ user: `user ${i % users}`, item: `item ${i}`, rating: 4 }))
  while (all.length < events) all.push(makeEvent(random, users, items))
  const batches = []
  for (let from = 0; from < all.length; from += batch) batches.push(all.slice(from, from + batch))
  return batches
}

function makeEvent(random, users, items) {
  return {
    user: `user ${Math.floor(users * random.next() ** 2)}`,
    item: `item ${Math.floor(items * random.next() ** 3)}`,
    rating: 1 + random.integer(5),
  }
}

async function sendAll(port, batches) {
  const bodies = batches.map((events) => JSON.stringify(events)).values()
  const client = async () => {
    for (const body of bodies) await send(port, "POST", "/v1/interactions", body)
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
}

/** What the service has used, all threads: says on a busy machine what an idle one would do. */
async function processorSeconds(port) {
  const text = await get(port, "/metrics")
  return Number(/^process_cpu_seconds_total (\S+)$/m.exec(text)[1])
}

const get = (port, path) => send(port, "GET", path)

function send(port, method, path, body) {
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body)
  const headers =
    text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    const call = request({ port, method, path, headers, agent }, (response) => {
      let answer = ""
      response.on("data", (chunk) => {
        answer += chunk
      })
      response.on("end", () => {
        if (response.statusCode === 200) resolve(answer.startsWith("#") ? answer : JSON.parse(answer))
        else reject(new Error(`${method} ${path}: expected 200, got ${response.statusCode} ${answer}`))
      })
    })
    call.on("error", reject)
    call.end(text)
  })
}

/** `dess serve` in a process of its own, once it is ready, with the time and the processor time from listening to that. */
async function serve(args) {
  const child = spawn(process.execPath, [MAIN, "serve", "--port", "0", ...args], {
    stdio: ["ignore", "ignore", "pipe"],
  })
  const exited = new Promise((resolve) => child.on("exit", resolve))
  let said = ""
  child.stderr.on("data", (chunk) => {
    said += chunk
  })
  const hear = async (word) => {
    while (!said.includes(word)) {
      if (child.exitCode !== null) throw new Error(`dess serve: expected ${word}, got ${said}`)
      await wait(5)
    }
  }
  await hear("listening")
  const started = performance.now()
  const port = Number(/:(\d+) /.exec(said)[1])
  const cpu = await processorSeconds(port)
  await hear("ready;")
  const end = async (signal) => {
    child.kill(signal)
    await exited
  }
  return { port, time: seconds(started), cpu, stop: () => end("SIGTERM"), kill: () => end("SIGKILL") }
}

const seconds = (since) => (performance.now() - since) / 1000
const perSecond = (count, time) => `${Math.round(count / time).toLocaleString("en")} events/s`

function describe(times) {
  const sorted = [...times].sort((a, b) => a - b)
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(1)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
}

function say(task, what, figure) {
  console.log(`${task.padEnd(8)}${what.padEnd(48)}${figure} (load ${os.loadavg()[0].toFixed(1)})`)
}
