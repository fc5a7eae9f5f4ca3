/**
 * Bundles what tsc wrote to dist/bundle, which is what the package runs: reading 180 small files takes Node longer than
 * running them. It has the two doors, the library and the command, and the programs that they start in a thread or a
 * process of their own. Folders below dist are one deep, as the modules are, so that paths taken from import.meta hold in
 * both.
 */

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
