/** docs/lab/tutorial-own-policy.md, followed word by word in an empty folder. */

import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { filesOfPage, installPackage } from "./support/package.ts"

const page = readFileSync(join(import.meta.dirname, "..", "docs", "lab", "tutorial-own-policy.md"), "utf8")
let project = ""
afterAll(() => rmSync(project, { recursive: true, force: true }))

test("every command of the tutorial works, and what it promises is there", () => {
  // What `npm install` of the page brings.
  project = installPackage(["@observablehq/plot", "happy-dom", "@duckdb/node-api"])
  for (const [name, text] of filesOfPage(page)) writeFileSync(join(project, name), text)
  const commands = [...page.matchAll(/```sh\n([\s\S]*?)```/g)]
    .flatMap(([, block]) => block.trim().split("\n"))
    .filter((command) => !command.startsWith("npm "))
  expect(commands.length).toBeGreaterThanOrEqual(5)
  const { NODE_OPTIONS: _, ...env } = process.env
  for (const command of commands) {
    const [program, ...words] = command.split(" ")
    const given =
      program === "npx" ? [join("node_modules", "dess", "dist", "bundle", "main.js"), ...words.slice(1)] : words
    const { status, stderr } = spawnSync(process.execPath, given, { cwd: project, env, encoding: "utf8" })
    expect({ command, status, stderr: status === 0 ? "" : stderr }).toEqual({ command, status: 0, stderr: "" })
  }
  const promised = [...page.matchAll(/`(results\/[\w./-]+)`/g)].map(([, path]) => path)
  expect(promised.length).toBeGreaterThanOrEqual(5)
  for (const path of promised) expect(existsSync(join(project, path)), path).toBe(true)
  const table = readFileSync(join(project, "results/report/latex/part1-topk.tex"), "utf8")
  // Ten methods, and random-grow twice: at the memory of dess-fre and of the policy.
  expect(table.match(/^[a-z][\w= -]* & /gm)?.length).toBe(12)
  expect(table).toContain("random-grow = grow-by-count")
  // The policy of the page does something on the page's data.
  const [own, idle] = ["grow-by-count", "never-grow"].map((method) =>
    new RegExp(`^${method} & (.*)$`, "m").exec(table)?.[1].replace(/\{\\boldmath|\}/g, ""),
  )
  expect(own).toBeDefined()
  expect(own).not.toBe(idle)
}, 300_000)
