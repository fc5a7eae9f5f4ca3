/**
 * `npm run bench -- runtimes [--rounds 3] [--events 200000] [--data synthetic]`: the same work on each Node that
 * tools/install-test-programs.mjs installs, in turns, by processor time: a run of the binary task, one of the ranking task, and
 * lists of a recommender. Prints the best round of each and its ratio to the first.
 */

import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"

const INSTALLED = fileURLToPath(new URL("../tools/runtimes/node_modules/", import.meta.url))

/** @param {string[]} words */
export async function run(words = []) {
  const given = (name, otherwise) => (words.includes(name) ? words[words.indexOf(name) + 1] : otherwise)
  const programs = ["20", "22", "24", "26"].map((version) => ({
    version,
    program: `${INSTALLED}node-${version}/bin/node`,
  }))
  const missing = programs.filter(({ program }) => !existsSync(program))
  if (missing.length > 0) throw new Error("runtimes: expected them installed; run node tools/install-test-programs.mjs")
  const best = new Map(programs.map(({ version }) => [version, {}]))
  for (let round = 0; round < Number(given("--rounds", "3")); round++)
    for (const { version, program } of programs) {
      const child = [
        fileURLToPath(import.meta.url),
        "measure",
        given("--data", "synthetic"),
        given("--events", "200000"),
      ]
      const { status, stdout, stderr } = spawnSync(program, child, { encoding: "utf8" })
      if (status !== 0) throw new Error(`Node ${version}: ${stderr}`)
      const held = best.get(version)
      for (const [name, value] of Object.entries(JSON.parse(stdout)))
        held[name] = typeof value === "string" ? value : Math.min(held[name] ?? Number.POSITIVE_INFINITY, value)
    }
  const first = best.get("20")
  console.log("| Node | V8 | kernels | binary, µs an event | ranking, µs an event | a list of 10, µs |")
  console.log("|---|---|---|---:|---:|---:|")
  for (const held of best.values()) {
    const cell = (name) => `${held[name].toFixed(name === "lists" ? 0 : 2)} (${(held[name] / first[name]).toFixed(2)})`
    console.log(
      `| ${held.node} | ${held.v8} | ${held.kernels} | ${cell("binary")} | ${cell("topk")} | ${cell("lists")} |`,
    )
  }
}

/** One round, in this process: microseconds of processor time. */
async function measure(path, events) {
  const { openData, openKernels, Recommender, runStream, synthetic } = await import("../dist/index.js")
  const used = (since) => {
    const { user, system } = process.cpuUsage(since)
    return user + system
  }
  const kernels = openKernels({ threads: 1 })
  const out = { node: process.version, v8: process.versions.v8, kernels: kernels.kind }
  kernels.close?.()
  const stream = (limit) =>
    path === "synthetic" ? synthetic({ interactions: limit, choice: "taste" }) : openData(path, { limit })
  for (const [task, limit] of [
    ["binary", events],
    ["topk", Math.round(events / 4)],
  ]) {
    const data = await stream(limit)
    const before = process.cpuUsage()
    const run = runStream(data, { task, threads: 1, method: "dess-fre" })
    while (!(await run.next()).done);
    out[task] = used(before) / limit
  }
  const recommender = await Recommender.open({ segment: 500 })
  const items = 5000
  for (let n = 0; n < 20; n++)
    await recommender.observe(
      Array.from({ length: 1000 }, (_, k) => {
        const event = 1000 * n + k
        return { user: `u${event % 997}`, item: `i${(Math.imul(event, 2654435761) >>> 8) % items}` }
      }),
    )
  await recommender.drain()
  const lists = async (count) => {
    for (let n = 0; n < count; n++) await recommender.recommend(`u${n % 997}`, { count: 10 })
  }
  await lists(500)
  const before = process.cpuUsage()
  await lists(2000)
  out.lists = used(before) / 2000
  await recommender.close()
  console.log(JSON.stringify(out))
}

if (process.argv[2] === "measure") await measure(process.argv[3], Number(process.argv[4]))
