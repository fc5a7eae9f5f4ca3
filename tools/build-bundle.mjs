/**
 * Bundles what tsc wrote for the two doors of the package, the library and the command, to dist/bundle: reading 180 small
 * files takes Node longer than running them. Folders below dist are one deep, as the modules are, so that paths taken
 * from import.meta hold in both.
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
      input: { index: `${dist}index.js`, main: `${dist}cli/main.js` },
      output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
    },
  },
})
