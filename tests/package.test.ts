/** The package as it is published: what it contains, its types, and what it does where no optional package is installed. */

import { execFile, spawnSync } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { packedFiles, targetOf } from "../tools/package-links.mjs"
import { buildCommand } from "./support/command.ts"

const ROOT = join(import.meta.dirname, "..")
/** Somebody's project: the package is in its node_modules, nothing else. */
const PROJECT = mkdtempSync(join(realpathSync(tmpdir()), "dess-package-"))
const PACKAGE = join(PROJECT, "node_modules", "dess")
let files: string[] = []

beforeAll(() => {
  buildCommand()
  files = packedFiles()
  for (const path of files) cpSync(join(ROOT, path), join(PACKAGE, path))
  writeFileSync(join(PROJECT, "package.json"), '{ "type": "module" }')
})
afterAll(() => rmSync(PROJECT, { recursive: true, force: true }))

/** What is run, its types, the pages, the documents, the examples, and the three files that npm always takes. */
const WANTED = [
  /^(package\.json|README\.md|LICENSE|CHANGELOG\.md|SECURITY\.md|CITATION\.cff)$/,
  /^docs\/(architecture\.md|(guide|method|reference|lab)\/[\w-]+\.md|lab\/[\w-]+\.json|images\/\w+\.(svg|png))$/,
  /^examples\/[\w-]+\.mjs$|^examples\/shop\//,
  /^dist\/bundle\/([\w-]+\.js|(index|testing)\.cjs|licences\.md)$/,
  /^dist\/types\/(index|testing)\.d\.cts$/,
  /^dist\/web\/(index\.html|replay\.html|report\.css|report\.js|plot\.js|licences\.md)$/,
  /^dist\/web\/assets\/[\w-]+\.(css|js)$/,
]

/** Types that were left by a source that is gone are strangers, too: remove dist and build again. */
const isType = (path: string) =>
  path.startsWith("dist/types/") &&
  existsSync(join(ROOT, path.replace(/^dist\/types/, "src").replace(/\.d\.ts$/, ".ts")))

test("the package holds what runs, its types, pages and documents, nothing else, in less than 2.9 MB", () => {
  expect(files.filter((path) => /\/(cli|server|cluster)\//.test(path))).toEqual([])
  expect(files.filter((path) => !WANTED.some((form) => form.test(path)) && !isType(path))).toEqual([])
  const programs = ["index", "main", "worker", "cell-process"].map((name) => `dist/bundle/${name}.js`)
  const pages = ["dist/web/index.html", "dist/web/replay.html", "dist/web/report.js", "dist/web/report.css"]
  expect(files).toEqual(
    expect.arrayContaining(["LICENSE", "README.md", "dist/types/index.d.ts", ...programs, ...pages]),
  )
  const bytes = files.reduce((sum, path) => sum + statSync(join(ROOT, path)).size, 0)
  expect(bytes).toBeLessThan(2.9e6)
})

test("with everything the service needs it is less than 15 MB", () => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"))
  const seen = new Set<string>()
  const sizeOf = (folder: string): number =>
    readdirSync(folder, { withFileTypes: true, recursive: true }).reduce(
      (sum, entry) => sum + (entry.isFile() ? statSync(join(entry.parentPath, entry.name)).size : 0),
      0,
    )
  /** The bytes of a package and of all it depends on, each once; nested ones are part of the folder. */
  const bytesOf = (name: string): number => {
    const folder = join(ROOT, "node_modules", name)
    if (seen.has(name) || !existsSync(folder)) return 0
    seen.add(name)
    const { dependencies = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
    return Object.keys(dependencies).reduce((sum, other) => sum + bytesOf(other), sizeOf(folder))
  }
  const core = files.reduce((sum, path) => sum + statSync(join(ROOT, path)).size, 0)
  const service = Object.keys(optionalDependencies).reduce((sum, name) => sum + bytesOf(name), core)
  expect(seen.size).toBeGreaterThan(30)
  expect(service).toBeLessThan(15e6)
})

/** What the package leaves in the repository: sources, raw results, notebooks and what only a checkout runs. */
const ELSEWHERE =
  /^(src|tests|bench|tools|deploy|docs\/results)\/|^(Dockerfile|CONTRIBUTING\.md)$|^docs\/lab\/(results|\w+-notebook)\.md$/

test("links of the package's pages lead to files of the package, or to what the README says is in the repository", () => {
  const pages = files.filter((path) => path.endsWith(".md") && !path.startsWith("dist/"))
  expect(pages.length).toBeGreaterThan(25)
  const lost = pages.flatMap((page) =>
    linksOf(readFileSync(join(PACKAGE, page), "utf8")).flatMap((link) => {
      const target = targetOf(page, link)
      return target === undefined || existsSync(join(PACKAGE, target)) || ELSEWHERE.test(target)
        ? []
        : `${page}: ${link}`
    }),
  )
  expect(lost).toEqual([])
  // A user of the package needs none of these.
  for (const page of pages.filter((path) => /^docs\/(guide|reference)\//.test(path)))
    for (const link of linksOf(readFileSync(join(PACKAGE, page), "utf8")))
      expect(targetOf(page, link) ?? "", `${page}: ${link}`).not.toMatch(/^(src|tests|bench|tools|docs\/results)\//)
  expect(readFileSync(join(PACKAGE, "README.md"), "utf8")).toContain("raw results and sources are in the repository")
})

const linksOf = (text: string) =>
  [
    ...text
      .replaceAll(/^```.*?^```$/gms, "")
      .replaceAll(/`[^`\n]*`/g, "")
      .matchAll(/\]\(([^()\s]+)\)/g),
  ].map(([, link]) => link)

test("every file that package.json names is in the package", () => {
  const { bin, exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"))
  const paths = [exports["."], exports["./testing"]].flatMap(({ import: imported, require: required }) => [
    ...[imported.types, imported.default, required.types, required.default],
  ])
  paths.push(bin.dess)
  const named = paths.map((path: string) => path.replace(/^\.\//, ""))
  expect(files).toEqual(expect.arrayContaining(named))
})

const USE = `
import { DessError, Recommender, type RecommenderOptions, runStream, streamFromInteractions } from "dess"

const options: RecommenderOptions = { memoryBudget: "64MB" }
const recommender = await Recommender.open(options)
await recommender.observe({ user: "ada", item: "dune", rating: 5 })
const scores: number[] = (await recommender.recommend("ada", { count: 3 })).map(({ score }) => score)
// @ts-expect-error: a count is a number
await recommender.recommend("ada", { count: "3" })
const run = runStream(streamFromInteractions({ interactions: [] }), { method: "dess-fre" })
for await (const { accuracy } of run) scores.push(accuracy ?? 0)
export const isOurs = (error: unknown): boolean => error instanceof DessError
`

/** A policy and a model of the author's own, and their contract. */
const OWN = `
import { type CreatePolicy, type ModelStart, type OwnRowModel, runStream, type SizePolicy, synthetic } from "dess"
import { type Check, modelChecks, policyChecks } from "dess/testing"

export const grow: CreatePolicy = ({ options, seed, sizes }) => {
  const policy: SizePolicy = {
    context: "fre",
    firstSegment: 2,
    learn: (_side, { length }) => new Uint8Array(length).fill(seed + sizes.length > 0 ? 1 : 0),
    decide: (_side, { length, frequencies, steps }) =>
      Uint8Array.from({ length }, (_, i) => (frequencies[i] >= Number(options.least) * 2 ** steps[i] ? 1 : 0)),
  }
  return policy
}
export const model = ({ outputs }: ModelStart): OwnRowModel => ({
  head: 1,
  fill: (row, { from }) => row.fill(0, from),
  score: (z, user, item) => z.fill(user[0] + item[0], 0, outputs),
  step: (errors, user, item) => {
    user[0] -= errors[0]
    item[0] -= errors[0]
  },
})
// @ts-expect-error: a policy says what it reads
export const wrong: CreatePolicy = () => ({ firstSegment: 1, learn: () => new Uint8Array(), decide: () => new Uint8Array() })
export const checks: readonly Check[] = [...policyChecks(grow, { options: { least: 2 } }), ...modelChecks(model)]
for await (const { accuracy } of runStream(synthetic(), { policy: grow, ownOptions: { least: 2 } })) accuracy?.toFixed(3)
`

/** The first again from a module that requires: no await at the top, and the names by `import = require`. */
const REQUIRE = `
import dess = require("dess")
import testing = require("dess/testing")

export const checks: readonly testing.Check[] = testing.policyChecks(() => ({
  context: "none",
  firstSegment: 1,
  learn: (_side, { length }) => new Uint8Array(length),
  decide: (_side, { length }) => new Uint8Array(length),
}))
const options: dess.RecommenderOptions = { memoryBudget: "64MB" }
export async function use(): Promise<number[]> {
  const recommender: dess.Recommender = await dess.Recommender.open(options)
  await recommender.observe({ user: "ada", item: "dune", rating: 5 })
  const scores = (await recommender.recommend("ada", { count: 3 })).map(({ score }) => score)
  // @ts-expect-error: a count is a number
  await recommender.recommend("ada", { count: "3" })
  for await (const { accuracy } of dess.runStream(dess.streamFromInteractions({ interactions: [] }))) scores.push(accuracy ?? 0)
  return scores
}
export const isOurs = (error: unknown): boolean => error instanceof dess.DessError
`

test.each([
  { module: "nodenext", moduleResolution: "nodenext", file: "use.ts" },
  { module: "node16", moduleResolution: "node16", file: "use.ts" },
  { module: "node16", moduleResolution: "node16", file: "use.cts" },
  { module: "nodenext", moduleResolution: "nodenext", file: "use.cts" },
  { module: "esnext", moduleResolution: "bundler", file: "use.ts" },
])("its types are found and checked whole under $moduleResolution in $file", ({ file, ...form }) => {
  writeFileSync(join(PROJECT, file), file === "use.cts" ? REQUIRE : USE)
  writeFileSync(join(PROJECT, "own.mts"), OWN)
  const compilerOptions = {
    ...form,
    target: "es2022",
    // AbortSignal comes from @types/node or from here.
    lib: ["es2023", "dom"],
    strict: true,
    skipLibCheck: false,
    noEmit: true,
  }
  const tsconfig = { compilerOptions: { ...compilerOptions, types: [] }, files: [file, "own.mts"] }
  writeFileSync(join(PROJECT, "tsconfig.json"), JSON.stringify(tsconfig))
  const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc")
  const { status, stdout } = spawnSync(process.execPath, [compiler, "-p", PROJECT], { encoding: "utf8" })
  expect({ status, stdout }).toEqual({ status: 0, stdout: "" })
})

/** Runs Node in the project; resolves whatever the end. */
const node = (...words: string[]) =>
  new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    const { NODE_OPTIONS: _, ...env } = process.env
    const child = execFile(process.execPath, words, { cwd: PROJECT, env, timeout: 100_000 }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })
const dess = (...words: string[]) => node(join(PACKAGE, "dist/bundle/main.js"), ...words)

test.each(["quick", "run", "recommender", "compare"])(
  "examples/%s.mjs runs without optional packages",
  async (name) => {
    const path = join(PROJECT, `${name}.mjs`)
    cpSync(join(ROOT, "examples", `${name}.mjs`), path)
    expect(await node(path)).toMatchObject({ code: 0, stderr: "" })
  },
)

test("the command runs a method and makes a comparison and its page without optional packages", async () => {
  expect(JSON.parse((await dess("run", "--interactions", "1000", "--json")).stdout).interactions).toBe(1000)
  const grid = ["--interactions", "1000", "--methods", "plain-bias", "--seeds", "1", "--no-controls", "--out", "out"]
  expect(await dess("compare", "--data", "synthetic", ...grid)).toMatchObject({ code: 0 })
  expect(await dess("report", "out")).toMatchObject({ code: 0 })
})

test("an error that nobody catches prints its line, not a file", async () => {
  writeFileSync(
    join(PROJECT, "wrong.mjs"),
    'import { Recommender } from "dess"\nawait Recommender.open({ tsak: "topk" })\n',
  )
  const { code, stderr } = await node("wrong.mjs")
  expect(code).toBe(1)
  expect(stderr).toContain('got "tsak"')
  expect(stderr.length).toBeLessThan(4000)
})

test("a directory needs no package", async () => {
  writeFileSync(join(PROJECT, "rows.csv"), "user,item,rating,timestamp\nada,dune,5,1700000000\n")
  expect(await dess("import", "rows.csv", "--directory", "bare")).toMatchObject({ code: 0 })
  expect(await dess("export", "out.csv", "--directory", "bare")).toMatchObject({ code: 0 })
  writeFileSync(join(PROJECT, "keyed.csv"), "user,item,rating,timestamp,key\nada,dune,5,1700000000,one\n")
  expect(await dess("import", "keyed.csv", "--directory", "kept")).toMatchObject({ code: 0 })
})

test.each([
  { words: ["serve", "--demo"], names: "fastify" },
  { words: ["prepare", "rows.parquet", "--out", "sorted"], names: "@duckdb/node-api" },
  { words: ["prepare", "rows.zip", "--out", "sorted"], names: "yauzl" },
])("dess $words.0 without its packages says which to install", async ({ words, names }) => {
  writeFileSync(join(PROJECT, "rows.parquet"), `PAR1${"\0".repeat(64)}PAR1`)
  writeFileSync(join(PROJECT, "rows.zip"), `PK\x05\x06${"\0".repeat(18)}`)
  const { code, stderr } = await dess(...words)
  expect(code).not.toBe(0)
  expect(stderr).toMatch(new RegExp(`npm install .*${names}`))
  expect(stderr).not.toContain(dirname(PACKAGE))
})
