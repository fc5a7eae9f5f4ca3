/** What the README and the documents point to exists: files, pictures and headings. */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"

const ROOT = join(import.meta.dirname, "..")
const documents = [
  ...readdirSync(ROOT),
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" }).map((name) => join("docs", name)),
].filter((name) => name.endsWith(".md") && !name.startsWith(join("docs", "results")))

const textOf = (path: string) => readFileSync(join(ROOT, path), "utf8").replaceAll(/^```.*?^```$/gms, "")

/** The anchors of a document, made of its headings as GitHub makes them. */
function anchorsOf(path: string): string[] {
  const seen = new Map<string, number>()
  return [...textOf(path).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase()
    const anchor = words.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")
    const before = seen.get(anchor) ?? 0
    seen.set(anchor, before + 1)
    return before === 0 ? anchor : `${anchor}-${before}`
  })
}

const linksOf = (path: string) =>
  [
    ...textOf(path)
      .replaceAll(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^()\s]+)(?: "[^"]*")?\)/g),
  ]
    .map(([, link]) => link)
    .filter((link) => !/^[a-z]+:/.test(link))

test.each(documents)("the links of %s lead somewhere", (path) => {
  const lost = linksOf(path).filter((link) => {
    const [file, anchor] = link.split("#")
    const target = file === "" ? path : join(dirname(path), file)
    if (!existsSync(join(ROOT, target))) return true
    if (anchor === undefined) return false
    const line = /^L(\d+)$/.exec(anchor)
    return line ? Number(line[1]) > textOf(target).split("\n").length : !anchorsOf(target).includes(anchor)
  })
  expect(lost).toEqual([])
})

// Sites are built from these pages, and a builder takes an address for a link.
test.each(documents)("%s links to no address of this machine", (path) => {
  const text = textOf(path)
    .replaceAll(/`[^`\n]*`/g, "")
    .replaceAll(/^ {4}.*$/gm, "")
  expect(text.match(/https?:\/\/(localhost|127\.0\.0\.1)[^\s)]*/g) ?? []).toEqual([])
})

test("there are links to check", () => {
  expect(linksOf("README.md").length).toBeGreaterThan(15)
})
