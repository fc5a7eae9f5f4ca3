/** Draws the pictures of docs/method/method.md: `npm run build && node tools/draw-method.mjs`. The curves are real runs. */

import { writeFileSync } from "node:fs"
import { drawFigure, openDrawing } from "../dist/experiments/drawing.js"
import { runStream, synthetic } from "../dist/index.js"

const INTERACTIONS = 100_000
const folder = new URL("../docs/images/", import.meta.url)
const FONT = 'font-family="system-ui, sans-serif" font-size="13"'

writeFileSync(new URL("ladder.svg", folder), ladder())
writeFileSync(new URL("step.svg", folder), step())
writeFileSync(new URL("sizes.svg", folder), await sizes())

/** Three rows of different size on their way to full width. */
function ladder() {
  const widths = [2, 4, 8, 16, 64, 128]
  const x = (rung) => 130 + rung * 105
  const length = (rung) => 14 + rung * 13
  const parts = []
  for (const [row, start] of [0, 2, 4].entries()) {
    const y = 70 + row * 62
    parts.push(`<text x="16" y="${y + 5}">${["new id", "regular", "busy"][row]}</text>`)
    for (let rung = start; rung < widths.length; rung++) {
      const own = rung === start
      const left = x(rung) - length(rung) / 2
      parts.push(
        `<rect x="${left}" y="${y - 9}" width="${length(rung)}" height="18" rx="3" fill="${own ? "#0072b2" : "#cfe3f1"}"/>`,
      )
      if (rung + 1 < widths.length) {
        const [from, to] = [left + length(rung) + 4, x(rung + 1) - length(rung + 1) / 2 - 5]
        parts.push(
          `<path d="M${from} ${y}H${to}" stroke="#7a7a7a" marker-end="url(#arrow)"/>`,
          `<text x="${(from + to) / 2}" y="${y - 6}" text-anchor="middle" font-size="10" fill="#555555">W${rung}</text>`,
        )
      }
    }
  }
  const heads = widths.map((width, rung) => `<text x="${x(rung)}" y="32" text-anchor="middle">${width}</text>`)
  return svg(
    780,
    250,
    `${heads.join("")}${parts.join("")}<text x="16" y="240" fill="#555555" font-size="12">dark: the numbers held for the id · light: where the lift takes them · growing moves the dark part one step to the right</text>`,
  )
}

/** The order of work at one segment. */
function step() {
  const stations = [
    ["1 learn", "the bandits, on", "the last segment"],
    ["2 decide", "each id: keep", "or grow?"],
    ["3 grow", "rows; predictions", "stay as they are"],
    ["4 train", "the model on", "the first 80 %"],
    ["5 test", "it on the", "last 20 %"],
  ]
  const parts = stations.map(([name, ...lines], n) => {
    const left = 14 + n * 153
    const arrow =
      n + 1 < stations.length
        ? `<path d="M${left + 132} 62h14" stroke="#7a7a7a" stroke-width="1.5" marker-end="url(#arrow)"/>`
        : ""
    return `<rect x="${left}" y="24" width="130" height="76" rx="6" fill="${n < 3 ? "#fdf3dc" : "#e3f0f8"}" stroke="#b0b0b0"/><text x="${left + 65}" y="46" text-anchor="middle" font-weight="600">${name}</text>${lines.map((line, at) => `<text x="${left + 65}" y="${66 + at * 17}" text-anchor="middle" font-size="12">${line}</text>`).join("")}${arrow}`
  })
  return svg(780, 124, parts.join(""))
}

/** Mean sizes along the embedded stream, as printed and by default. */
async function sizes() {
  const panels = []
  for (const name of ["paper", "calibrated"]) {
    const points = { user: [], item: [] }
    const stream = synthetic({ interactions: INTERACTIONS, seed: 1 })
    const run = runStream(stream, { method: "dess-cv", recipe: name })
    for await (const report of run)
      for (const side of ["user", "item"])
        if (report.segment % 5 === 0) points[side].push({ x: report.segment * 500, y: report.meanSize[side] })
    panels.push({
      kind: "lines",
      title: name === "paper" ? "as printed" : "with rent (default)",
      width: 380,
      height: 230,
      x: "events",
      y: "numbers per id",
      lines: [
        { label: "users", colour: "blue", points: points.user },
        { label: "items", colour: "vermillion", points: points.item },
      ],
    })
  }
  const drawing = await openDrawing()
  try {
    return drawFigure(drawing, { panels })
  } finally {
    await drawing.close()
  }
}

function svg(width, height, content) {
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${FONT} fill="#222222"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7a7a7a"/></marker></defs><rect width="100%" height="100%" fill="#ffffff"/>${content}</svg>\n`
}
