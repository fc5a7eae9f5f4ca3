/**
 * Runs the configs named (docs/lab/<name>.json; all without a name) into docs/results/<name>, anew or, with --resume, those cells
 * that are not there, and prints their tables. Paths of this machine and the figures of every single user, which are most of the
 * bytes, are not kept. Then bring the figures into the pages: node tools/write-figures.mjs
 */

import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { labRows } from "./lab-table.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const all = readdirSync(join(root, "docs/lab"))
  .filter((file) => file.endsWith(".json"))
  .map((file) => basename(file, ".json"))
const words = process.argv.slice(2)
const resume = words.includes("--resume")
const given = words.filter((word) => word !== "--resume")
const names = given.length > 0 ? given : all
for (const name of names) {
  if (!all.includes(name)) throw new Error(`config: expected one of ${all.join(", ")}, got ${name}`)
  const out = join(root, "docs/results", name)
  // Cells that another build ran would be kept.
  if (!resume) rmSync(out, { recursive: true, force: true })
  const compare = ["compare", "--config", join(root, "docs/lab", `${name}.json`), "--out", out]
  const { status } = spawnSync(process.execPath, [join(root, "dist/cli/main.js"), ...compare], { stdio: "inherit" })
  if (status !== 0) process.exit(status ?? 1)
  const records = readFileSync(join(out, "results.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .map(({ users: _, cell, provenance, ...record }) => ({
      ...record,
      cell: { ...cell, data: { ...cell.data, path: cell.data.name } },
      ...(provenance && { provenance: { ...provenance, command: `dess compare --config docs/lab/${name}.json` } }),
    }))
  writeFileSync(join(out, "results.jsonl"), records.map((record) => `${JSON.stringify(record)}\n`).join(""))
  rmSync(join(out, "config.json"), { force: true })
  for (const model of new Set(records.map(({ cell }) => cell.model))) {
    console.log(`\n${name}, ${model}\n`)
    for (const row of labRows(records, model).values()) console.log(row)
  }
}
