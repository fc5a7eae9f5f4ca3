/**
 * `npm run bench -- peak [--events 5000000] [--methods dess-fre,uniform-16,dess-cv,fixed-128]`: the most that `dess run`
 * holds along the embedded stream with MovieLens 20M's numbers of users and items. What the process cannot give back
 * counts (RssAnon + RssShmem), looked at every few milliseconds.
 */

import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { printTable } from "./report.mjs"

const CLI = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url))
const LOOK_EVERY = 5

function residentBytes(pid) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const kilobytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0)
  return 1024 * (kilobytes("RssAnon") + kilobytes("RssShmem"))
}

async function measure(method, events) {
  const stream = ["--interactions", events, "--users", "138493", "--items", "27278"]
  const child = spawn(process.execPath, [CLI, "run", ...stream, "--method", method, "--json"], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  let [most, text] = [0, ""]
  child.stdout.on("data", (data) => {
    text += data
  })
  const timer = setInterval(() => {
    most = Math.max(most, residentBytes(child.pid))
  }, LOOK_EVERY)
  const code = await new Promise((resolve) => child.once("close", resolve))
  clearInterval(timer)
  if (code !== 0) throw new Error(`dess run --method ${method}: expected exit code 0, got ${code}`)
  const { memory, accuracy } = JSON.parse(text)
  const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(1)
  return {
    method,
    "most held, MB": megabytes(most),
    "rows, MB": megabytes(memory.rows),
    "indicators, MB": megabytes(memory.indicators),
    accuracy: accuracy.toFixed(4),
  }
}

/** @param {string[]} options */
export async function run(options = []) {
  const option = (name, otherwise) => (options.includes(name) ? options[options.indexOf(name) + 1] : otherwise)
  const events = option("--events", "5000000")
  const rows = []
  for (const method of option("--methods", "dess-fre,uniform-16,dess-cv,fixed-128").split(","))
    rows.push(await measure(method, events))
  printTable(rows)
}
