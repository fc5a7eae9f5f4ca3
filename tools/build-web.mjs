/**
 * Builds web/ to dist/web: the pages, and the scripts and the style sheet that a report carries. What pages and report draw with
 * is in plot.js once, as a global: a report is one file with both scripts in it, so it cannot import.
 */

import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { build } from "vite"

const root = fileURLToPath(new URL("../web/", import.meta.url))
const outDir = fileURLToPath(new URL("../dist/web/", import.meta.url))
const common = /** @type {const} */ ({ root, base: "./", configFile: false, logLevel: "warn" })
const PLOT = { entry: "components/plot.ts", global: "dessPlot", file: "plot.js" }

/** Takes the names of components/plot.ts from the global that plot.js makes; pages load that file first. */
const sharedPlot = {
  name: "shared-plot",
  /** @param {string} code @param {string} id */
  transform(code, id) {
    if (!id.endsWith(PLOT.entry)) return undefined
    const names = /\{([^}]*)\}/.exec(code)?.[1] ?? ""
    return { code: `export const {${names}} = globalThis.${PLOT.global}`, map: null }
  },
  transformIndexHtml: () => [
    { tag: "script", attrs: { src: `./${PLOT.file}` }, injectTo: /** @type {const} */ ("head") },
  ],
}

await build({
  ...common,
  plugins: [sharedPlot],
  build: {
    outDir,
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ["index.html", "replay.html"].map((name) => `${root}${name}`) },
  },
  worker: { format: "es" },
})
await buildScript({ entry: PLOT.entry, name: PLOT.global, file: PLOT.file, license: { fileName: "licences.md" } })
await buildScript({ entry: "report/main.ts", name: "report", file: "report.js", plugins: [sharedPlot] })

/** @param {{ entry: string, name: string, file: string, license?: { fileName: string }, plugins?: import("vite").Plugin[] }} p */
async function buildScript({ entry, name, file, license, plugins = [] }) {
  await build({
    ...common,
    plugins,
    publicDir: false,
    build: {
      outDir,
      emptyOutDir: false,
      cssCodeSplit: false,
      ...(license && { license }),
      lib: { entry, formats: ["iife"], name, fileName: () => file, cssFileName: "report" },
    },
  })
  // It is put into a page: nothing in it may look like the end of a script.
  const script = `${outDir}${file}`
  writeFileSync(
    script,
    readFileSync(script, "utf8")
      .replaceAll(/<(?=\/script|!--)/gi, "\\x3c")
      .trim(),
  )
}
