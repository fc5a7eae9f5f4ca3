/** The parts of Plot that pages draw with: built once, to plot.js (tools/build-web.mjs). */

export { areaY, barX, cell, dot, line, plot, ruleX, ruleY, text, tickX } from "@observablehq/plot"
