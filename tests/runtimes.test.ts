/** The package on the runtimes its users have: the programs of the README, and the same bits everywhere. */

import { execFile } from "node:child_process"
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { buildCommand } from "./support/command.ts"

const ROOT = join(import.meta.dirname, "..")
const INSTALLED = join(ROOT, "tools/runtimes/node_modules")

const RUNTIMES = [
  ...["20", "22", "24", "26"].map((version) => ({
    name: `Node ${version}`,
    command: [join(INSTALLED, `node-${version}/bin/node`)],
  })),
  { name: "Bun", command: [join(INSTALLED, "@oven/bun-linux-x64/bin/bun")] },
  { name: "Deno", command: [join(INSTALLED, "@deno/linux-x64-glibc/deno"), "run", "-A"] },
]
const missing = RUNTIMES.filter(({ command: [program] }) => !existsSync(program)).map(({ name }) => name)

/** A project with nothing but the package. */
const PROJECT = mkdtempSync(join(realpathSync(tmpdir()), "dess-runtimes-"))
afterAll(() => rmSync(PROJECT, { recursive: true, force: true }))

function run(
  [program, ...first]: string[],
  words: string[],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const { NODE_OPTIONS: _, ...env } = process.env
  return new Promise((resolve) => {
    const options = { cwd: PROJECT, env, timeout: 100_000 }
    const child = execFile(program, [...first, ...words], options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })
}

/** Learns, closes, opens again, and prints what a list says to the last bit. */
const DURABLE = `
import { Recommender } from "dess"
const events = (round) => Array.from({ length: 500 }, (_, n) => ({
  user: "u" + ((7 * n + round) % 40), item: "i" + ((n * n + round * n) % 97), timestamp: 1_700_000_000 + 500 * round + n,
}))
const directory = process.argv[2]
const first = await Recommender.open({ directory, task: "topk" })
for (let round = 0; round < 3; round++) await first.observe(events(round))
await first.drain()
await first.close()
const second = await Recommender.open({ directory })
console.log(JSON.stringify(await second.recommend("u1", { count: 20, seen: true })))
await second.close()
`

/** Learns, and prints a hash of everything measured and of every row: for the default, and for a network. */
const STATE = `
import { createHash } from "node:crypto"
import { openKernels, Run, synthetic } from "dess"

const kernels = openKernels({ threads: 1 })
const stream = synthetic({ interactions: 3000, users: 60, items: 120, seed: 5 })
const [events] = stream.batches()
for (const options of [
  { method: "dess-fre", task: "binary" },
  { method: "dess-fre", task: "topk" },
  { method: "dess-cv", task: "topk", recipe: "paper", model: "ncf", sizes: [2, 4, 8] },
]) {
  const run = new Run({ ...options, seed: 3, protocol: "prequential", threads: 1 }, stream.features)
  const hash = createHash("sha256")
  for (let from = 0; from < events.length; from += 500) {
    const segment = { index: from / 500, length: 500, trainLength: 500 }
    for (const name of ["user", "item", "rating", "timestamp"]) segment[name] = events[name].slice(from, from + 500)
    const { milliseconds: _, ...measured } = run.step(segment)
    hash.update(JSON.stringify(measured))
  }
  const { tables } = run.learner.model
  for (const table of [tables.user, tables.item])
    for (const id of table.ids()) {
      const row = new Float32Array(table.size(id))
      table.read(id, row, 0)
      hash.update(new Uint8Array(row.buffer))
    }
  run.close()
  // The networks of the paper are multiplied with relaxed SIMD where a runtime has it.
  const by = options.recipe === "paper" ? kernels.kind : "any kernels"
  console.log(options.task, by, hash.digest("hex"))
}
kernels.close()
`

const REQUIRED = `
const { Recommender } = require("dess")
Recommender.open({ memoryBudget: "64MB" }).then(async (recommender) => {
  await recommender.observe([{ user: "ada", item: "dune" }, { user: "bob", item: "solaris" }])
  await recommender.drain()
  console.log((await recommender.recommend("ada")).map(({ item }) => item).join())
  await recommender.close()
})
`

/** Part of the tests, those whose figures would show another bit, and the threads; the rest of the suite runs on the Node that runs this. */
const PART = [
  "tests/golden.test.ts",
  "tests/engine/build.test.ts",
  "tests/kernels/gradients.test.ts",
  "tests/kernels/threads.test.ts",
]

if (missing.length > 0 && process.env.CI !== "true")
  console.warn(`SKIPPED: the package on ${missing.join(", ")} (node tools/install-test-programs.mjs)`)

describe.skipIf(missing.length > 0 && process.env.CI !== "true")("the package", () => {
  beforeAll(() => {
    buildCommand()
    const target = join(PROJECT, "node_modules/dess")
    mkdirSync(target, { recursive: true })
    for (const path of ["package.json", "dist/bundle"])
      cpSync(join(ROOT, path), join(target, path), { recursive: true })
    writeFileSync(join(PROJECT, "package.json"), '{ "type": "module", "dependencies": { "dess": "*" } }')
    cpSync(join(ROOT, "examples/quick.mjs"), join(PROJECT, "quick.mjs"))
    writeFileSync(join(PROJECT, "durable.mjs"), DURABLE)
    writeFileSync(join(PROJECT, "state.mjs"), STATE)
    writeFileSync(join(PROJECT, "required.cjs"), REQUIRED)
  })

  test("all runtimes are installed", () => expect(missing).toEqual([]))

  const readme = readFileSync(join(ROOT, "README.md"), "utf8")
  const shown = [...readme.matchAll(/'book (\d+)', score: ([\d.]+),/g)].map(([, book, score]) => `${book} ${score}`)
  const lists: string[] = []
  /** By task and kernels: the first hash there was. */
  const states = new Map<string, string>()
  describe.each(RUNTIMES)("on $name", ({ name, command }) => {
    test("runs the quick start", async () => {
      const { code, stdout, stderr } = await run(command, ["quick.mjs"])
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      // Runtimes print objects in their own way.
      const list = [...stdout.matchAll(/book (\d+)["'],\s*score: ([\d.]+),/g)].map(
        ([, book, score]) => `${book} ${score}`,
      )
      expect(list).toEqual(shown)
    })

    test("keeps what it learned on disk, and a list is the same as on every other, to the last bit among Nodes", async () => {
      const { code, stdout, stderr } = await run(command, ["durable.mjs", `directory of ${name}`])
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      const list = JSON.parse(stdout) as { item: string; score: number }[]
      expect(list).toHaveLength(20)
      // Chances are shown by the runtime's own exponential.
      const told = name.startsWith("Node")
        ? stdout
        : JSON.stringify(list.map(({ item, score }) => [item, score.toPrecision(12)]))
      lists.push(told)
      const first = JSON.parse(lists[0]) as typeof list
      expect(told).toBe(
        name.startsWith("Node")
          ? lists[0]
          : JSON.stringify(first.map(({ item, score }) => [item, score.toPrecision(12)])),
      )
    })

    test("learns the same state as every other, to the bit; a network among those of V8", async () => {
      const { code, stdout, stderr } = await run(command, ["state.mjs"])
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      const lines = stdout.trim().split("\n")
      expect(lines).toHaveLength(3)
      for (const line of lines) {
        const [, kind, hash] = /^(.*) ([0-9a-f]{64})$/.exec(line) ?? []
        // JavaScriptCore rounds relaxed products twice, V8 once: both may.
        const what = kind.includes("relaxed") && name === "Bun" ? `${kind} of JavaScriptCore` : kind
        expect(hash, `${what} on ${name}`).toBe(states.get(what) ?? hash)
        states.set(what, hash)
      }
      if (name.startsWith("Node")) expect(stdout).toContain("topk relaxed-simd")
    })

    test("can be required", async () => {
      expect(await run(command, ["required.cjs"])).toEqual({ code: 0, stdout: "solaris\n", stderr: "" })
    })
  })

  test.each(RUNTIMES.filter(({ name }) => name.startsWith("Node")))(
    "$name gives the golden values and the frozen states",
    async ({ command }) => {
      const words = [join(ROOT, "node_modules/vitest/vitest.mjs"), "run", "--root", ROOT, "--maxWorkers", "1", ...PART]
      const { code, stdout, stderr } = await run(command, words)
      expect(code, stdout + stderr).toBe(0)
    },
  )
})
