/**
 * Copies the pages to where VitePress finds its packages, with a first page made of the README. What they link to outside
 * of the site (sources, examples, raw results) becomes plain text: VitePress refuses dead links. Pictures that lead to
 * themselves become pictures: VitePress gives their files other names.
 */

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"

const root = join(import.meta.dirname, "../..")
const work = join(import.meta.dirname, "work")
const docs = join(root, "docs")
rmSync(work, { recursive: true, force: true })
mkdirSync(work)
cpSync(docs, work, {
  recursive: true,
  filter: (path) => !["results", "api"].includes(basename(path)) && !path.endsWith(".json"),
})
const FROM_ROOT = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
for (const name of FROM_ROOT) {
  const text = readFileSync(join(root, name), "utf8").replaceAll("](docs/", "](./")
  writeFileSync(join(work, name === "README.md" ? "index.md" : name), text)
}

for (const name of readdirSync(work, { recursive: true, encoding: "utf8" }).filter((one) => one.endsWith(".md"))) {
  const path = join(work, name)
  const pictures = readFileSync(path, "utf8").replaceAll(/\[(!\[[^\]]*\]\([^)]*\))\]\([^()\s]+\.(?:png|svg)\)/g, "$1")
  const text = pictures.replaceAll(/(?<!!)\[([^[\]]+)\]\(([^()\s]+)\)/g, (whole, label, link) => {
    const [file, anchor] = link.split("#")
    if (file === "" || /^[a-z]+:/.test(link)) return whole
    const [last] = FROM_ROOT.filter((one) => join(dirname(path), file).endsWith(`/${one}`))
    if (last) return `[${label}](/${last === "README.md" ? "" : last}${anchor ? `#${anchor}` : ""})`
    const target = join(dirname(path), file)
    return target.startsWith(work) && existsSync(target) ? whole : label
  })
  writeFileSync(path, text)
}
