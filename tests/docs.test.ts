/** Documents say what the program says, can be read, and answer what a newcomer asks. */

import { execFile } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join, posix } from "node:path"
import { promisify } from "node:util"
import { describe, expect, test } from "vitest"
import { SECTIONS } from "../tools/docs/pages.mjs"
import { writeFigures } from "../tools/write-figures.mjs"

const ROOT = join(import.meta.dirname, "..")
const check = async (tool: string) =>
  (await promisify(execFile)(process.execPath, [join(ROOT, "tools", tool), "--check"])).stderr

test("the reference of commands, options and routes is what the schemas say", async () => {
  expect(await check("write-reference.mjs")).toBe("")
})

test("figures of tables made from docs/results are those of the raw files, and so are those of the sentences around them", async () => {
  expect(await check("write-figures.mjs")).toBe("")
})

describe("the check of figures", () => {
  const page =
    "## Results\n\n<!-- figures one: loss held -->\n| | loss | held |\n|---|---:|---:|\n| `a` | .5000 | 1 kB |\n| `b` | .40000 | 2 kB |\n\nIt is .1000 better.\n"
  const results = [
    { method: "a", loss: 0.5, rows: 1000 },
    { method: "b", loss: 0.3, rows: 2000 },
    { method: "b", loss: 0.5, rows: 2000 },
  ].map(({ method, loss, rows }) => ({
    status: "done",
    cell: { method, task: "binary", data: { name: "d" } },
    result: { loss, memory: { rows, indicators: 0, met: 0 } },
  }))

  test("writes the means of the raw figures", () => {
    const { text, wrong } = writeFigures(page, () => results)
    expect(wrong).toEqual(["a, loss: the results have .50000, the page .5000"])
    expect(text).toContain("| `a` | .50000 | 1 kB |\n| `b` | .40000 | 2 kB |")
    expect(writeFigures(text, () => results)).toEqual({ text, wrong: [] })
  })

  test("takes one data set of several, a method with options, and leaves rows from elsewhere alone", () => {
    const runs = [
      { method: "a:price=1", data: "one", recall: 0.1 },
      { method: "a:price=1", data: "two", recall: 0.2 },
    ].map(({ method, data, recall }) => ({
      status: "done",
      cell: { method, task: "topk", data: { name: data } },
      result: { recall, ndcg: recall / 2 },
    }))
    const table = "| | recall |\n|---|---:|\n"
    const byMethod = `## A\n\n<!-- figures f/two: both -->\n${table}| \`a:price=1\` | .2000 / .1000 |\n| published | .3000 |\n`
    expect(writeFigures(byMethod, () => runs)).toEqual({ text: byMethod, wrong: [] })
    const byData = `## A\n\n<!-- figures f/a:price=1: recall -->\n${table}| \`one\` | .1000 |\n| \`two\` | .1000 |\n`
    expect(writeFigures(byData, () => runs).wrong).toEqual(["two, recall: the results have .2000, the page .1000"])
  })

  test("finds a figure of a sentence that no table has, and a method without results", () => {
    const said = page.replace(".5000", ".50000").replace("is .1000", "is .1234")
    expect(writeFigures(said, () => results).wrong).toEqual(['.1234 in "Results" is in no table of the section'])
    expect(writeFigures(page, () => []).wrong).toContain("no results of a for <!-- figures one: loss held -->")
  })

  test("finds kB and a p of a sentence that no table has", () => {
    const said = `${page.replace(".5000", ".50000")}\nIt holds 2 kB, 3 kB with \`memoryBudget=3000\`, and p = .031 or p = .020.\n> c (p = .031)\n`
    expect(writeFigures(said, () => results).wrong).toEqual([
      '3 kB in "Results" is in no table of the section',
      'p = .020 in "Results" is in no table of the section',
    ])
  })

  test("holds a section without tables to what it says its figures are", () => {
    const runs = [
      { method: "dess-cv", losses: [0.21, 0.22, 0.26] },
      { method: "esapn", losses: [0.2, 0.2, 0.2] },
    ].flatMap(({ method, losses }) =>
      losses.map((loss, seed) => ({
        status: "done",
        cell: { method, task: "binary", model: "mf", seed, data: { name: "d" } },
        result: { loss },
      })),
    )
    const claims = "f mf: loss dess-cv .230, loss dess-cv − esapn .03, p esapn .19, p esapn < .2"
    const said = `## A\n\n<!-- says ${claims} -->\n\n- DESS has .230, .03 more (p = .19).\n`
    expect(writeFigures(said, () => runs).wrong).toEqual([])
    expect(writeFigures(said.replace("has .230", "has .231"), () => runs).wrong).toEqual([
      '.231 in "A" is not among what it says',
    ])
    expect(writeFigures(said.replace("p esapn < .2", "p esapn < .05"), () => runs).wrong[0]).toMatch(
      /^f mf: p esapn < \.05: the results have 0\.188/,
    )
    expect(writeFigures(said.replaceAll(".230", ".240"), () => runs).wrong[0]).toMatch(
      /loss dess-cv \.240: the results have 0\.2(3|29)/,
    )
  })
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

const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean).length

/** What a newcomer reads; the rest of the lab's pages are kept for those who check a figure. */
const plain = [...guides, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"].concat(
  ["data", "lists", "own-methods", "scaling", "tutorial-own-policy"].map((name) => `docs/lab/${name}.md`),
)
const paragraphsOf = (path: string) =>
  read(path)
    .replaceAll(/^```.*?^```$/gms, "")
    .split("\n")
    .filter((line) => !/^(\||#| {4}|\[?!\[|<!--)/.test(line))

test.each([...new Set([...plain, ...pages])])("%s has no paragraph of more than 80 words", (path) => {
  const long = paragraphsOf(path).filter((line) => !line.startsWith(">") && wordsOf(line) > 80)
  expect(long.map((line) => line.slice(0, 60))).toEqual([])
})

test.each(plain)("%s has no sentence of more than 35 words", (path) => {
  // A link's address and a piece of code are one word; a colon or semicolon may end a sentence, too.
  const sentences = paragraphsOf(path).flatMap((line) =>
    line
      .replaceAll(/\]\([^)]*\)/g, "]")
      .replaceAll(/`[^`]*`/g, "x")
      .split(/(?<=[.:;!?])\s+(?=[A-Z*[(x])/),
  )
  expect(sentences.filter((sentence) => wordsOf(sentence) > 35)).toEqual([])
})

test("the walk of one event is ten files at most, and all of them are there", () => {
  const [, walk] = /^## One event in ten files$(.*?)^## /ms.exec(read("docs/architecture.md")) ?? []
  const files = [...(walk ?? "").matchAll(/^\| \d+ \| `([^`]+)` \|/gm)].map(([, file]) => file)
  expect(files.length).toBeGreaterThan(5)
  expect(files.length).toBeLessThanOrEqual(10)
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([])
})

/** Commands by which figures were made; a prototype that is no part of the project is named as such. */
const SOURCE =
  /`(npm run (bench|lab|torture)|dess (run|compare|sweep|report)|node (tools|bench)\/|tests\/)|<!-- (figures|says) |bench\/\w+\.(mjs|py)|[Pp]rototype|npm start/

test.each(["README.md", ...pages.filter((page) => /^docs\/(guide\/|method\/|lab\/(?!.*-notebook))/.test(page))])(
  "%s: a section with measured figures names the command, the test or the results they come from",
  (path) => {
    const [intro, ...sections] = read(path).split(/^## /m)
    const measured = sections.filter((section) => /(?<![\d.§#])\.\d{3,}\b/.test(section.replaceAll(/`[^`]*`/g, "")))
    const nameless = measured.filter(
      (section) => !SOURCE.test(section) && !(path.endsWith("results.md") && SOURCE.test(intro)),
    )
    expect(nameless.map((section) => section.split("\n")[0])).toEqual([])
  },
)

test("the README is short, has its parts in order, and shows what its example prints", async () => {
  const readme = read("README.md")
  expect(readme.split("\n").length).toBeLessThanOrEqual(125)
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

test("a newcomer's questions are answered two clicks from the README, under a heading that exists", () => {
  const path = "docs/guide/questions.md"
  expect(linksOf("README.md").map(({ file }) => file)).toContain(path)
  const rows = read(path)
    .split("\n")
    .filter((line) => /^\| .*\? \|/.test(line))
  expect(rows).toHaveLength(29)
  for (const row of rows) expect(row, row).toMatch(/\]\([^)]+\) \|$/)
  const [, users, items] = /^\| `256MB` \|.*\| ([\d,]+) and ([\d,]+) \|$/m.exec(read("docs/guide/memory.md")) ?? []
  expect(rows.find((row) => row.includes("How many"))).toContain(`256MB\` for some ${users} users and ${items} items`)
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
