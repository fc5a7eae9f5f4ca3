/**
 * A figure's SVG as PDF: vectors and letters of one of the fonts every reader has (Helvetica). It knows what our figures are
 * made of: groups, rectangles, circles, lines, paths of straight lines and arcs, and texts. By hand, since packages that read any SVG
 * bring 10 MB of fonts.
 */

/** What an element takes over from those around it. */
interface Style {
  fill: string
  stroke: string
  width: number
  dash: string
  opacity: number
  anchor: string
  size: number
  bold: boolean
  x: number
  y: number
}

const START: Style = {
  ...{ fill: "#000000", stroke: "none", width: 1, dash: "", opacity: 1 },
  ...{ anchor: "start", size: 10, bold: false, x: 0, y: 0 },
}

/** One page of the size of the figure. */
export function svgToPdf(svg: string): Buffer {
  const [, width = "640", height = "480"] = /<svg[^>]*? width="([\d.]+)" height="([\d.]+)"/.exec(svg) ?? []
  const page = { width: Number(width), height: Number(height) }
  return assemble(drawAll(svg, page.height), page)
}

function drawAll(svg: string, height: number): string {
  const out: string[] = []
  const stack: Style[] = [START]
  const tokens = /<style>[\s\S]*?<\/style>|<(\/?)([a-z]+)((?:\s+[\w:-]+="[^"]*")*)\s*(\/?)>([^<]*)/g
  for (const [, closing, name, attributes = "", alone, text = ""] of svg.matchAll(tokens)) {
    if (name === undefined) continue
    if (closing) {
      stack.pop()
      continue
    }
    const values = Object.fromEntries(
      [...attributes.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, key, value]) => [key, value]),
    )
    const style = inherit(stack[stack.length - 1], values)
    out.push(...drawOne(name, values, { style, text, height }))
    if (!alone) stack.push(style)
  }
  return out.join("\n")
}

type Values = Record<string, string>

function inherit(from: Style, values: Values): Style {
  const [, dx = "0", dy = "0"] = /translate\(([-\d.]+)[, ]*([-\d.]*)\)/.exec(values.transform ?? "") ?? []
  const named = (value: string | undefined, otherwise: string) =>
    value === undefined ? otherwise : value === "currentColor" ? "#333333" : value
  return {
    fill: named(values.fill, from.fill),
    stroke: named(values.stroke, from.stroke),
    width: Number(values["stroke-width"] ?? from.width),
    dash: values["stroke-dasharray"] ?? from.dash,
    opacity: Number(values["stroke-opacity"] ?? values["fill-opacity"] ?? values.opacity ?? from.opacity),
    anchor: values["text-anchor"] ?? from.anchor,
    size: Number(values["font-size"] ?? from.size),
    bold: values["font-weight"] === undefined ? from.bold : values["font-weight"] === "bold",
    x: from.x + Number(dx),
    y: from.y + Number(dy || 0),
  }
}

function drawOne(name: string, values: Values, p: { style: Style; text: string; height: number }): string[] {
  const { style, height } = p
  const at = (x: number, y: number) => `${round(style.x + x)} ${round(height - style.y - y)}`
  if (name === "text") return drawText(values, p)
  let shape = ""
  if (name === "line")
    shape = `${at(Number(values.x1), Number(values.y1))} m ${at(Number(values.x2), Number(values.y2))} l`
  if (name === "rect") {
    const [x, y, w, h] = ["x", "y", "width", "height"].map((key) => Number(values[key] ?? 0))
    shape = `${at(x, y + h)} ${round(w)} ${round(h)} re`
  }
  if (name === "circle") {
    const [x, y, r] = ["cx", "cy", "r"].map((key) => Number(values[key] ?? 0))
    shape = drawPath(`M${x - r},${y}A${r},${r},0,1,1,${x + r},${y}A${r},${r},0,1,1,${x - r},${y}Z`, at)
  }
  if (name === "path") shape = drawPath(values.d ?? "", at)
  if (shape === "") return []
  const filled = style.fill !== "none" && name !== "line"
  const stroked = style.stroke !== "none"
  if (!filled && !stroked) return []
  const operator = filled && stroked ? "B" : filled ? "f" : "S"
  return [`q ${paint(style)} ${shape} ${operator} Q`]
}

function paint({ fill, stroke, width, dash, opacity }: Style): string {
  const parts = [`${width} w [${dash.replaceAll(",", " ")}] 0 d`]
  if (fill !== "none") parts.push(`${rgb(fill, opacity)} rg`)
  if (stroke !== "none") parts.push(`${rgb(stroke, opacity)} RG`)
  return parts.join(" ")
}

/** On white: what shines through is mixed in. */
function rgb(colour: string, opacity: number): string {
  const [, hex = "000000"] = /^#([0-9a-f]{6})$/i.exec(colour) ?? []
  const parts = [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
  return parts.map((part) => round(1 - opacity * (1 - part))).join(" ")
}

/** M, L, H, V, C, Q, Z, their relative forms, and arcs of a circle. */
function drawPath(d: string, at: (x: number, y: number) => string): string {
  const out: string[] = []
  let [x, y] = [0, 0]
  for (const [, command, rest] of d.matchAll(/([MLHVCQAZ])([^MLHVCQAZ]*)/gi)) {
    const n = [...rest.matchAll(/-?\d*\.?\d+(?:e-?\d+)?/g)].map(([number]) => Number(number))
    const relative = command === command.toLowerCase()
    const [ox, oy] = relative ? [x, y] : [0, 0]
    const kind = command.toUpperCase()
    if (kind === "Z") out.push("h")
    else if (kind === "H" || kind === "V") {
      if (kind === "H") x = ox + n[0]
      else y = oy + n[0]
      out.push(`${at(x, y)} l`)
    } else if (kind === "A") {
      const end = [ox + n[5], oy + n[6]]
      out.push(...arc([x, y], { radius: n[0], large: n[3] === 1, sweep: n[4] === 1, end }, at))
      ;[x, y] = end
    } else {
      const size = kind === "C" ? 6 : kind === "Q" ? 4 : 2
      for (let i = 0; i + size <= n.length; i += size) {
        const points = Array.from({ length: size / 2 }, (_, k) => [ox + n[i + 2 * k], oy + n[i + 2 * k + 1]])
        const last = points[points.length - 1]
        const first = kind === "M" && i === 0
        const [c] = points
        const curve = kind === "Q" ? [mix([x, y], c), mix(last, c), last] : points
        out.push(`${curve.map(([px, py]) => at(px, py)).join(" ")} ${size > 2 ? "c" : first ? "m" : "l"}`)
        ;[x, y] = last
      }
    }
  }
  return out.join(" ")
}

/** The control point of a cubic curve of a quadratic one. */
const mix = ([x, y]: number[], [cx, cy]: number[]) => [x + (2 / 3) * (cx - x), y + (2 / 3) * (cy - y)]

/** An arc of a circle as cubic curves of at most a quarter. */
function arc(
  [x, y]: number[],
  p: { radius: number; large: boolean; sweep: boolean; end: number[] },
  at: (x: number, y: number) => string,
): string[] {
  const { end, large, sweep } = p
  const [dx, dy] = [end[0] - x, end[1] - y]
  const chord = Math.hypot(dx, dy)
  if (chord === 0) return []
  const radius = Math.max(p.radius, chord / 2)
  const away = Math.sqrt(Math.max(0, radius ** 2 - (chord / 2) ** 2)) * (large === sweep ? -1 : 1)
  const [cx, cy] = [(x + end[0]) / 2 - (away * dy) / chord, (y + end[1]) / 2 + (away * dx) / chord]
  const from = Math.atan2(y - cy, x - cx)
  let turn = Math.atan2(end[1] - cy, end[0] - cx) - from
  if (sweep && turn <= 0) turn += 2 * Math.PI
  if (!sweep && turn >= 0) turn -= 2 * Math.PI
  const pieces = Math.ceil(Math.abs(turn) / (Math.PI / 2) - 1e-9)
  const step = turn / pieces
  const k = (4 / 3) * Math.tan(step / 4)
  return Array.from({ length: pieces }, (_, i) => {
    const [a, b] = [from + i * step, from + (i + 1) * step]
    const point = (angle: number, lead: number) =>
      at(
        cx + radius * (Math.cos(angle) - lead * Math.sin(angle)),
        cy + radius * (Math.sin(angle) + lead * Math.cos(angle)),
      )
    return `${point(a, k)} ${point(b, -k)} ${point(b, 0)} c`
  })
}

function drawText(values: Values, { style, text, height }: { style: Style; text: string; height: number }): string[] {
  const words = toWinAnsi(text)
  if (words.length === 0) return []
  const length = (value = "0") => (value.endsWith("em") ? Number.parseFloat(value) * style.size : Number(value))
  const shift = { start: 0, middle: 0.5, end: 1 }[style.anchor] ?? 0
  const width = widthOf(words) * style.size
  const x = round(style.x + length(values.x) + length(values.dx) - shift * width)
  const y = round(height - style.y - length(values.y) - length(values.dy))
  const hex = [...words].map((byte) => byte.toString(16).padStart(2, "0")).join("")
  const font = `/${style.bold ? "B" : "R"} ${style.size} Tf ${x} ${y} Td <${hex}> Tj`
  const halo = style.stroke === "none" ? [] : [`q ${style.width} w ${rgb(style.stroke, 1)} RG BT 1 Tr ${font} ET Q`]
  return [...halo, `q ${rgb(style.fill === "none" ? "#333333" : style.fill, 1)} rg BT 0 Tr ${font} ET Q`]
}

const SPECIAL: Readonly<Record<string, number>> = { "…": 0x85, "–": 0x96, "—": 0x97, "•": 0x95, "†": 0x86 }
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'", nbsp: " " }

/** Bytes of a text in the encoding of PDF's own fonts; arrows of axes, which they lack, are left out. */
function toWinAnsi(text: string): Buffer {
  const plain = text
    .replace(/&(#?\w+);/g, (whole, name: string) => ENTITIES[name] ?? whole)
    .replaceAll("−", "-")
    .replace(/\s*[←↑→↓]\s*/g, "")
  return Buffer.from(
    [...plain].map((letter) => SPECIAL[letter] ?? (letter.charCodeAt(0) < 256 ? letter.charCodeAt(0) : 63)),
  )
}

/** Widths of Helvetica from the space to the tilde, in thousandths of the size. */
const WIDTHS =
  `278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 584 584
584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 667 667 611 278 278
278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334
260 334 584`
    .split(/\s+/)
    .map(Number)

const widthOf = (words: Buffer) => words.reduce((sum, byte) => sum + (WIDTHS[byte - 32] ?? 556), 0) / 1000

const round = (value: number) => String(Number(value.toFixed(2)))

/** The file: catalog, pages, one page, its contents, two fonts, and where each of them begins. */
function assemble(contents: string, { width, height }: { width: number; height: number }): Buffer {
  const font = (name: string) => `<< /Type /Font /Subtype /Type1 /BaseFont /${name} /Encoding /WinAnsiEncoding >>`
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${round(width)} ${round(height)}] /Contents 4 0 R /Resources << /Font << /R 5 0 R /B 6 0 R >> >> >>`,
    `<< /Length ${contents.length} >>\nstream\n${contents}\nendstream`,
    font("Helvetica"),
    font("Helvetica-Bold"),
  ]
  let text = "%PDF-1.4\n"
  const places = objects.map((object, i) => {
    const place = text.length
    text += `${i + 1} 0 obj\n${object}\nendobj\n`
    return place
  })
  const table = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("")
  const count = objects.length + 1
  const trailer = `trailer\n<< /Size ${count} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`
  return Buffer.from(`${text}xref\n0 ${count}\n0000000000 65535 f \n${table}${trailer}`, "latin1")
}
