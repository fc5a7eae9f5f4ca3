import type { Rent } from "../src/policies/rent.ts"

interface Played {
  at: number
  keep: number
  grow: number
  arm: number
  context: number[]
}

export function watchRounds(policy: typeof Rent, now: () => number): { rungs: Map<number, Played[]>; stop: () => void }
export function beyondHindsight(rungs: Map<number, Played[]>, length: number): Float64Array
export function slope(regret: ArrayLike<number>): number
