/** The same method in the same colour everywhere. */

import type { Colour } from "../figures/palette.ts"
import { type MethodKind, methodKind } from "./controls.ts"

const BY_METHOD: Record<string, Colour> = {
  "dess-cv": "blue",
  "dess-fre": "vermillion",
  "dess-cv-cold": "sky",
  "dess-fre-cold": "orange",
  esapn: "green",
  darts: "pink",
  autoemb: "violet",
  "fixed-128": "ochre",
  "fixed-222": "umber",
  "random-grow": "black",
  "always-grow": "iron",
  "never-grow": "silver",
}

export function colourOf(method: string): Colour {
  const name = method.split(":")[0]
  if (Object.hasOwn(BY_METHOD, name)) return BY_METHOD[name]
  if (/^(plain-|isgd|ease)/.test(method)) return "wine"
  return method.startsWith("uniform-") ? "teal" : KIND_COLOURS[methodKind(method)]
}

/** From outside: not the colour of dess-fre, beside which its lines are drawn. */
export const KIND_COLOURS = { own: "pink", dess: "blue", baseline: "green", control: "grey" } as const

export const PHASE_COLOURS = { policy: "blue", growth: "orange", train: "grey", inference: "sky" } as const

/** The kinds of a figure; that of methods from outside only where there are some. */
export const legendOf = (kinds: readonly MethodKind[]) =>
  kinds.includes("own") ? [OWN_LEGEND, ...KIND_LEGEND] : KIND_LEGEND

const OWN_LEGEND = { label: "from outside", colour: KIND_COLOURS.own }

const KIND_LEGEND = [
  { label: "DESS", colour: KIND_COLOURS.dess },
  { label: "baselines", colour: KIND_COLOURS.baseline },
  { label: "controls", colour: KIND_COLOURS.control },
]
