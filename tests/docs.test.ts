/** Documents say what the program says, can be read, and answer what a newcomer asks. */

import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join, posix } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"
import { SECTIONS } from "../tools/docs/pages.mjs"

const ROOT = join(import.meta.dirname, "..")
const check = async (tool: string) =>
  (await promisify(execFile)(process.execPath, [join(ROOT, "tools", tool), "--check"])).stderr

test("the reference of commands, options and routes is what the schemas say", async () => {
  expect(await check("write-reference.mjs")).toBe("")
})

test("the architecture picture has the imports of the sources", async () => {
  expect(await check("draw-architecture.mjs")).toBe("")
})

const read = (path: string) => readFileSync(join(ROOT, path), "utf8")
const pages = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".md") && !/^(results|api|node_modules)\b/.test(name))
  .map((name) => posix.join("docs", name.replaceAll("\\", "/")))
  .sort()
const guides = ["README.md", ...pages.filter((page) => /^docs\/(guide|method)\//.test(page))]
const linksOf = (path: string) =>
  [...read(path).matchAll(/\]\(([^()\s:]+)\)/g)].map(([, link]) => {
    const [file, anchor] = link.split("#")
    return { file: file === "" ? path : posix.join(posix.dirname(path), file), anchor }
  })

test.each(guides)("%s has no paragraph of more than 80 words", (path) => {
  const text = read(path).replaceAll(/^```.*?^```$/gms, "")
  const paragraphs = text.split("\n").filter((line) => !/^(\||#| {4}|\[?!\[)/.test(line))
  const long = paragraphs.filter((line) => line.split(/\s+/).filter(Boolean).length > 80)
  expect(long.map((line) => line.slice(0, 60))).toEqual([])
})

test("the README is short, has its parts in order, and shows what its example prints", async () => {
  const readme = read("README.md")
  expect(readme.split("\n").length).toBeLessThanOrEqual(135)
  expect([...readme.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)).toEqual([
    "Install",
    "Example",
    "As a service",
    "How it works",
    "Results",
    "When not to use it",
    "Beside others",
    "For researchers",
    "Documentation",
    "Licence and citation",
  ])
  const { stdout } = await promisify(execFile)(process.execPath, [join(ROOT, "examples/quick.mjs")])
  expect(readme).toContain(`\`\`\`text\n${stdout}\`\`\``)
})

test("twenty questions are answered two clicks from the README, under a heading that exists", () => {
  const path = "docs/guide/questions.md"
  expect(linksOf("README.md").map(({ file }) => file)).toContain(path)
  const rows = read(path)
    .split("\n")
    .filter((line) => /^\| .*\? \|/.test(line))
  expect(rows).toHaveLength(20)
  for (const row of rows) expect(row, row).toMatch(/\]\([^)]+\) \|$/)
})

test("every page is reached from the README in two clicks", () => {
  const first = linksOf("README.md").map(({ file }) => file)
  const second = first.filter((file) => file.endsWith(".md")).flatMap((file) => linksOf(file).map((link) => link.file))
  expect(pages.filter((page) => ![...first, ...second].includes(page))).toEqual([])
})

test("the site lists every page", () => {
  const listed = SECTIONS.flatMap((section) => Object.keys(section.pages)).map((page) => `docs/${page}.md`)
  expect(listed.sort()).toEqual(pages)
})
