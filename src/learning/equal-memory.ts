/**
 * Equal memory for `random-grow` (method.md §8): its sizes depend on the order of ids and on chance alone, never on the
 * model, so the growth of its table is replayed without training and the probability per side is found by bisection.
 * It cannot hold less than every id at its first size, nor more than one size a segment gives: for a target beyond
 * that the nearest is returned and marked as such.
 */

import { RandomGrow } from "../policies/controls.ts"
import type { Choices } from "../policies/policy.ts"
import { cutSegments } from "../stream/segments.ts"
import type { Stream } from "../stream/stream.ts"
import type { Segment, Side } from "../types.ts"
import { type RunOptions, withDefaults } from "./options.ts"

/** The sizes of one side as ids are met and grown. */
class Replay {
  readonly #sizes: readonly number[]
  readonly #steps: number[] = []
  numbers = 0

  constructor(sizes: readonly number[]) {
    this.#sizes = sizes
  }

  meet(id: number): void {
    if (this.#steps[id] !== undefined) return
    this.#steps[id] = 0
    this.numbers += this.#sizes[0]
  }

  /** Ids of some rows that can still grow, each once, in order of first appearance. */
  open(ids: Int32Array): number[] {
    return [...new Set(ids)].filter((id) => this.#steps[id] < this.#sizes.length - 1)
  }

  grow(id: number): void {
    const step = ++this.#steps[id]
    this.numbers += this.#sizes[step] - this.#sizes[step - 1]
  }
}

/** Time-averaged embedding bytes of a side under `random-grow` with a given probability. */
function replayBytes(
  segments: readonly Segment[],
  side: Side,
  p: { probability: number; sizes: readonly number[]; seed: number; prequential: boolean },
): number {
  const policy = new RandomGrow({ probability: { user: p.probability, item: p.probability }, seed: p.seed })
  const replay = new Replay(p.sizes)
  let sum = 0
  segments.forEach((segment, t) => {
    const ids = segment[side]
    const deciding = ids.subarray(0, p.prequential ? segment.length : segment.trainLength)
    for (const id of deciding) replay.meet(id)
    if (t > 0) {
      const open = replay.open(deciding)
      const arms = policy.decide(side, { length: open.length } as Choices)
      for (let i = 0; i < open.length; i++) if (arms[i] === 1) replay.grow(open[i])
    }
    for (const id of ids) replay.meet(id)
    sum += 4 * replay.numbers
  })
  return segments.length === 0 ? 0 : sum / segments.length
}

/** Bytes of random-grow and of the target: equal to 2 %, or as near as possible. */
export type Holding = "equal" | "more" | "less"

/** The probabilities whose time-averaged bytes come nearest to the target's, per side. */
export async function matchProbability(
  stream: Stream,
  options: RunOptions,
  target: Record<Side, number>,
): Promise<{ probability: Record<Side, number>; bytes: Record<Side, number>; holds: Record<Side, Holding> }> {
  const { segment: length, limit, sizes: ladder, seed, protocol, task, recipe } = withDefaults(options)
  // The sequence model holds two vectors of an item (models/calibrated/sequence.ts).
  const itemVectors = task === "topk" && recipe === "calibrated" ? 2 : 1
  const segments: Segment[] = []
  for await (const segment of cutSegments(stream.batches(), limit === undefined ? { length } : { length, limit }))
    segments.push(segment)
  const find = (side: Side) => {
    const sizes = ladder.map((size) => (side === "item" ? itemVectors * size : size))
    const bytes = (probability: number) =>
      replayBytes(segments, side, { probability, sizes, seed, prequential: protocol !== "split" })
    let [low, high] = [0, 1]
    let best = { probability: 0, bytes: bytes(0) }
    for (let i = 0; i < 24 && Math.abs(best.bytes - target[side]) > 0.002 * target[side]; i++) {
      const probability = (low + high) / 2
      const got = bytes(probability)
      if (Math.abs(got - target[side]) < Math.abs(best.bytes - target[side])) best = { probability, bytes: got }
      if (got < target[side]) low = probability
      else high = probability
    }
    return best
  }
  const [user, item] = [find("user"), find("item")]
  return {
    probability: { user: user.probability, item: item.probability },
    bytes: { user: user.bytes, item: item.bytes },
    holds: { user: compare(user.bytes, target.user), item: compare(item.bytes, target.item) },
  }
}

function compare(bytes: number, target: number): Holding {
  if (Math.abs(bytes - target) <= 0.02 * target) return "equal"
  return bytes > target ? "more" : "less"
}
