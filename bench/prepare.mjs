/**
 * `npm run bench -- prepare [--rows 20000000]`: `dess prepare` on a ratings CSV with MovieLens 20M's counts (138,493
 * users, 27,278 items) whose times are in random order, so that everything has to be sorted, and
 * of which a k-core leaves out some users. Seconds and peak resident memory of the command, a process of its own.
 */

import { spawn } from "node:child_process"
import { once } from "node:events"
import { createWriteStream, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Random } from "../dist/kernels/random.js"
import { printTable } from "./report.mjs"

const [USERS, ITEMS] = [138_493, 27_278]
const [FROM, TO] = [789_652_009, 1_427_784_002] // seconds: the first and the last rating of MovieLens 20M
const COMMAND = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url))

/** Few ids with many rows, many with few: at 20 million the busiest user has some 7,000 and the last ones some 96. */
async function writeRatings(path, rows) {
  const random = new Random(1, "prepare")
  const file = createWriteStream(path)
  let text = "userId,movieId,rating,timestamp\n"
  for (let row = 0; row < rows; row++) {
    const user = 1 + Math.floor(USERS * random.next() ** 1.5)
    const item = 1 + Math.floor(ITEMS * random.next() ** 2)
    text += `${user},${item},${(1 + random.integer(10)) / 2},${FROM + random.integer(TO - FROM)}\n`
    if (text.length < 1 << 20) continue
    if (!file.write(text)) await once(file, "drain")
    text = ""
  }
  file.end(text)
  await once(file, "close")
}

/** Runs the command to its end; its memory is Linux's own high-water mark, asked for ten times a second. */
async function prepare(source, out, core) {
  const started = performance.now()
  const words = [COMMAND, "prepare", source, "--out", out, "--json", "--k-core", String(core)]
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "inherit"] })
  let peakBytes = Number.NaN
  const watch = setInterval(() => {
    try {
      const [, kilobytes] = /^VmHWM:\s*(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, "utf8")) ?? []
      if (kilobytes !== undefined) peakBytes = 1024 * Number(kilobytes)
    } catch {
      // It has ended, or this is not Linux.
    }
  }, 100)
  let stdout = ""
  child.stdout.setEncoding("utf8").on("data", (text) => {
    stdout += text
  })
  const [code] = await once(child, "close")
  clearInterval(watch)
  if (code !== 0) throw new Error(`dess prepare: expected exit code 0, got ${code}`)
  return { ...JSON.parse(stdout), seconds: (performance.now() - started) / 1000, peakBytes }
}

/** @param {string[]} words */
export async function run(words = []) {
  const rows = words.includes("--rows") ? Number(words[words.indexOf("--rows") + 1]) : 20_000_000
  const folder = mkdtempSync(join(tmpdir(), "dess-bench-prepare-"))
  try {
    const source = join(folder, "ratings.csv")
    process.stderr.write(`… writing ${rows.toLocaleString("en")} rows\n`)
    await writeRatings(source, rows)
    const core = Math.max(2, Math.floor((0.62 * rows) / USERS))
    process.stderr.write("… dess prepare\n")
    const { seconds, peakBytes, ...made } = await prepare(source, join(folder, "out"), core)
    console.log(`dess prepare --k-core ${core}\n`)
    printTable([
      {
        rows,
        "CSV MB": Math.round(statSync(source).size / 1e6),
        "rows kept": made.interactions,
        users: made.users,
        items: made.items,
        seconds,
        "rows/s": Math.round(rows / seconds),
        "peak memory": Number.isNaN(peakBytes) ? "not known here" : `${(peakBytes / 2 ** 30).toFixed(2)} GiB`,
        "written MB": Math.round(made.bytes / 1e6),
      },
    ])
  } finally {
    rmSync(folder, { recursive: true })
  }
}
