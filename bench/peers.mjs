/**
 * `npm run bench -- peers`: where `dess` stands, in one run on one machine, ratios first.
 *
 *   training   the whole loop (search, training, test) of DESS and the baselines against PyTorch in two forms
 *   serving    lists over HTTP against a vector index behind Fastify
 *   roofline   GFLOP/s of the loop beside what the machine can do
 *   startup    the command, the import, the installed package
 *
 * `--data <folder>` or DESS_BENCH_DATA: a MovieLens folder for the ML-1M size, otherwise the embedded stream with its
 * counts. `--quick` checks that everything runs; its figures mean little. `--parts training,serving`, `--methods dess-cv`,
 * `--segments 200` of the training streams. The whole takes about a quarter of an hour, most of it training.
 */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openData } from "../dist/datasets/open.js"
import { synthetic } from "../dist/stream/synthetic/synthetic.js"
import { takeEvents } from "./peers/given.mjs"
import { measureRoofline } from "./peers/roofline.mjs"
import { compareServing } from "./peers/serving.mjs"
import { measureStartup } from "./peers/startup.mjs"
import { compareTraining } from "./peers/training.mjs"
import { printTable } from "./report.mjs"

const PARTS = { training: compareTraining, serving: compareServing, roofline: measureRoofline, startup: measureStartup }

/** @param {string[]} words */
export async function run(words = []) {
  const given = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined)
  const quick = words.includes("--quick")
  const data = given("--data") ?? process.env.DESS_BENCH_DATA
  const parts = given("--parts")?.split(",") ?? Object.keys(PARTS)
  const unknown = parts.find((part) => !(part in PARTS))
  if (unknown) throw new Error(`--parts: expected some of ${Object.keys(PARTS).join(", ")}, got ${unknown}`)
  const folder = mkdtempSync(join(tmpdir(), "dess-peers-"))
  try {
    const stream = data ? await openData(data) : synthetic({ interactions: 1_000_209, users: 6040, items: 3706 })
    const events = await takeEvents(stream, { limit: 150_000 })
    const say = (text) => process.stderr.write(`… ${text}\n`)
    const results = {}
    const methods = given("--methods")?.split(",")
    const segments = given("--segments") && Number(given("--segments"))
    for (const part of parts)
      try {
        results[part] = await PARTS[part]({ folder, quick, data, events, methods, segments, say })
      } catch (error) {
        // What the other parts measured is not lost.
        process.exitCode = 1
        results[part] = { headlines: [], notes: [`not measured: ${error.message}`] }
      }
    for (const [part, { headlines }] of Object.entries(results)) {
      if (headlines.length === 0) continue
      console.log(`\n### ${part}\n`)
      printTable(headlines)
    }
    for (const [part, { rows = [], notes = [] }] of Object.entries(results)) {
      if (rows.length === 0 && notes.length === 0) continue
      console.log(`\n### ${part}: the figures\n`)
      printTable(rows)
      if (rows.length > 0) console.log("")
      for (const note of notes) console.log(`- ${note}`)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
