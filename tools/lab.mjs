/** Runs the configs named (docs/lab/<name>.json; all without a name) into docs/results/<name>, and prints their tables. */

import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { labRows } from "./lab-table.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const all = readdirSync(join(root, "docs/lab"))
  .filter((file) => file.endsWith(".json"))
  .map((file) => basename(file, ".json"))
const names = process.argv.length > 2 ? process.argv.slice(2) : all
for (const name of names) {
  if (!all.includes(name)) throw new Error(`config: expected one of ${all.join(", ")}, got ${name}`)
  const out = join(root, "docs/results", name)
  const words = ["compare", "--config", join(root, "docs/lab", `${name}.json`), "--out", out]
  const { status } = spawnSync(process.execPath, [join(root, "dist/cli/main.js"), ...words], { stdio: "inherit" })
  if (status !== 0) process.exit(status ?? 1)
  const records = readFileSync(join(out, "results.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
  for (const model of new Set(records.map(({ cell }) => cell.model))) {
    console.log(`\n${name}, ${model}\n`)
    for (const row of labRows(records, model).values()) console.log(row)
  }
}
