/** The rating model of the synthetic stream, and what is known of it. See synthetic.ts for the whole. */

import { log, sigmoid } from "../../kernels/math.ts"

/** Coordinates of the space of taste and character. */
export const WIDTH = 16

/** The dimensions an id may have, each equally likely. */
export const DIMENSIONS = [0, 1, 2, 4, 8, 12, 16, 16] as const

/** The logit of a like at zero biases. */
export const BASE = 0.25
export const USER_BIAS = 1.35
export const ITEM_BIAS = 1.2
/** What a factor e in popularity adds to an item's bias. */
export const POPULARITY_BIAS = 0.25
/** The standard deviation of an item's coordinate; a user's is 1. */
export const CHARACTER = 0.85

/** Events an id needs before its coordinate k = 0, 1, … speaks: 16 · (2^((k+1)/4) − 1), rounded: 3, 7, 11, 16 … 240. */
export const NEEDED = neededEvents()

/** `score + noise` above CUTS[k] gives a rating above (k + 1) / 2; a like is above CUTS[6] = 0. */
const CUTS = [-6.5, -4.6, -4.2, -2.95, -2.4, -0.7, 0, 2.2, 3]

/** The coordinates of an id that speak in its next event, after `events` events. */
export function activeDimension(dimension: number, events = Number.POSITIVE_INFINITY): number {
  let active = 0
  while (active < dimension && events >= NEEDED[active]) active++
  return active
}

/** The rating, 0.5 to 5 in half steps, of a score with its noise. */
export function ratingOf(noisy: number): number {
  let steps = 1
  for (let k = 0; k < CUTS.length; k++) if (noisy > CUTS[k]) steps++
  return steps / 2
}

/** Logistic noise: 8192 values, equally likely. */
export function logisticTable(): Float64Array {
  return Float64Array.from({ length: 8192 }, (_, i) => log((i + 0.5) / (8191.5 - i)))
}

/** The chance of a rating above 3.5. */
export function likeProbability(score: number): number {
  return sigmoid(score)
}

/** The mean rating. */
export function expectedRating(score: number): number {
  let steps = 1
  for (const cut of CUTS) steps += sigmoid(score - cut)
  return steps / 2
}

function neededEvents(): Uint8Array {
  const needed = new Uint8Array(WIDTH)
  let growth = 1
  for (let k = 0; k < WIDTH; k++) {
    growth *= Math.sqrt(Math.SQRT2)
    needed[k] = Math.round(16 * (growth - 1))
  }
  return needed
}
