/** A figure on a page: drawn from its data at the width there is, again when that or the data change. */

import { type Drawing, drawPanel } from "../../src/figures/draw.ts"
import type { Figure, LegendItem, Panel } from "../../src/figures/figure.ts"
import { element } from "./element.ts"
import { areaY, barX, cell, dot, line, plot, ruleX, ruleY, text, tickX } from "./plot.ts"
import { type Scales, stopsOf } from "./stops.ts"
import { Tip } from "./tip.ts"

const drawing: Drawing<SVGSVGElement> = {
  Plot: { line, dot, text, ruleX, ruleY, barX, tickX, areaY, cell },
  draw(options) {
    const svg = plot({ ...options, className: "plot" })
    // Plot brings a style sheet with every picture, which a strict page refuses; ours has the same rules.
    svg.querySelector("style")?.remove()
    return svg as never
  },
  paint: (colour) => `var(--${colour})`,
  write: (colour) => `color-mix(in srgb, var(--${colour}) 55%, var(--text))`,
  ground: "var(--page)",
}

/** Below this width lines and dots are named in a legend, or by the tip. */
const NARROW = 480

export class FigureView {
  readonly element: HTMLElement
  readonly #title = element("b")
  readonly #caption = element("span")
  readonly #legend = makeLegend()
  readonly #panels = element("div", { class: "panels" })
  readonly #tips: Tip[] = []
  #figure: Figure
  #width = 0

  constructor(figure: Figure, holder: HTMLElement = element("figure")) {
    this.element = holder
    this.#figure = figure
    holder.append(element("figcaption", {}, this.#title, this.#caption), this.#legend, this.#panels)
    this.#draw()
    // A view that is put into a page later is drawn when it has a width.
    new ResizeObserver(() => {
      if (this.#panels.clientWidth !== this.#width) this.#draw()
    }).observe(this.#panels)
  }

  update(figure: Figure): void {
    this.#figure = figure
    this.#draw()
  }

  #draw(): void {
    const { title, caption, panels } = this.#figure
    if (this.#title.textContent !== title) this.#title.textContent = title
    if (this.#caption.textContent !== caption) this.#caption.textContent = caption
    while (this.#panels.childElementCount > panels.length) this.#removePanel()
    while (this.#panels.childElementCount < panels.length) this.#addPanel()
    this.#width = this.#panels.clientWidth
    if (this.#width === 0) return
    for (const [i, holder] of [...this.#panels.children].entries()) drawInto(holder, panels[i], this.#tips[i], title)
    fillLegend(this.#legend, this.#figure.legend ?? [])
  }

  #addPanel(): void {
    const picture = element("div", { class: "picture" })
    this.#panels.append(element("div", { class: "panel" }, element("b"), makeLegend(), picture))
    this.#tips.push(new Tip(picture))
  }

  #removePanel(): void {
    this.#panels.lastElementChild?.remove()
    this.#tips.pop()
  }
}

function drawInto(holder: Element, panel: Panel, tip: Tip, title: string): void {
  const [head, legend, picture] = holder.children as unknown as [HTMLElement, HTMLElement, HTMLElement]
  head.textContent = panel.title ?? ""
  head.hidden = panel.title === undefined
  const width = Math.round(picture.clientWidth)
  const flexible = panel.kind === "lines" || panel.kind === "dots" || panel.kind === "areas"
  const height = flexible ? Math.round(Math.min(panel.height, Math.max(220, 0.75 * width))) : panel.height
  const labels = width >= NARROW
  const svg = drawPanel(drawing, panel, { width, height, labels })
  svg.setAttribute("role", "img")
  svg.setAttribute("tabindex", "0")
  svg.setAttribute("aria-label", `${title} ${panel.title ?? ""} (arrow keys read the values)`)
  const focused = picture.contains(document.activeElement)
  picture.style.minHeight = `${height}px`
  tip.detach()
  picture.querySelector("svg")?.remove()
  picture.querySelector(".empty")?.remove()
  if (isEmpty(panel)) picture.append(element("p", { class: "empty quiet" }, "no events yet"))
  picture.prepend(svg)
  tip.attach(svg, () => stopsOf(panel, svg.scale.bind(svg) as unknown as Scales))
  if (focused) svg.focus({ preventScroll: true })
  fillLegend(legend, labels ? [] : namesOf(panel))
}

function isEmpty(panel: Panel): boolean {
  if (panel.kind === "lines") return panel.lines.every(({ points }) => points.length === 0)
  if (panel.kind === "areas") return panel.areas.every(({ points }) => points.length === 0)
  return panel.kind === "cells" && panel.cells.length === 0
}

/** The names of a panel's lines; a single one is named by the title. */
function namesOf(panel: Panel): LegendItem[] {
  return panel.kind === "lines" && panel.lines.length > 1
    ? panel.lines.map(({ label, colour, dash }) => ({ label, colour, ...(dash ? { dash } : {}) }))
    : []
}

function makeLegend(): HTMLElement {
  return element("ul", { class: "legend" })
}

function fillLegend(legend: HTMLElement, items: readonly LegendItem[]): void {
  legend.hidden = items.length === 0
  legend.replaceChildren(
    ...items.map(({ label, colour, dash }) => {
      const swatch = element("i", { "aria-hidden": "true", ...(dash ? { class: "dashed" } : {}) })
      swatch.style.color = `var(--${colour})`
      return element("li", {}, swatch, label)
    }),
  )
}
