/** The two entry points of the package as it is published: dist/bundle. */

import { execFile } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeAll, expect, test } from "vitest"
import { buildCommand } from "./support/command.ts"

const execute = promisify(execFile)
const root = join(import.meta.dirname, "..")

beforeAll(buildCommand, 120_000)

/** What a program that imports the package by its name prints. */
async function run(program: string): Promise<string> {
  const words = ["--input-type=module", "-e", program]
  return (await execute(process.execPath, words, { cwd: root })).stdout.trim()
}

test("importing the library loads nothing of Node for threads, processes, compression or hashes", async () => {
  const text = await run(`
    const before = new Set(process.moduleLoadList)
    await import("dess")
    console.log(process.moduleLoadList.filter((name) => !before.has(name)).join("\\n"))`)
  const heavy = text.split("\n").filter((name) => /NativeModule (worker_threads|child_process|zlib|crypto)$/.test(name))
  expect(heavy).toEqual([])
})

test("the bundled library trains a recommender in its thread", { timeout: 60_000 }, async () => {
  const text = await run(`
    import { Recommender } from "dess"
    const recommender = await Recommender.open()
    await recommender.observe(Array.from({ length: 600 }, (_, n) => ({ user: "u" + (n % 20), item: "i" + ((7 * n) % 50) })))
    await recommender.drain()
    const list = await recommender.recommend("u1", { count: 3 })
    await recommender.close()
    console.log(list.map(({ source }) => source).join(" "))`)
  expect(text).toBe("model model model")
})

test("the bundled library compares in processes of their own", { timeout: 120_000 }, async () => {
  const out = mkdtempSync(join(tmpdir(), "dess-bundle-"))
  try {
    const grid = {
      methods: ["dess-fre"],
      data: [{ path: "synthetic", interactions: 1500 }],
      seeds: 1,
      sizes: [2, 4],
      segment: 100,
      controls: false,
    }
    const text = await run(`
      import { compare } from "dess"
      const { records } = await compare(${JSON.stringify(grid)}, { out: ${JSON.stringify(out)} })
      console.log(records.map(({ status }) => status).join(" "))`)
    expect(text).toBe("done")
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
})

test("the bundled command says the package's version and runs a method", { timeout: 60_000 }, async () => {
  const command = async (...words: string[]) =>
    (await execute(process.execPath, [join(root, "dist/bundle/main.js"), ...words])).stdout
  expect((await command("--version")).trim()).toMatch(/^\d+\.\d+\.\d+/)
  const result = JSON.parse(await command("run", "--interactions", "1000", "--json"))
  expect(result.interactions).toBe(1000)
})
