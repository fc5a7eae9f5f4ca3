/** Colours that people with any colour vision can tell apart (after Okabe and Ito, and Tol), the same method in the same colour everywhere. */

import { methodKind } from "./controls.ts"

const BLUE = "#0072b2"
const VERMILLION = "#d55e00"
const GREEN = "#009e73"
const PURPLE = "#cc79a7"
const ORANGE = "#e69f00"
const SKY = "#56b4e9"
const WINE = "#882255"
const TEAL = "#44aa99"
const BLACK = "#222222"
const GREY = "#7a7a7a"

const BY_METHOD: Record<string, string> = {
  "dess-cv": BLUE,
  "dess-fre": VERMILLION,
  "dess-cv-cold": SKY,
  "dess-fre-cold": ORANGE,
  esapn: GREEN,
  darts: PURPLE,
  autoemb: "#7a5195",
  "fixed-128": "#8c6d1f",
  "fixed-222": "#5d4a15",
  "random-grow": BLACK,
  "always-grow": "#555555",
  "never-grow": "#9a9a9a",
}

export function colourOf(method: string): string {
  if (Object.hasOwn(BY_METHOD, method)) return BY_METHOD[method]
  if (method.startsWith("plain-")) return WINE
  return method.startsWith("uniform-") ? TEAL : KIND_COLOURS[methodKind(method)]
}

export const KIND_COLOURS = { dess: BLUE, baseline: GREEN, control: GREY } as const

export const PHASE_COLOURS = { policy: BLUE, growth: ORANGE, train: GREY, inference: SKY } as const

export const RULE_COLOUR = "#b0003a"

export const KIND_LEGEND = [
  { label: "DESS", colour: KIND_COLOURS.dess },
  { label: "baselines", colour: KIND_COLOURS.baseline },
  { label: "controls", colour: KIND_COLOURS.control },
]
