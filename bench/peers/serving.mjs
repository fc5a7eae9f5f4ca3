/** Lists over HTTP: `dess serve` against a vector index behind Fastify, the same users, items, events and list length. */

import { execFile, spawn } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Random } from "../../dist/kernels/random.js"

const execute = promisify(execFile)
const MAIN = fileURLToPath(new URL("../../dist/bundle/main.js", import.meta.url))
const PEER = fileURLToPath(new URL("lists-service.mjs", import.meta.url))
const PACKAGES = ["fastify@5", "hnswlib-node@3", "usearch@2"]
const INDEXES = ["hnswlib-node, HNSW", "usearch, HNSW", "hnswlib-node, exact"]
export const TRIED =
  "tried: hnswlib-node and usearch (both run; the best counts), faiss-node (its build fetches sources from GitHub), disco-rec (the registry did not give it out), pgvector and redis-stack (not in Debian 12), python3-faiss (Debian; a Python server before the same kind of index)"
const LENGTH = 10
const WIDTH = 32
const CLIENTS = 8
/** Seconds. */
const PATIENCE = 300

/**
 * @param {{folder: string, quick: boolean, events: object, say: (text: string) => void}} options `events` as taken for the peers
 * @returns {Promise<{headlines: object[], rows: object[], notes: string[]}>}
 */
export async function compareServing({ folder, quick, events, say }) {
  const limit = Math.min(quick ? 20_000 : 150_000, events.user.length)
  const [user, item, label] = [events.user, events.item, events.label].map((column) => column.slice(0, limit))
  const names = [...new Set(user)].slice(0, 2000)
  const seconds = quick ? 2 : 6
  const rows = []
  say("serving, dess")
  rows.push({ who: "dess serve (learns, exact)", ...(await measureOurs({ user, item, label, names, seconds })) })
  const notes = [TRIED]
  try {
    say("serving, installing the peer")
    const packages = join(folder, "serving")
    mkdirSync(packages, { recursive: true })
    writeFileSync(join(packages, "package.json"), "{}")
    await execute("npm", ["install", "--prefix", packages, "--no-audit", "--no-fund", ...PACKAGES], { cwd: packages })
    // npm may hold install scripts back; asked for by name they run.
    await execute("npm", ["rebuild", "--prefix", packages, "--foreground-scripts"], { cwd: packages })
    const file = join(packages, "factors.json")
    writeFileSync(file, JSON.stringify(makeFactors({ user, item })))
    const lists = {}
    for (const kind of INDEXES) {
      say(`serving, ${kind}`)
      const { lists: got, ...figures } = await measurePeer({ packages, file, kind, names, seconds })
      lists[kind] = got
      rows.push({ who: `Fastify + ${kind} (fixed factors)`, ...figures })
    }
    const exact = lists["hnswlib-node, exact"]
    for (const kind of INDEXES.slice(0, 2)) notes.push(`${kind}: ${share(lists[kind], exact)} of the exact list found`)
  } catch (error) {
    notes.push(`peer not run: it could not be installed or started (${String(error.message).split("\n")[0]})`)
  }
  notes.push(
    `${limit} events, ${names.length} users asked at random, lists of ${LENGTH} without what a user has seen, ${CLIENTS} connections, client on the same machine; the peer's factors (${WIDTH} numbers, a random projection of the events) are made beforehand and never learn`,
  )
  const [ours, ...peers] = rows
  const headlines = peers.map(({ who, "lists/s": rate, "p50 ms": p50, "p99 ms": p99 }) => ({
    peer: who,
    "lists/s, dess / peer": `${(ours["lists/s"] / rate).toFixed(2)}×`,
    "p50, peer / dess": `${(p50 / ours["p50 ms"]).toFixed(2)}×`,
    "p99, peer / dess": `${(p99 / ours["p99 ms"]).toFixed(2)}×`,
  }))
  return { headlines, rows, notes }
}

async function measureOurs({ user, item, label, names, seconds }) {
  const args = ["serve", "--port", "0", "--task", "topk", "--queue", "10000000"]
  const service = await start([MAIN, ...args], /:(\d+) [\s\S]*ready;/, "stderr")
  try {
    const rows = Array.from(user, (u, n) => ({ user: `user ${u}`, item: `item ${item[n]}`, rating: label[n] ? 5 : 2 }))
    for (let at = 0; at < rows.length; at += 5000)
      await fetchJson(service.port, "/v1/interactions", rows.slice(at, at + 5000))
    for (const begin = performance.now(); ; ) {
      const { events } = await fetchJson(service.port, "/v1/status")
      if (performance.now() - begin > 1000 * PATIENCE)
        throw new Error(`dess serve: expected ${rows.length} events learned in ${PATIENCE} s, got ${events.learned}`)
      if (events.learned === rows.length) break
      await wait(200)
    }
    await wait(2000) // the last version is published
    const path = (name) => `/v1/users/user%20${name}/recommendations?count=${LENGTH}`
    return await measureLists(service, { path, names, seconds })
  } finally {
    await service.stop()
  }
}

async function measurePeer({ packages, file, kind, names, seconds }) {
  const service = await start([PEER, packages, file, kind], /listening (\d+)/, "stdout")
  try {
    const path = (name) => `/users/${name}/recommendations?count=${LENGTH}`
    const lists = []
    for (const name of names.slice(0, 200))
      lists.push((await fetchJson(service.port, path(name))).map(({ item }) => item))
    return { ...(await measureLists(service, { path, names, seconds })), lists }
  } finally {
    await service.stop()
  }
}

/** Clients that ask one list after the other; then one alone, for the latency of an idle service. */
async function measureLists({ port, child }, { path, names, seconds }) {
  const loop = async (clients, duration) => {
    const times = []
    const end = performance.now() + 1000 * duration
    const client = async (n) => {
      const random = new Random(n, "clients")
      const line = await openLine(port)
      while (performance.now() < end) {
        const begin = performance.now()
        const text = await line.ask(path(names[random.integer(names.length)]))
        times.push(performance.now() - begin)
        if (!text.startsWith("[{")) throw new Error(`list: expected one that is not empty, got ${text.slice(0, 200)}`)
      }
      line.close()
    }
    await Promise.all(Array.from({ length: clients }, (_, n) => client(n)))
    return times.sort((a, b) => a - b)
  }
  await loop(CLIENTS, seconds / 3)
  const crowd = await loop(CLIENTS, seconds)
  const alone = await loop(1, seconds / 2)
  const at = (times, share) => times[Math.min(times.length - 1, Math.floor(share * times.length))]
  return {
    "lists/s": Math.round(crowd.length / seconds),
    "p50 ms": at(crowd, 0.5),
    "p99 ms": at(crowd, 0.99),
    "alone p50 ms": at(alone, 0.5),
    "alone p99 ms": at(alone, 0.99),
    "peak MB": peakMegabytes(child.pid),
  }
}

function peakMegabytes(pid) {
  try {
    return Math.round(Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1000)
  } catch {
    return "–"
  }
}

/** A connection kept open; a plain socket, so that the client takes little of the machine. */
function openLine(port) {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true })
    let [text, answer] = ["", undefined]
    socket.setEncoding("utf8")
    socket.on("error", reject)
    socket.on("data", (chunk) => {
      text += chunk
      const head = text.indexOf("\r\n\r\n")
      if (head < 0) return
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      const body = text.slice(head + 4)
      if (Buffer.byteLength(body) < length) return
      text = ""
      answer(body)
    })
    const ask = (path) =>
      new Promise((take) => {
        answer = take
        socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`)
      })
    socket.on("connect", () => resolve({ ask, close: () => socket.destroy() }))
  })
}

async function fetchJson(port, path, body) {
  const options = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }
  const response = await fetch(`http://127.0.0.1:${port}${path}`, options)
  if (!response.ok) throw new Error(`${path}: expected 200, got ${response.status} ${await response.text()}`)
  return response.json()
}

/** A service in a process of its own, once it says its port. */
async function start(args, pattern, from) {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] })
  const ended = new Promise((resolve) => child.on("exit", resolve))
  let said = ""
  for (const stream of ["stdout", "stderr"])
    child[stream].on("data", (chunk) => {
      if (stream === from || child.exitCode !== null) said += chunk
    })
  while (!pattern.test(said)) {
    if (child.exitCode !== null) throw new Error(`service: expected it to start, got ${said}`)
    await wait(20)
  }
  const stop = async () => {
    child.kill("SIGKILL")
    await ended
  }
  return { port: Number(pattern.exec(said)[1]), child, stop }
}

/** An item is a random vector pulled towards its users', a user the mean of their items: neighbours as in real factors. */
function makeFactors({ user, item }) {
  const random = new Random(1, "factors")
  const draw = () => Array.from({ length: WIDTH }, () => random.normal() / Math.sqrt(WIDTH))
  const items = Array.from({ length: item.reduce((a, b) => Math.max(a, b), 0) + 1 }, draw)
  const users = {}
  const seen = {}
  for (let pass = 0; pass < 2; pass++) {
    const sums = {}
    user.forEach((u, n) => {
      sums[u] ??= new Float64Array(WIDTH + 1)
      for (let c = 0; c < WIDTH; c++) sums[u][c] += items[item[n]][c]
      sums[u][WIDTH]++
      if (pass > 0) return
      seen[u] ??= []
      seen[u].push(item[n])
    })
    for (const [u, sum] of Object.entries(sums))
      users[u] = Array.from(sum.subarray(0, WIDTH), (x) => (Math.sqrt(WIDTH) * x) / Math.sqrt(sum[WIDTH]))
    if (pass === 1) break
    user.forEach((u, n) => {
      for (let c = 0; c < WIDTH; c++) items[item[n]][c] += 0.02 * users[u][c]
    })
  }
  return { width: WIDTH, users, items, seen }
}

function share(lists, exact) {
  let [found, all] = [0, 0]
  exact.forEach((list, n) => {
    all += list.length
    found += list.filter((name) => lists[n].includes(name)).length
  })
  return `${((100 * found) / all).toFixed(0)} %`
}
