/**
 * The folders of src and the direction their imports may take. Reads every source file; nothing is run. Not by
 * dependency-cruiser: it needs a newer Node than the package does, and does not see which functions of Math are called.
 */

import { readdirSync, readFileSync } from "node:fs"
import { builtinModules } from "node:module"
import { join, posix, sep } from "node:path"
import { describe, expect, test } from "vitest"

/** Lower layers first: a folder may import itself and the folders of any layer below its own. */
const LAYERS: readonly (readonly string[])[] = [
  ["types", "errors"],
  ["kernels"],
  ["stream"],
  ["ids"],
  ["models"],
  ["policies", "datasets"],
  ["learning"],
  ["figures"],
  ["experiments", "engine"],
  ["server", "cluster"],
  ["cli"],
  ["testing"],
  ["index"],
]

/** Folders that shall also run in a browser tab: nothing of Node and no package … */
const PORTABLE = new Set(LAYERS.slice(0, LAYERS.findIndex((layer) => layer.includes("learning")) + 1).flat())
/** … but for the feature probe, the thread pool, the hash of names and the file readers. */
const USES_NODE = [/^kernels\/open\.ts$/, /^kernels\/pool\.ts$/, /^ids\/names\.ts$/, /^datasets\//]

/** Folders whose numbers have to be the same in every engine, and all of `Math` that IEEE 754 or the language fixes to the bit. */
const EXACT = new Set(["kernels", "stream", "ids", "models", "policies", "learning"])
const EXACT_MATHS = new Set(
  "abs ceil clz32 floor fround imul max min round sign sqrt trunc E LN10 LN2 LOG10E LOG2E PI SQRT1_2 SQRT2".split(" "),
)

/** Source without comments; text literals are replaced by their number in `texts`. */
interface Scanned {
  code: string
  texts: string[]
}

function scan(source: string): Scanned {
  const texts: string[] = []
  let code = ""
  let at = 0
  /** Open braces inside each template hole we are in. */
  const holes: number[] = []
  const text = (from: number, to: number) => {
    code += `"${texts.length}"`
    texts.push(source.slice(from, to))
  }
  /** Reads template text from `at` up to the closing back quote or the next hole. */
  const template = () => {
    const from = at
    while (at < source.length && source[at] !== "`" && !source.startsWith("${", at)) at += source[at] === "\\" ? 2 : 1
    text(from, at)
    if (source[at] === "`") at++
    else {
      holes.push(0)
      code += "("
      at += 2
    }
  }
  while (at < source.length) {
    const c = source[at]
    if (source.startsWith("//", at)) {
      while (at < source.length && source[at] !== "\n") at++
    } else if (source.startsWith("/*", at)) {
      const end = source.indexOf("*/", at + 2)
      at = end < 0 ? source.length : end + 2
      code += " "
    } else if (c === '"' || c === "'") {
      const from = ++at
      while (at < source.length && source[at] !== c) at += source[at] === "\\" ? 2 : 1
      text(from, at++)
    } else if (c === "`") {
      at++
      template()
    } else if (c === "/" && /(^|[(,=:[!&|?{};+\-*%<>~^]|\b(return|typeof|case|of|in))\s*$/.test(code.slice(-40))) {
      const from = ++at
      let inClass = false
      while (at < source.length && (inClass || source[at] !== "/")) {
        if (source[at] === "[") inClass = true
        if (source[at] === "]") inClass = false
        at += source[at] === "\\" ? 2 : 1
      }
      text(from, at++)
    } else {
      const hole = holes.length - 1
      if (hole >= 0 && c === "}" && holes[hole] === 0) {
        holes.pop()
        code += ")"
        at++
        template()
        continue
      }
      if (hole >= 0 && c === "{") holes[hole]++
      if (hole >= 0 && c === "}") holes[hole]--
      code += c
      at++
    }
  }
  return { code, texts }
}

/** Everything a file asks for by name: imports of every form, re-exports, module addresses, and any mention of Node's modules. */
function findImports({ code, texts }: Scanned): string[] {
  const forms = /\bfrom\s*"(\d+)"|\bimport\s*"(\d+)"|\b(?:import|require)\s*\(\s*"(\d+)"|\bURL\s*\(\s*"(\d+)"\s*,/g
  const named = [...code.matchAll(forms)].map((match) => texts[Number(match[1] ?? match[2] ?? match[3] ?? match[4])])
  return [...new Set([...named, ...texts.filter((text) => text.startsWith("node:"))])]
}

const folderOf = (file: string) => file.split("/")[0].replace(/\.ts$/, "")
const layerOf = (folder: string) => LAYERS.findIndex((folders) => folders.includes(folder))

/** Every breach of the rules in the given sources (path below src → text). */
function findBreaches(sources: Record<string, string>): string[] {
  const breaches: string[] = []
  for (const [file, source] of Object.entries(sources)) {
    const folder = folderOf(file)
    const scanned = scan(source)
    if (layerOf(folder) < 0) breaches.push(`${file}: unknown folder ${folder}`)
    for (const name of findImports(scanned)) {
      if (name.startsWith(".")) {
        const target = posix.normalize(posix.join(posix.dirname(file), name))
        const other = folderOf(target)
        if (target.startsWith("..")) breaches.push(`${file} → ${name}: leaves src`)
        else if (other !== folder && !(layerOf(other) >= 0 && layerOf(other) < layerOf(folder)))
          breaches.push(`${file} → ${target}: ${folder} may not import ${other}`)
      } else if (PORTABLE.has(folder) && !USES_NODE.some((pattern) => pattern.test(file))) {
        const node = name.startsWith("node:") || builtinModules.includes(name)
        breaches.push(`${file} → ${name}: ${folder} may not import ${node ? "Node's modules" : "packages"}`)
      }
    }
    if (!EXACT.has(folder)) continue
    for (const [whole, member] of scanned.code.matchAll(/\bMath\b(?:\s*\.\s*(\w+))?/g))
      if (!EXACT_MATHS.has(member)) breaches.push(`${file}: ${whole} differs between engines`)
    if (scanned.code.includes("**")) breaches.push(`${file}: ** differs between engines`)
  }
  return breaches
}

function readSources(): Record<string, string> {
  const root = join(import.meta.dirname, "../src")
  const files = readdirSync(root, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".ts") && !file.startsWith("kernels/assembly/") && !file.endsWith("generated.ts"))
  return Object.fromEntries(files.sort().map((file) => [file, readFileSync(join(root, file), "utf8")]))
}

test("the sources keep to the direction of the folders, to portable modules and to maths that is the same everywhere", () => {
  const sources = readSources()
  expect(Object.keys(sources)).toEqual(
    expect.arrayContaining(["errors.ts", "kernels/reference.ts", "models/paper/probe.ts"]),
  )
  const imports = Object.values(sources).flatMap((source) => findImports(scan(source)))
  expect(imports.length).toBeGreaterThan(Object.keys(sources).length)
  expect(findBreaches(sources)).toEqual([])
})

describe("the checker", () => {
  const breach = (file: string, source: string) => findBreaches({ [file]: source })

  test("finds an upward edge in every form an import can take", () => {
    const forms = [
      'import { Model } from "../models/paper/model.ts"',
      "import type { Model } from '../models/paper/model.ts'",
      'import {\n  Model, // a comment with "quotes"\n  type Pass,\n} from "../models/paper/model.ts"',
      'import "../models/paper/model.ts"',
      'export * from "../models/paper/model.ts"',
      'export { Model } from "../models/paper/model.ts"',
      'const late = await import("../models/paper/model.ts")',
      "const late = await import(`../models/paper/model.ts`)",
      'let model: import("../models/paper/model.ts").Model',
      'const place = new URL("../models/paper/model.ts", import.meta.url)',
      `const text = \`a \${\`b \${"}"}\`} c\`; import { Model } from "../models/paper/model.ts"`,
    ]
    for (const form of forms)
      expect(breach("ids/x.ts", form), form).toEqual(["ids/x.ts → models/paper/model.ts: ids may not import models"])
  })

  test("allows an edge exactly when it leads down to a lower layer or stays in the folder", () => {
    const folders = LAYERS.flat()
    for (const from of folders)
      for (const to of folders) {
        const [fileFrom, fileTo] = [from, to].map((folder) =>
          ["types", "errors", "index"].includes(folder) ? `${folder}.ts` : `${folder}/x.ts`,
        )
        const up = fileFrom.includes("/") ? "../" : "./"
        const allowed = from === to || layerOf(to) < layerOf(from)
        const found = breach(fileFrom, `import { x } from "${up}${fileTo}"`)
        expect(found, `${from} → ${to}`).toHaveLength(allowed ? 0 : 1)
      }
    expect(layerOf("datasets")).toBeGreaterThan(layerOf("stream"))
    expect(breach("kernels/x.ts", 'import { x } from "../stream/x.ts"')).toHaveLength(1)
    expect(breach("models/x.ts", 'import { x } from "../policies/x.ts"')).toHaveLength(1)
    expect(breach("stream/x.ts", 'import { x } from "../ids/x.ts"')).toHaveLength(1)
  })

  test("finds unknown folders and imports that leave src", () => {
    expect(breach("utils/x.ts", "")).toEqual(["utils/x.ts: unknown folder utils"])
    expect(breach("learning/x.ts", 'import { x } from "../utils/x.ts"')).toEqual([
      "learning/x.ts → utils/x.ts: learning may not import utils",
    ])
    expect(breach("cli/x.ts", 'import { x } from "../../tests/x.ts"')).toEqual([
      "cli/x.ts → ../../tests/x.ts: leaves src",
    ])
  })

  test("finds Node's modules and packages below the loop, but not in the file readers, the probe, the pool or above", () => {
    const asks = [
      'import { readFileSync } from "node:fs"',
      'import { readFileSync } from "fs"',
      'const { Worker } = process.getBuiltinModule("node:worker_threads")',
      'const fs = nodeModule("node:fs")',
      'import { DuckDBInstance } from "@duckdb/node-api"',
    ]
    for (const ask of asks) {
      for (const file of [
        "kernels/wasm.ts",
        "stream/x.ts",
        "ids/x.ts",
        "models/x.ts",
        "policies/x.ts",
        "learning/x.ts",
      ])
        expect(breach(file, ask), `${file}: ${ask}`).toHaveLength(1)
      for (const file of ["kernels/open.ts", "kernels/pool.ts", "datasets/x.ts", "engine/x.ts", "cli/x.ts"])
        expect(breach(file, ask), `${file}: ${ask}`).toEqual([])
    }
  })

  test("finds transcendental functions and ** in code, but not in comments and texts", () => {
    const bad = "exp log log1p expm1 tanh pow sin cos log2 hypot cbrt random"
      .split(" ")
      .map((name) => `Math.${name}(x)`)
    for (const form of [...bad, "x ** 2", "x **= 2", 'Math["exp"](x)', "const { exp } = Math", `\`\${Math.exp(x)}\``])
      for (const folder of EXACT) expect(breach(`${folder}/x.ts`, form), `${folder}: ${form}`).toHaveLength(1)
    const good = [
      "/** Math.exp(x) and x ** 2 */",
      "// Math.exp(x) ** 2",
      '"Math.exp(x) ** 2"',
      "`Math.exp(x) ** 2`",
      'const a = b / c / d; const e = x.replace(/[/"]Math.exp/g, y)',
      "Math.sqrt(Math.abs(Math.floor(Math.max(x, Math.min(1, Math.imul(2, Math.clz32(3)))))))",
    ]
    for (const form of good) expect(breach("models/x.ts", form), form).toEqual([])
    expect(breach("server/x.ts", "Math.exp(x)")).toEqual([])
  })
})
