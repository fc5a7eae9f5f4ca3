import { describe, expect, it } from "vitest"
import { Random } from "../../../src/kernels/random.ts"
import { PlainKnn } from "../../../src/models/controls/knn.ts"
import type { Pairs, PlainRanker } from "../../../src/models/controls/model.ts"
import { PlainPopular, TRENDING_DECAY } from "../../../src/models/controls/popular.ts"

function pairs(rows: [user: number, item: number][]): Pairs {
  return { length: rows.length, user: Int32Array.from(rows, (r) => r[0]), item: Int32Array.from(rows, (r) => r[1]) }
}

function ask(ranker: PlainRanker, user: number, items: number): number[] {
  const out = new Float64Array(items).fill(-7)
  ranker.scores(out, user)
  return [...out]
}

/** The definition of plain-knn with Maps and arrays. */
class DefinedKnn {
  readonly together = new Map<number, number>()
  readonly counts = new Map<number, number>()
  readonly recent = new Map<number, number[]>()

  add(user: number, item: number): void {
    const recent = (this.recent.get(user) ?? []).filter((j) => j !== item)
    for (const j of recent) {
      for (const key of [item * 10_000 + j, j * 10_000 + item])
        this.together.set(key, (this.together.get(key) ?? 0) + 1)
    }
    this.counts.set(item, (this.counts.get(item) ?? 0) + 1)
    this.recent.set(user, [...recent, item].slice(-200))
  }

  score(user: number, item: number): number {
    if (!this.recent.has(user)) return this.counts.get(item) ?? 0
    let score = 0
    for (const j of (this.recent.get(user) ?? []).slice(-50)) {
      const both = this.together.get(item * 10_000 + j) ?? 0
      score += both / Math.sqrt(((this.counts.get(item) ?? 0) + 1) * ((this.counts.get(j) ?? 0) + 1))
    }
    return score
  }
}

describe("the plain rankers", () => {
  it("plain-popular counts pairs, the same for every user", () => {
    const popular = new PlainPopular()
    popular.learn(
      pairs([
        [0, 2],
        [1, 2],
        [1, 0],
      ]),
    )
    popular.learn(
      pairs([
        [5, 2],
        [5, 100],
      ]),
    )
    expect(ask(popular, 0, 4)).toEqual([1, 0, 3, 0])
    expect(ask(popular, 999, 4)).toEqual([1, 0, 3, 0])
    expect(ask(popular, 0, 300)[100]).toBe(1)
    expect(ask(popular, 0, 300)[299]).toBe(0)
    expect(popular.heldBytes).toBeGreaterThan(0)
  })

  it("plain-trending forgets by 0.97 per segment, an empty one too", () => {
    const trending = new PlainPopular({ decay: TRENDING_DECAY })
    trending.learn(
      pairs([
        [0, 0],
        [0, 0],
        [0, 1],
      ]),
    )
    trending.learn(pairs([[0, 1]]))
    trending.learn(pairs([]))
    const [zero, one] = ask(trending, 0, 2)
    expect(zero).toBeCloseTo(2 * 0.97 ** 2, 12)
    expect(one).toBeCloseTo(0.97 ** 2 + 0.97, 12)
  })

  it("plain-knn agrees with its definition on random streams to 1e-12", () => {
    for (let seed = 1; seed <= 6; seed++) {
      const random = new Random(seed, "knn")
      const items = seed % 2 === 0 ? 40 : 700
      const knn = new PlainKnn()
      const defined = new DefinedKnn()
      for (let segment = 0; segment < 12; segment++) {
        const rows = Array.from({ length: 150 }, (): [number, number] => [
          Math.floor(6 * random.next() ** 2),
          Math.floor(items * random.next() ** 2),
        ])
        knn.learn(pairs(rows))
        for (const [user, item] of rows) defined.add(user, item)
      }
      for (let user = 0; user < 7; user++) {
        const scores = ask(knn, user, items + 5)
        const want = scores.map((_, item) => defined.score(user, item))
        const worst = Math.max(...scores.map((score, item) => Math.abs(score - want[item])))
        expect(worst, `seed ${seed}, user ${user}`).toBeLessThan(1e-12)
        expect(Math.max(...want), `seed ${seed}, user ${user}`).toBeGreaterThanOrEqual(user < 6 ? 0.1 : 0)
      }
      expect(knn.heldBytes).toBeGreaterThan(0)
    }
  })

  it("plain-knn ranks the neighbours of what a user has met first", () => {
    const knn = new PlainKnn()
    // Even items go together, odd items go together.
    for (let user = 0; user < 40; user++) knn.learn(pairs([0, 2, 4, 6].map((item) => [user, item + (user % 2)])))
    knn.learn(pairs([[100, 0]]))
    const scores = ask(knn, 100, 8)
    expect(Math.min(scores[2], scores[4], scores[6])).toBeGreaterThan(0)
    for (const item of [1, 3, 5, 7]) expect(scores[item]).toBe(0)
  })

  it("plain-knn ranks by popularity for a user without a history, and writes no more than it is asked for", () => {
    const knn = new PlainKnn()
    knn.learn(
      pairs([
        [0, 0],
        [1, 0],
        [0, 5],
      ]),
    )
    expect(ask(knn, 77, 3)).toEqual([2, 0, 0])
    expect(ask(knn, 77, 9)).toEqual([2, 0, 0, 0, 0, 1, 0, 0, 0])
    expect(ask(knn, 0, 2)).toEqual([expect.any(Number), 0])
  })

  it("refuse negative ids, short columns and a decay outside (0, 1]", () => {
    for (const ranker of [new PlainPopular(), new PlainKnn()]) {
      expect(() => ranker.learn(pairs([[0, -1]]))).toThrow(/expected indices from 0, got 0 and -1/)
      expect(() => ranker.learn({ ...pairs([[0, 0]]), length: 3 })).toThrow(/expected columns of 3 rows, got 1/)
    }
    for (const decay of [0, 1.1, Number.NaN]) expect(() => new PlainPopular({ decay })).toThrow(/decay/)
  })
})
