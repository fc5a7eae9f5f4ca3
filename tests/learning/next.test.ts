/** Protocol next, against an evaluation written out. */

import { describe, expect, test } from "vitest"
import { Run, runStream } from "../../src/learning/loop.ts"
import { cutAt, keepCore } from "../../src/learning/next.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { RunResult } from "../../src/learning/report.ts"
import type { Stream } from "../../src/stream/stream.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { InteractionBatch, Segment } from "../../src/types.ts"

const EVENTS = 1500

function source(): Stream {
  return synthetic({ interactions: EVENTS, users: 60, items: 120, seed: 4 })
}

async function finish(options: RunOptions): Promise<RunResult> {
  const run = runStream(source(), { task: "topk", protocol: "next", segment: 100, ...options })
  for (;;) {
    const { value, done } = await run.next()
    if (done) return value
  }
}

async function events(): Promise<{ user: number[]; item: number[]; rating: number[]; timestamp: number[] }> {
  const all = { user: [] as number[], item: [] as number[], rating: [] as number[], timestamp: [] as number[] }
  for await (const batch of source().batches())
    for (const name of ["user", "item", "rating", "timestamp"] as const) all[name].push(...batch[name])
  return all
}

/** HR and NDCG of lists of 10 that `rank` gives, for every event from `cut` on that is not its user's first; `learn` follows it. */
function evaluate(
  all: { user: number[]; item: number[] },
  cut: number,
  p: { rank: (user: number, items: number[]) => number[]; learn: (event: number) => void },
): { hr: number; ndcg: number; targets: number } {
  let [hits, gain, targets] = [0, 0, 0]
  for (let e = cut; e < all.user.length; e++) {
    const met = new Set(all.item.slice(0, e).filter((_, b) => all.user[b] === all.user[e]))
    const seen = [...new Set(all.item.slice(0, e))]
    if (met.size > 0) {
      targets++
      const scores = p.rank(all.user[e], seen)
      const order = seen.map((_, s) => s).filter((s) => !met.has(seen[s]))
      const best = order.sort((a, b) => scores[b] - scores[a] || a - b).slice(0, 10)
      const rank = best.findIndex((s) => seen[s] === all.item[e])
      if (rank >= 0) {
        hits++
        gain += 1 / Math.log2(rank + 2)
      }
    }
    p.learn(e)
  }
  return { hr: hits / targets, ndcg: gain / targets, targets }
}

function segmentOf(all: Awaited<ReturnType<typeof events>>, from: number, to: number): Segment {
  const batch: InteractionBatch = {
    length: to - from,
    user: Int32Array.from(all.user.slice(from, to)),
    item: Int32Array.from(all.item.slice(from, to)),
    rating: Float32Array.from(all.rating.slice(from, to)),
    timestamp: Float64Array.from(all.timestamp.slice(from, to)),
  }
  return { ...batch, index: 0, trainLength: to - from }
}

describe("protocol next", () => {
  test.each(["isgd", "ease-200"])("%s is measured frozen and online, and what it learns counts", async (method) => {
    const { next } = await finish({ method, every: 10, cut: 0.3 })
    expect(next?.frozen.hr).toBeGreaterThan(0)
    expect(next?.online.hr).toBeGreaterThan(0)
    expect(next?.online.ndcg).not.toBe(next?.frozen.ndcg)
  })

  test("a control by recency: frozen and learned event by event are what counting by hand gives", async () => {
    const { next } = await finish({ method: "plain-recent-200", every: 1, cut: 0.8 })
    const all = await events()
    const cut = cutAt(Float64Array.from(all.timestamp), 0.8)
    const lately = (end: number) => (_: number, items: number[]) =>
      items.map((item) => all.item.slice(Math.max(0, end - 200), end).filter((other) => other === item).length)
    const frozen = evaluate(all, cut, { rank: lately(cut), learn: () => {} })
    let end = cut
    const online = evaluate(all, cut, {
      rank: (user, items) => lately(end)(user, items),
      learn: (e) => {
        end = e + 1
      },
    })
    expect(next?.targets).toBe(frozen.targets)
    expect(next?.frozen.hr).toBeCloseTo(frozen.hr, 12)
    expect(next?.frozen.ndcg).toBeCloseTo(frozen.ndcg, 12)
    expect(next?.online.hr).toBeCloseTo(online.hr, 12)
    expect(next?.online.ndcg).toBeCloseTo(online.ndcg, 12)
    expect(frozen.hr).toBeGreaterThan(0)
    expect(online.ndcg).not.toBe(frozen.ndcg)
  })

  test("the model learned event by event ranks as a run that is stepped by hand", async () => {
    const options: RunOptions = { task: "topk", method: "fixed-8", segment: 100 }
    const { next, recall, ndcg } = await finish({ method: "fixed-8", every: 1, cut: 0.9 })
    const all = await events()
    const cut = cutAt(Float64Array.from(all.timestamp), 0.9)
    const run = new Run({ ...options, protocol: "prequential" })
    for (let from = 0; from < cut; from += 100)
      run.step(segmentOf(all, from, Math.min(cut, from + 100)), { unmeasured: true })
    const online = evaluate(all, cut, {
      rank: (user, items) => [...run.learner.rank(items).scores(user)],
      learn: (e) => run.step(segmentOf(all, e, e + 1), { unmeasured: true }),
    })
    run.close()
    expect(next?.online.hr).toBe(online.hr)
    expect(next?.online.ndcg).toBeCloseTo(online.ndcg, 12)
    expect([recall, ndcg]).toEqual([next?.online.hr, next?.online.ndcg])
    expect(online.hr).toBeGreaterThan(0)
  })

  test.each<RunOptions>([
    { method: "fixed-8" },
    { method: "dess-fre" },
    { method: "always-grow", recipe: "paper" },
    { method: "hash-40" },
    { method: "plain-neighbours" },
  ])("%o is ranked anew where something changed: as if all was ranked anew for every event", async (given) => {
    const { next } = await finish({ ...given, every: 10, cut: 0.85 })
    const all = await events()
    const cut = cutAt(Float64Array.from(all.timestamp), 0.85)
    const run = new Run({ task: "topk", protocol: "prequential", segment: 100, ...given })
    const { learner } = run
    for (let from = 0; from < cut; from += 100)
      run.step(segmentOf(all, from, Math.min(cut, from + 100)), { unmeasured: true })
    const rank = (user: number, seen: number[]) => {
      const ranking = learner.rank(seen)
      const scores = new Map([...ranking.scores(user)].map((score, i) => [ranking.items[i], score]))
      ranking.release()
      return seen.map((item) => scores.get(item) as number)
    }
    const frozen = evaluate(all, cut, { rank, learn: (e) => learner.observe?.(all.user[e], all.item[e]) })
    learner.unobserve?.()
    let learned = cut
    const online = evaluate(all, cut, {
      rank,
      learn: (e) => {
        if (e + 1 - learned < 10) return learner.observe?.(all.user[e], all.item[e])
        run.step(segmentOf(all, learned, e + 1), { unmeasured: true })
        learned = e + 1
      },
    })
    run.close()
    for (const [measured, expected] of [
      [next?.frozen, frozen],
      [next?.online, online],
    ] as const) {
      expect(measured?.hr).toBe(expected.hr)
      expect(measured?.ndcg).toBeCloseTo(expected.ndcg, 12)
      expect(expected.hr).toBeGreaterThan(0)
    }
    expect(online).not.toEqual(frozen)
  })

  test("what was observed and not learned counts in lists, and is taken back before it is learned", async () => {
    const all = await events()
    const learned = () => {
      const run = new Run({ task: "topk", method: "fixed-8", protocol: "prequential" })
      run.step(segmentOf(all, 0, 1000), { unmeasured: true })
      return run
    }
    const [one, two] = [learned(), learned()]
    const items = [...new Set(all.item.slice(0, 1000))]
    const user = all.user[999]
    const scores = (run: Run) => [...run.learner.rank(items).scores(user)]
    const before = scores(one)
    one.learner.observe?.(user, items[3])
    one.learner.observe?.(user, items[5])
    expect(scores(one)).not.toEqual(before)
    for (const run of [one, two]) run.step(segmentOf(all, 1000, 1100), { unmeasured: true })
    expect(scores(one)).toEqual(scores(two))
    one.learner.observe?.(user, items[3])
    one.learner.unobserve?.()
    expect(scores(one)).toEqual(scores(two))
  })

  test("the cut is after all events of the quantile's time; a core keeps who has enough, and no pair twice in a row", () => {
    expect(cutAt(Float64Array.of(1, 2, 3, 4, 5), 0.5)).toBe(3)
    expect(cutAt(Float64Array.of(1, 3, 3, 3, 5), 0.25)).toBe(4)
    expect(cutAt(Float64Array.of(1, 2), 0.9)).toBe(1)
    const user = Int32Array.of(0, 0, 0, 1, 1, 2, 0)
    const item = Int32Array.of(5, 5, 6, 5, 6, 7, 5)
    const batch = { length: 7, user, item, rating: new Float32Array(7), timestamp: new Float64Array(7) }
    const kept = keepCore(batch, 2)
    expect([...kept.user]).toEqual([0, 0, 1, 1, 0])
    expect([...kept.item]).toEqual([5, 6, 5, 6, 5])
  })
})
