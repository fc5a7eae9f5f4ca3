/**
 * What comments and documents refer to exists: sections of the method (`method.md §5`, or `§5` alone), documents and
 * their headings (`docs/guide/engine.md#damage`, `docs/guide/engine.md, section Damage`), and files of this repository.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"

const ROOT = join(import.meta.dirname, "..")
const FOLDERS = ["src", "tests", "web", "bench", "tools", "examples", "docs"]
const TEXT = /\.(ts|mts|mjs|py|c|md|html|css)$/
/** This file speaks of sections that do not exist. */
const OWN = "tests/references.test.ts"

interface Tree {
  /** Headings of a document, or undefined where there is none. */
  headings(document: string): string[] | undefined
  exists(path: string): boolean
}

const repository: Tree = {
  headings: (document) =>
    existsSync(join(ROOT, document))
      ? [...readFileSync(join(ROOT, document), "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading)
      : undefined,
  exists: (path) => existsSync(join(ROOT, path)),
}

/** As GitHub makes them. */
const toAnchor = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(" ", "-")

/** References of a text that lead nowhere. */
function findLost(text: string, tree: Tree): string[] {
  const sections = new Set(
    tree.headings("docs/method/method.md")?.flatMap((heading) => /^(\d+)\. /.exec(heading)?.slice(1) ?? []),
  )
  // A comment breaks its lines anywhere.
  const flat = text.replaceAll(/\n[ \t]*(?:\*(?!\/)|\/\/|#)?[ \t]*/g, " ")
  const lost: string[] = []
  for (const [whole, number] of flat.matchAll(/§ ?(\d+)/g)) if (!sections.has(number)) lost.push(`method.md ${whole}`)
  for (const [whole, document, anchor, section] of flat.matchAll(
    /\b(docs\/(?:[\w-]+\/)*[\w-]+\.md)(?:#([\w-]+)|, section "?([^",.;)*]+))?/g,
  )) {
    const headings = tree.headings(document)
    const found =
      headings?.some(
        (heading) =>
          (anchor === undefined || toAnchor(heading) === anchor) &&
          (section === undefined || heading.replace(/^\d+\. /, "").toLowerCase() === section.trim().toLowerCase()),
      ) ?? false
    if (!found) lost.push(whole)
  }
  for (const [path] of flat.matchAll(
    /(?<![\w./-])(?:src|tests|bench|tools|web|examples)\/[\w/.-]*?\.(?:ts|mts|mjs|py)\b/g,
  ))
    if (!tree.exists(path)) lost.push(path)
  return [...new Set(lost)]
}

const files = [
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`),
  ),
  ...readdirSync(ROOT).filter((file) => file.endsWith(".md")),
].filter(
  (file) => TEXT.test(file) && file !== OWN && !file.startsWith("docs/results/") && !file.includes("node_modules"),
)

test("every section, document and file that is referred to exists", () => {
  expect(files.length).toBeGreaterThan(300)
  const lost = files.flatMap((file) =>
    findLost(readFileSync(join(ROOT, file), "utf8"), repository).map((reference) => `${file}: ${reference}`),
  )
  expect(lost).toEqual([])
})

describe("the checker", () => {
  const tree: Tree = {
    headings: (document) =>
      ({ "docs/method/method.md": ["The method", "2. The model"], "docs/a.md": ["On disk"] })[document],
    exists: (path) => path === "src/a/b.ts",
  }

  test.each([
    ["(method.md §3)", ["method.md §3"]],
    ["(method §2, §12)", ["method.md §12"]],
    ["see docs/b.md", ["docs/b.md"]],
    ["see docs/a.md#damage", ["docs/a.md#damage"]],
    ["see docs/a.md, section Damage.", ["docs/a.md, section Damage"]],
    ["as in src/a/c.ts", ["src/a/c.ts"]],
    ["/**\n * as in docs/a.md, section\n * Damage\n */", ["docs/a.md, section Damage"]],
  ])("finds what is lost in %j", (text, lost) => {
    expect(findLost(text, tree).map((one) => one.trim())).toEqual(lost)
  })

  test.each([
    "(method.md §2)",
    "docs/a.md#on-disk",
    "docs/a.md, section On disk.",
    "docs/method/method.md, section The model",
    "src/a/b.ts",
  ])("finds %j", (text) => {
    expect(findLost(text, tree)).toEqual([])
  })
})
