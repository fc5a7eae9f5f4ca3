/**
 * Bundles what tsc wrote to dist/bundle, which is what the package runs: reading 180 small files takes Node longer than
 * running them. It has the two entry points, the library and the command, and the programs that they start in a thread or a
 * process of their own. Folders below dist are one deep, as the modules are, so that paths taken from import.meta hold in
 * both. The declarations that the library's names lead to go to dist/types.
 */

import { cpSync, readFileSync, rmSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "vite"

const dist = fileURLToPath(new URL("../dist/", import.meta.url))

await build({
  root: dist,
  configFile: false,
  logLevel: "warn",
  publicDir: false,
  build: {
    ssr: true,
    target: "node20",
    minify: false,
    outDir: `${dist}bundle`,
    emptyOutDir: true,
    rolldownOptions: {
      input: ["index", "cli/main", "engine/worker", "experiments/cell-process"].map((name) => `${dist}${name}.js`),
      output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
    },
  },
})

rmSync(join(dist, "types"), { recursive: true, force: true })
const taken = new Set()
takeTypes(join(dist, "index.d.ts"))

function takeTypes(file) {
  if (taken.has(file)) return
  taken.add(file)
  cpSync(file, join(dist, "types", relative(dist, file)))
  for (const [, path] of readFileSync(file, "utf8").matchAll(/(?:from |import\()"(\.[^"]+)\.ts"/g))
    takeTypes(join(dirname(file), `${path}.d.ts`))
}
