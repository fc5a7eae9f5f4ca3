/**
 * A stream of new users and items without end against `memoryBudget`: how far the process is above the empty one, at the
 * most, and how much of that is counted. In process and as a service with a directory. Three in ten events are of a new
 * user, one in twenty of a new item; lists are asked for meanwhile.
 */

import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { printTable } from "./report.mjs"

const BATCH = 1000
const MEGABYTE = 1024 * 1024
const CLI = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url))
/** Events between two rows of what is told on the way. */
const STRIDE = 1_000_000

function residentBytes(pid = "self") {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const kilobytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)[1])
  return 1024 * (kilobytes("RssAnon") + kilobytes("RssShmem"))
}

export function eventOf(n) {
  const share = (Math.imul(n + 1, 0x9e3779b1) >>> 0) / 2 ** 32
  const other = (Math.imul(n + 7, 0x85ebca6b) >>> 0) / 2 ** 32
  const user = Math.floor((n % 10 < 3 ? 1 : share) * 0.3 * n)
  const item = Math.floor(other ** 3 * (1000 + 0.05 * n))
  const name = (kind, id) => `${kind}-${String(id).padStart(10, "0")}`
  return { user: name("user", user), item: name("item", item), rating: 1 + (n % 5) }
}

const batchOf = (from) => Array.from({ length: BATCH }, (_, n) => eventOf(from + n))

/** Feeds a target, and looks at its memory every tenth of a second, or more often. */
async function feed(target, events) {
  const empty = target.resident()
  let most = 0
  const look = () => {
    most = Math.max(most, target.resident() - empty)
  }
  const timer = setInterval(look, 100)
  for (let from = 0; from < events; from += BATCH) {
    await target.observe(from)
    look()
    if (from % (10 * BATCH) === 0) await target.recommend(eventOf(from).user)
    if ((from + BATCH) % STRIDE === 0) process.stderr.write(`  ${from + BATCH}: ${(most / MEGABYTE).toFixed(0)} MB\n`)
  }
  clearInterval(timer)
  const { users, items, memory } = await target.status()
  const parts = Object.entries(memory.parts).map(([part, bytes]) => `${part} ${(bytes / MEGABYTE).toFixed(1)}`)
  process.stderr.write(`  counted, MB: ${parts.join(", ")}\n`)
  const counted = Object.values(memory.parts).reduce((sum, bytes) => sum + bytes, 0)
  return { users: users.held, items: items.held, empty, counted, most, budget: memory.budget }
}

/** In this process. */
async function inProcess({ task, budget, events }) {
  const { Recommender } = await import("../dist/index.js")
  const recommender = await Recommender.open({ task, memoryBudget: budget })
  const observe = async (from) => {
    await recommender.observe(batchOf(from))
    if (from % (20 * BATCH) === 0) await recommender.drain()
  }
  const recommend = (user) => recommender.recommend(user, { count: 10 })
  const result = await feed({ resident: residentBytes, observe, recommend, status: () => recommender.status() }, events)
  await recommender.close()
  return result
}

/** `dess serve` with a directory, in a process of its own. */
async function asService({ task, budget, events }) {
  const directory = mkdtempSync(join(tmpdir(), "dess-budget-"))
  const options = ["--directory", directory, "--task", task, "--memory-budget", budget, "--port", "0"]
  const child = spawn(process.execPath, [CLI, "serve", ...options, "--keep-journal", "snapshots"], {
    stdio: ["ignore", "inherit", "pipe"],
  })
  try {
    const url = await new Promise((resolve, reject) => {
      let text = ""
      let found
      child.once("exit", (code) => reject(new Error(`service: expected to listen, ended with ${code}: ${text}`)))
      child.stderr.on("data", (data) => {
        text += data
        found ??= /listening on (\S+)/.exec(text)?.[1]
        if (found && text.includes("ready")) resolve(found)
      })
    })
    const call = async (path, init) => {
      const answer = await fetch(url + path, init)
      if (!answer.ok && answer.status !== 429) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
      return { status: answer.status, body: await answer.json() }
    }
    const observe = async (from) => {
      const body = JSON.stringify(batchOf(from))
      const headers = { "content-type": "application/json" }
      while ((await call("/v1/interactions", { method: "POST", headers, body })).status === 429)
        await new Promise((resolve) => setTimeout(resolve, 100))
    }
    const recommend = (user) => fetch(`${url}/v1/users/${user}/recommendations?count=10`).then((a) => a.text())
    const status = async () => (await call("/v1/status")).body
    return await feed({ resident: () => residentBytes(child.pid), observe, recommend, status }, events)
  } finally {
    child.kill()
    if (child.exitCode === null && child.signalCode === null)
      await new Promise((resolve) => child.once("exit", resolve))
    rmSync(directory, { recursive: true, force: true })
  }
}

/** @param {string[]} options `--events n`, `--budget 64MB,256MB`, `--task binary,topk`, `--as library,service` */
export async function run(options = []) {
  const list = (name, otherwise) => (options.includes(name) ? options[options.indexOf(name) + 1] : otherwise).split(",")
  const [events] = list("--events", "10000000")
  const rows = []
  for (const as of list("--as", "library,service"))
    for (const task of list("--task", "binary,topk"))
      for (const budget of list("--budget", "64MB,256MB")) {
        const args = [fileURLToPath(import.meta.url), as, task, budget, events]
        const { stdout, status } = spawnSync(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
        if (status !== 0) throw new Error(`budget: expected a measurement, the process ended with ${status}`)
        const result = JSON.parse(String(stdout))
        const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(0)
        rows.push({
          ...{ as, task, budget, events: Number(events), users: result.users, items: result.items },
          "empty, MB": megabytes(result.empty),
          "counted, MB": megabytes(result.counted),
          "most above empty, MB": megabytes(result.most),
          "of the budget (wanted ≤ 1.25)": (result.most / result.budget).toFixed(2),
        })
      }
  printTable(rows)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [as, task, budget, events] = process.argv.slice(2)
  const measure = as === "service" ? asService : inProcess
  process.stdout.write(JSON.stringify(await measure({ task, budget, events: Number(events) })))
}
