/** How long the command and the import take, and what the package weighs without its optional parts and does with them missing. */

import { execFile, execFileSync } from "node:child_process"
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

const execute = promisify(execFile)
const ROOT = fileURLToPath(new URL("../../", import.meta.url))

/** Milliseconds of the best of some calls: start-up is short, and whatever else runs only adds to it. */
function best(times, call) {
  let least = Number.POSITIVE_INFINITY
  for (let n = 0; n < times; n++) {
    const begin = performance.now()
    const said = call()
    least = Math.min(least, said ?? performance.now() - begin)
  }
  return least
}

const IMPORT = `const begin = performance.now(); await import("dess"); console.log(performance.now() - begin)`

const RECOMMEND = `
import { Recommender } from "dess"
const recommender = await Recommender.open()
await recommender.observe(Array.from({ length: 600 }, (_, n) => ({ user: \`u\${n % 20}\`, item: \`i\${(7 * n) % 50}\` })))
await recommender.drain()
const list = await recommender.recommend("u1", { count: 5 })
if (list.length !== 5) throw new Error("expected 5 items, got " + list.length)
await recommender.close()`

/** @param {{folder: string, quick: boolean, say: (text: string) => void}} options */
export async function measureStartup({ folder, quick, say }) {
  say("start-up, packing and installing")
  const app = join(folder, "app")
  mkdirSync(app, { recursive: true })
  writeFileSync(join(app, "package.json"), '{ "type": "module" }')
  await execute("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], { cwd: ROOT })
  const file = join(
    folder,
    readdirSync(folder).find((name) => name.endsWith(".tgz")),
  )
  const install = ["install", "--prefix", app, "--omit=optional", "--no-audit", "--no-fund", "--ignore-scripts", file]
  await execute("npm", install, { cwd: app })
  writeFileSync(join(app, "import.mjs"), IMPORT)
  writeFileSync(join(app, "recommend.mjs"), RECOMMEND)
  say("start-up, measuring")
  const main = join(app, "node_modules/dess/dist/bundle/main.js")
  const node = (...words) => execFileSync(process.execPath, words, { cwd: app, encoding: "utf8" })
  const times = quick ? 5 : 30
  const call = (...words) => best(times, () => void node(...words))
  const rows = [
    { what: "node alone (empty program)", took: call("-e", "0"), target: "" },
    { what: "dess --help", took: call(main, "--help"), target: 150 },
    { what: "dess --version", took: call(main, "--version"), target: 150 },
    { what: 'import "dess"', took: best(times, () => Number(node("import.mjs"))), target: 50 },
  ]
  const bytes = weigh(join(app, "node_modules"))
  node(main, "run", "--interactions", "5000", "--json")
  node("recommend.mjs")
  const verdict = (value, target, unit) =>
    target === "" ? "" : `< ${target} ${unit}${value < target ? "" : ", missed"}`
  return {
    headlines: [
      ...rows.map(({ what, took, target }) => ({
        what,
        measured: `${took.toFixed(0)} ms`,
        target: verdict(took, target, "ms"),
      })),
      {
        what: "installed without optional parts",
        measured: `${(bytes / 1e6).toFixed(1)} MB`,
        target: verdict(bytes / 1e6, 10, "MB"),
      },
    ],
    notes: ["without the optional parts `dess run` and the in-memory recommender work: both were run"],
  }
}

function weigh(folder) {
  let bytes = 0
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    if (entry.isFile()) bytes += statSync(join(entry.parentPath ?? entry.path, entry.name)).size
  return bytes
}
