/** Builds web/ to dist/web: the pages, and the script and style sheet that a report carries. */

import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { build } from "vite"

const root = fileURLToPath(new URL("../web/", import.meta.url))
const outDir = fileURLToPath(new URL("../dist/web/", import.meta.url))
const common = /** @type {const} */ ({ root, base: "./", configFile: false, logLevel: "warn" })

await build({
  ...common,
  build: {
    outDir,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    license: { fileName: "licences.md" },
    rolldownOptions: { input: ["index.html", "replay.html"].map((name) => `${root}${name}`) },
  },
  worker: { format: "es" },
})
await build({
  ...common,
  publicDir: false,
  build: {
    outDir,
    emptyOutDir: false,
    cssCodeSplit: false,
    lib: {
      entry: "report/main.ts",
      formats: ["iife"],
      name: "report",
      fileName: () => "report.js",
      cssFileName: "report",
    },
  },
})
// It is put into a page: nothing in it may look like the end of a script.
const script = `${outDir}report.js`
writeFileSync(
  script,
  readFileSync(script, "utf8")
    .replaceAll(/<(?=\/script|!--)/gi, "\\x3c")
    .trim(),
)
