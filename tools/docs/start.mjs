/** Copies the pages to where VitePress finds its packages, with a first page made of the README. */

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"

const root = join(import.meta.dirname, "../..")
const work = join(import.meta.dirname, "work")
rmSync(work, { recursive: true, force: true })
mkdirSync(work)
cpSync(join(root, "docs"), work, {
  recursive: true,
  filter: (path) => !["results", "api"].includes(basename(path)) && !path.endsWith(".json"),
})
const readme = readFileSync(join(root, "README.md"), "utf8").replaceAll("](docs/", "](./")
writeFileSync(join(work, "index.md"), readme)
