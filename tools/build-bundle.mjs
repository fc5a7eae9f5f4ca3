/**
 * Bundles what tsc wrote to dist/bundle, which is what the package runs: reading 180 small files takes Node longer than
 * running them. It has the entry points, the library, its contracts for tests and the command, and the programs that they start in a thread or a
 * process of their own. Folders below dist are one deep, as the modules are, so that paths taken from import.meta hold in
 * both. typebox is bundled, too: the service needs a tenth of it, and its licence is written beside. The declarations that the
 * library's names lead to go to dist/types. For modules that require there is a file of its own beside each entry point: Node
 * hands them the module as it is, but TypeScript's node16 does not know that and asks for declarations that say so.
 */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { build, parseAst } from "vite"

const dist = fileURLToPath(new URL("../dist/", import.meta.url))

await build({
  root: dist,
  configFile: false,
  logLevel: "warn",
  publicDir: false,
  ssr: { noExternal: ["typebox"] },
  build: {
    ssr: true,
    target: "node20",
    minify: false,
    outDir: `${dist}bundle`,
    emptyOutDir: true,
    license: { fileName: "licences.md" },
    rolldownOptions: {
      input: ["index", "testing", "cli/main", "engine/worker", "experiments/cell-process"].map(
        (name) => `${dist}${name}.js`,
      ),
      output: {
        entryFileNames: "[name].js",
        chunkFileNames: "[name]-[hash].js",
        // Names stay, so that a stack says where it was; comments and spaces are a third of the install.
        minify: { compress: true, mangle: { keepNames: true, toplevel: false }, codegen: { removeWhitespace: true } },
      },
    },
  },
})

for (const name of readdirSync(join(dist, "bundle")))
  if (name.endsWith(".js")) {
    const file = join(dist, "bundle", name)
    writeFileSync(file, breakLines(readFileSync(file, "utf8")))
  }

rmSync(join(dist, "types"), { recursive: true, force: true })
const taken = new Set()
const entries = ["index", "testing"]
/** Files whose names are public: their declarations keep what is said of them. */
const named = new Set(
  entries.flatMap((entry) => [join(dist, `${entry}.d.ts`), ...importsOf(join(dist, `${entry}.d.ts`))]),
)
for (const entry of entries) {
  takeTypes(join(dist, `${entry}.d.ts`))
  writeFileSync(join(dist, `bundle/${entry}.cjs`), `module.exports = require("./${entry}.js")\n`)
  writeFileSync(join(dist, `types/${entry}.d.cts`), await requiredTypes(entry))
}

/**
 * Begins a line with every statement of a module and of its functions, and with every member of a class: Node prints the
 * line of an error that nobody catches, which would be the whole file.
 * @param {string} code
 */
function breakLines(code) {
  const starts = new Set()
  const visit = (node) => {
    if (node === null || typeof node !== "object") return
    if (Array.isArray(node)) {
      for (const one of node) visit(one)
      return
    }
    const parts =
      node.type === "Program" || node.type === "ClassBody" || node.type === "BlockStatement" ? node.body : []
    for (const { start } of parts) starts.add(start)
    for (const value of Object.values(node)) visit(value)
  }
  visit(parseAst(code))
  let [text, from] = ["", 0]
  for (const start of [...starts].sort((a, b) => a - b)) {
    if (start > 0 && code[start - 1] !== "\n") text += `${code.slice(from, start)}\n`
    else text += code.slice(from, start)
    from = start
  }
  return text + code.slice(from)
}

/** @param {string} file */
function takeTypes(file) {
  if (taken.has(file)) return
  taken.add(file)
  const text = readFileSync(file, "utf8")
  const path = join(dist, "types", relative(dist, file))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, named.has(file) ? text : text.replaceAll(/^\s*\/\*\*[\s\S]*?\*\/\n/gm, ""))
  for (const other of importsOf(file)) takeTypes(other)
}

/** Declarations that a file of declarations leads to. @param {string} file */
function importsOf(file) {
  return [...readFileSync(file, "utf8").matchAll(/(?:from |import\()"(\.[^"]+)\.ts"/g)].map(([, path]) =>
    join(dirname(file), `${path}.d.ts`),
  )
}

/**
 * The declarations of an entry point for modules that require it: every name, as the module that is imported has it.
 * @param {string} entry
 */
async function requiredTypes(entry) {
  const mode = '{ with: { "resolution-mode": "import" } }'
  const module = `import("./${entry}.js", ${mode})`
  const values = Object.entries(await import(`${dist}bundle/${entry}.js`))
  const names = [...readFileSync(join(dist, `${entry}.d.ts`), "utf8").matchAll(/export (type )?\{([^}]*)\}/g)].flatMap(
    ([, type, list]) =>
      list
        .split(",")
        .map((name) => name.trim())
        .filter((name) => name !== "" && (type !== undefined || name.startsWith("type ")))
        .map((name) => name.replace(/^type /, "")),
  )
  const declared = [...taken].map((file) => readFileSync(file, "utf8")).join("\n")
  const isType = (name) => new RegExp(`^export (declare )?(class|interface|type) ${name}\\b`, "m").test(declared)
  return [
    `export type { ${names.join(", ")} } from "./${entry}.js" with { "resolution-mode": "import" }`,
    ...values.map(([name]) => `export declare const ${name}: typeof ${module}.${name}`),
    ...values.filter(([name]) => isType(name)).map(([name]) => `export type ${name} = ${module}.${name}`),
    "",
  ].join("\n")
}
