/**
 * Runs the configs named (docs/lab/<name>.json; all without a name) into docs/results/<name>, again or, with --resume, those cells
 * that are not there, and prints their tables. Paths of this machine are not kept, and of users groups instead of every single one,
 * which would be most of the bytes: they are enough for the test over users. Then bring the figures into the pages:
 * node tools/write-figures.mjs
 */

import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { keepUsers, readUsers } from "../dist/experiments/user-scores.js"
import { labTable } from "./lab-table.mjs"

/** Of users in a kept result. */
const GROUPS = 200

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
    .map(({ users, cell, provenance, ...record }) => ({
      ...record,
      ...(users && { users: keepUsers(readUsers(users), GROUPS) }),
      cell: { ...cell, data: { ...cell.data, path: cell.data.name } },
      ...(provenance && { provenance: { ...provenance, command: `dess compare --config docs/lab/${name}.json` } }),
    }))
  writeFileSync(join(out, "results.jsonl"), records.map((record) => `${JSON.stringify(record)}\n`).join(""))
  rmSync(join(out, "config.json"), { force: true })
  for (const model of new Set(records.map(({ cell }) => cell.model))) {
    console.log(`\n${name}, ${model}\n`)
    for (const line of labTable(records, model)) console.log(line)
  }
}
