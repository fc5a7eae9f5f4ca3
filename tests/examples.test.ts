/** The examples run, the README shows them as they are, and the library is light to import. */

import { execFile } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, test } from "vitest"
import { runStream } from "../src/learning/loop.ts"
import type { SegmentReport } from "../src/learning/report.ts"
import { synthetic } from "../src/stream/synthetic/synthetic.ts"
import { buildCommand } from "./support/command.ts"

const ROOT = join(import.meta.dirname, "..")
const FOLDER = mkdtempSync(join(tmpdir(), "dess-examples-"))
beforeAll(buildCommand)
afterAll(() => rmSync(FOLDER, { recursive: true }))

const node = async (...args: string[]) => (await promisify(execFile)(process.execPath, args, { cwd: FOLDER })).stdout

test("every code block of the README is a file in examples, and every example is shown or linked there", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8")
  const files = readdirSync(join(ROOT, "examples"), { withFileTypes: true }).map((entry) => ({
    name: entry.name,
    code: entry.isFile() ? readFileSync(join(ROOT, "examples", entry.name), "utf8") : "",
  }))
  const blocks = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code)
  for (const block of blocks) expect(files.map(({ code }) => code)).toContain(block)
  expect(files.filter(({ name, code }) => !blocks.includes(code) && !readme.includes(`(examples/${name})`))).toEqual([])
})

test("examples/quick.mjs has ten lines of code, and lists the books its reader likes", async () => {
  const path = join(ROOT, "examples", "quick.mjs")
  expect(readFileSync(path, "utf8").match(/^.+$/gm)).toHaveLength(10)
  const items = [...(await node(path)).matchAll(/book (\d+)/g)].map(([, number]) => Number(number))
  expect(items).toHaveLength(3)
  // By chance one list in eight would be like this.
  expect(items.filter((number) => number % 2 === 1)).toEqual([])
})

test("examples/run.mjs prints a line per segment and one for the whole, and learns", async () => {
  const lines = (await node(join(ROOT, "examples", "run.mjs"))).trimEnd().split("\n")
  expect(lines.map((line) => line.replace(/( [\d.]+){2}$/, ""))).toEqual([
    ...Array.from({ length: 30 }, (_, i) => `segment ${i + 1}`),
    "whole stream",
  ])
  const accuracy = (line: string) => Number(line.split(" ")[2])
  // Knowing nothing, half of the items are odd.
  expect(accuracy(lines[29]), "of the last segment").toBeGreaterThan(0.9)
})

test("examples/compare.mjs prints a table and writes a report", async () => {
  const stdout = await node(join(ROOT, "examples", "compare.mjs"))
  for (const name of ["dess-fre", "always-grow", "plain-bias"])
    expect(stdout).toMatch(new RegExp(`^${name}  \\d+\\.\\d\\d ± `, "m"))
  for (const name of ["results.jsonl", "report/report.html", "report/runs.csv"])
    expect(existsSync(join(FOLDER, "results", "mine", name)), name).toBe(true)
})

test("examples/dess-in-300-lines.mjs has 300 lines of code, imports nothing but Node's modules, and agrees with the paper recipe: sizes exactly, losses to 3e-4", async () => {
  const path = join(ROOT, "examples", "dess-in-300-lines.mjs")
  const lines = readFileSync(path, "utf8").split("\n")
  expect(lines.filter((line) => !/^\s*($|\/\/|\/\*\*|\*)/.test(line)).length).toBeLessThanOrEqual(300)
  for (const [, from] of lines.join("\n").matchAll(/(?:import\(|from )"([^"]*)"/g)) expect(from).toMatch(/^node:/)
  const { dess } = (await import(path)) as {
    dess: (events: object[], features: Map<number, Float32Array>) => Generator<SegmentReport>
  }
  const stream = synthetic({ interactions: 3000 })
  const events: object[] = []
  for await (const { length, user, item, rating } of stream.batches())
    for (let l = 0; l < length; l++) events.push({ user: user[l], item: item[l], like: rating[l] > 3.5 ? 1 : 0 })
  const { columns, values, present } = stream.features
  const features = new Map<number, Float32Array>()
  for (const [item, isPresent] of present.entries())
    if (isPresent) features.set(item, values.subarray(item * columns.length, (item + 1) * columns.length))
  const expected: SegmentReport[] = []
  for await (const report of runStream(stream, { method: "dess-cv", recipe: "paper" })) expected.push(report)
  const got = [...dess(events, features)]
  expect(got.map(({ meanSize }) => meanSize)).toEqual(expected.map(({ meanSize }) => meanSize))
  expect(got.at(-1)?.meanSize.item, "rows have grown").toBeGreaterThan(10)
  for (const [t, { loss, accuracy }] of got.entries()) {
    expect(Math.abs(Number(loss) - Number(expected[t].loss)), `loss of segment ${t + 1}`).toBeLessThan(3e-4)
    expect(Math.abs(Number(accuracy) - Number(expected[t].accuracy)), `accuracy of segment ${t + 1}`).toBeLessThan(
      0.021,
    )
  }
})

test("importing dess loads its own files and Node's, none of the optional packages", () => {
  // What is loaded when it is asked for counts too.
  const entries = ["index.js", "datasets/open.js", "datasets/prepare.js", "engine/recommender.js"]
  const seen = new Set(entries.map((name) => join(ROOT, "dist", name)))
  const packages: string[] = []
  for (const file of seen)
    for (const [, name] of readFileSync(file, "utf8").matchAll(/^(?:import |.*\bfrom )"([^"]+)";?$/gm)) {
      if (name.startsWith(".")) seen.add(join(file, "..", name))
      else if (!name.startsWith("node:")) packages.push(name)
    }
  expect(packages).toEqual([])
  expect([...seen].map((file) => basename(file))).toEqual(expect.arrayContaining(["duck.js", "drawing.js", "loop.js"]))
})
