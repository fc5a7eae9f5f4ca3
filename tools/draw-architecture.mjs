/**
 * Draws docs/images/architecture.svg: the folders of src as the import graph has them, lowest layer at the bottom, a line
 * between two folders where one imports the other. `node tools/draw-architecture.mjs`; with --check it writes
 * nothing and fails where the picture is stale.
 */

import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join, posix, sep } from "node:path"

const root = join(import.meta.dirname, "..")
const SINGLE = new Set(["types", "errors", "index", "testing"])

/** Which folders import which. */
function readEdges() {
  const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".ts") && !file.startsWith("kernels/assembly/") && file.includes("/"))
    .sort()
  const edges = new Set()
  const folders = new Set()
  for (const file of files) {
    const from = file.split("/")[0]
    folders.add(from)
    const source = readFileSync(join(root, "src", file), "utf8").replaceAll(/\/\*.*?\*\//gs, "")
    const targets = [...source.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, name]) =>
      posix.join(posix.dirname(file), name).split("/")[0].replace(/\.ts$/, ""),
    )
    for (const to of targets) if (to !== from && !SINGLE.has(to)) edges.add(`${from} ${to}`)
  }
  return { edges, folders }
}

/** The layer of a folder: one above the highest that it imports. */
function layersOf({ edges, folders }) {
  const layers = new Map()
  const layerOf = (folder) => {
    if (!layers.has(folder)) {
      const below = [...edges].filter((edge) => edge.startsWith(`${folder} `)).map((edge) => edge.split(" ")[1])
      layers.set(folder, below.length === 0 ? 0 : 1 + Math.max(...below.map(layerOf)))
    }
    return layers.get(folder)
  }
  for (const folder of folders) layerOf(folder)
  return layers
}

const WORDS = {
  kernels: "arithmetic in Wasm",
  stream: "events, segments",
  ids: "what is kept of an id",
  models: "vectors that score and learn",
  policies: "who gets how many numbers",
  datasets: "files as published",
  learning: "the loop: test, learn, size",
  figures: "figures as data",
  experiments: "grids, tables, reports",
  engine: "live: journal, lists, budget",
  server: "HTTP",
  cluster: "many processes, Redis",
  cli: "commands",
  testing: "contracts for own methods",
}
const [WIDTH, STEP, BOX, HIGH] = [900, 92, 200, 46]

function draw() {
  const graph = readEdges()
  const layers = layersOf(graph)
  const top = Math.max(...layers.values())
  const places = new Map()
  for (let layer = 0; layer <= top; layer++) {
    const folders = [...layers.keys()].filter((folder) => layers.get(folder) === layer).sort()
    for (const [f, folder] of folders.entries()) {
      // Layers of one folder step aside, so that lines between others pass them.
      const aside = folders.length === 1 ? ((layer % 3) - 1) * 130 : 0
      const x = ((f + 1) * WIDTH) / (folders.length + 1) + aside
      places.set(folder, { x, y: 20 + (top - layer) * STEP })
    }
  }
  const lines = [...graph.edges].sort().map((edge) => {
    const [from, to] = edge.split(" ").map((folder) => places.get(folder))
    const [y, end] = [from.y + HIGH, to.y]
    const bend = (end - y) / 2
    return `<path d="M${from.x} ${y}C${from.x} ${y + bend} ${to.x} ${end - bend} ${to.x} ${end}"><title>${edge.replace(" ", " imports ")}</title></path>`
  })
  const boxes = [...places].map(
    ([folder, { x, y }]) =>
      `<rect x="${x - BOX / 2}" y="${y}" width="${BOX}" height="${HIGH}" rx="6" fill="#fff" stroke="#0072b2"/><text x="${x}" y="${y + 19}" font-weight="600">${folder}</text><text x="${x}" y="${y + 36}" fill="#555" font-size="12">${WORDS[folder] ?? ""}</text>`,
  )
  const height = 20 + top * STEP + HIGH + 20
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="14" text-anchor="middle">
<title>Folders of src and their imports, which all point down</title><rect width="100%" height="100%" fill="#fff"/>
<g fill="none" stroke="#94a3b8" stroke-opacity=".7" stroke-width="1.5">${lines.join("\n")}</g>
${boxes.join("\n")}
</svg>
`
}

const path = join(root, "docs/images/architecture.svg")
const picture = draw()
if (!process.argv.includes("--check")) writeFileSync(path, picture)
else if (readFileSync(path, "utf8") !== picture) {
  console.error(
    `${posix.join("docs/images", "architecture.svg")}: expected the imports of src, got others: node tools/draw-architecture.mjs`,
  )
  process.exitCode = 1
}
