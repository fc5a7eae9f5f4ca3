/**
 * Colours that people with any colour vision can tell apart (after Okabe and Ito, and Tol), by name: a page paints them
 * for its theme, a file takes the ones for white paper.
 */

export const PALETTE = {
  blue: "#0072b2",
  vermillion: "#d55e00",
  green: "#009e73",
  pink: "#cc79a7",
  orange: "#e69f00",
  sky: "#56b4e9",
  wine: "#882255",
  teal: "#44aa99",
  violet: "#7a5195",
  ochre: "#8c6d1f",
  umber: "#5d4a15",
  black: "#222222",
  iron: "#555555",
  grey: "#7a7a7a",
  silver: "#9a9a9a",
  rule: "#b0003a",
  ink: "#333333",
  /** Sizes, from small to large. */
  size0: "#fde7a9",
  size1: "#f6c15c",
  size2: "#e8975a",
  size3: "#cf6672",
  size4: "#a34684",
  size5: "#6b3a8c",
  size6: "#352a6e",
} as const

export type Colour = keyof typeof PALETTE

const SIZE_COLOURS = ["size0", "size1", "size2", "size3", "size4", "size5", "size6"] as const

/** The colour of the `step`-th of `count` sizes. */
export function sizeColour(step: number, count: number): Colour {
  const last = SIZE_COLOURS.length - 1
  return SIZE_COLOURS[count <= 1 ? last : Math.round((step * last) / (count - 1))]
}
