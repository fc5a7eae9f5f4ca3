import { beforeAll, describe, expect, test } from "vitest"
import { sigmoid } from "../../../src/kernels/math.ts"
import {
  type SyntheticBatch,
  type SyntheticOptions,
  type SyntheticStream,
  synthetic,
} from "../../../src/stream/synthetic/synthetic.ts"

type Rows = Omit<SyntheticBatch, "length">

/** All rows of a stream as long columns. */
function collect(stream: SyntheticStream): Rows {
  const rows = {
    user: new Int32Array(stream.interactions),
    item: new Int32Array(stream.interactions),
    rating: new Float32Array(stream.interactions),
    timestamp: new Float64Array(stream.interactions),
    score: new Float32Array(stream.interactions),
  }
  let at = 0
  for (const batch of stream.batches()) {
    rows.user.set(batch.user, at)
    rows.item.set(batch.item, at)
    rows.rating.set(batch.rating, at)
    rows.timestamp.set(batch.timestamp, at)
    rows.score.set(batch.score, at)
    at += batch.length
  }
  expect(at).toBe(stream.interactions)
  return rows
}

const mean = (values: ArrayLike<number>) => Array.from(values).reduce((sum, value) => sum + value, 0) / values.length

function correlation(x: number[], y: number[]): number {
  const [middleX, middleY] = [mean(x), mean(y)]
  const a = x.map((value) => value - middleX)
  const b = y.map((value) => value - middleY)
  const product = (c: number[], d: number[]) => mean(c.map((value, i) => value * d[i]))
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b))
}

/** Distinct users in each segment of 500. */
function usersPerSegment({ user }: Rows): number[] {
  const counts: number[] = []
  for (let start = 0; start + 500 <= user.length; start += 500) {
    counts.push(new Set(user.subarray(start, start + 500)).size)
  }
  return counts
}

/** FNV-1a over the bytes of each column. */
function fingerprints({ user, item, rating, timestamp, score }: Rows): number[] {
  return [user, item, rating, timestamp, score].map((column) => {
    let h = 0x811c9dc5
    for (const byte of new Uint8Array(column.buffer)) h = Math.imul(h ^ byte, 0x01000193)
    return h >>> 0
  })
}

describe("the synthetic stream", () => {
  let stream: SyntheticStream
  let rows: Rows
  beforeAll(() => {
    stream = synthetic()
    rows = collect(stream)
  })

  test("is frozen: a change of these numbers is another stream", () => {
    expect(fingerprints(collect(synthetic({ interactions: 20_000 })))).toEqual([
      90869104, 1274167603, 2382842040, 516610561, 1097677644,
    ])
    expect(fingerprints(rows)).toEqual([1565443158, 2075694415, 1778588664, 4074257188, 50198746])
  })

  test("has 100,000 interactions, 692 users and 1,717 items unless told otherwise", () => {
    expect([stream.interactions, stream.users, stream.items]).toEqual([100_000, 692, 1717])
    const million = synthetic({ interactions: 1e6 })
    expect([million.users, million.items]).toEqual([6925, 3700])
    const twenty = synthetic({ interactions: 2e7 })
    expect([twenty.users, twenty.items]).toEqual([138_495, 27_262])
  })

  test("can be read again, and does not depend on the length of its batches", () => {
    expect(fingerprints(collect(stream))).toEqual(fingerprints(rows))
    expect(fingerprints(collect(synthetic({ batchLength: 777 })))).toEqual(fingerprints(rows))
  })

  test("differs by seed", () => {
    const other = fingerprints(collect(synthetic({ seed: 2 })))
    fingerprints(rows).forEach((value, column) => {
      expect(other[column]).not.toBe(value)
    })
  })

  test("brings every user and item promised, numbered by first appearance", () => {
    for (const ids of [rows.user, rows.item]) {
      let met = 0
      let inOrder = true
      for (const id of ids) {
        if (id > met) inOrder = false
        if (id === met) met++
      }
      expect(inOrder).toBe(true)
      expect(met).toBe(ids === rows.user ? stream.users : stream.items)
    }
  })

  test("runs forward in time, over about two years", () => {
    const { timestamp } = rows
    expect(timestamp.every((time, i) => i === 0 || time >= timestamp[i - 1])).toBe(true)
    const years = (timestamp[timestamp.length - 1] - timestamp[0]) / 31556952
    expect(years).toBeGreaterThan(1.5)
    expect(years).toBeLessThan(2.5)
  })

  test("never brings a pair twice", () => {
    const pairs = new Set(rows.user.map((user, i) => user * stream.items + rows.item[i]))
    expect(pairs.size).toBe(stream.interactions)
  })

  test("has about a dozen users in a segment of 500, at any length", () => {
    for (const [interactions, seeds] of [
      [5000, [1, 2, 3, 4]],
      [20_000, [1, 2]],
      [200_000, [1]],
    ] as const) {
      const counts = seeds.flatMap((seed) => usersPerSegment(collect(synthetic({ interactions, seed }))))
      expect(mean(counts)).toBeGreaterThan(9)
      expect(mean(counts)).toBeLessThan(15)
    }
    const counts = usersPerSegment(rows)
    expect(counts.filter((count) => count >= 8 && count <= 20).length / counts.length).toBeGreaterThan(0.9)
  })

  test("has many users who never return and some who stay for long", () => {
    const first = new Int32Array(stream.users).fill(-1)
    const last = new Int32Array(stream.users)
    const returned = new Uint8Array(stream.users)
    rows.user.forEach((user, i) => {
      if (first[user] < 0) first[user] = i
      else if (i - last[user] > 150) returned[user] = 1
      last[user] = i
    })
    expect(mean(returned)).toBeGreaterThan(0.3)
    expect(mean(returned)).toBeLessThan(0.5)
    const spans = first.map((start, user) => last[user] - start)
    expect(mean(spans.map((span) => (span > 20_000 ? 1000 : 0)))).toBeGreaterThan(20)
    expect(spans.filter((span) => span < 2500).length / stream.users).toBeGreaterThan(0.5)
  })

  test("has ratings in half steps, spread as in MovieLens", () => {
    const counts = new Map<number, number>()
    for (const rating of rows.rating) counts.set(rating, (counts.get(rating) ?? 0) + 1)
    expect([...counts.keys()].sort((a, b) => a - b)).toEqual([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5])
    expect(Math.max(...counts.values())).toBe(counts.get(4))
    const centre = mean(rows.rating)
    expect(Math.abs(centre - 3.55)).toBeLessThan(0.1)
    expect(Math.abs(Math.sqrt(mean(rows.rating.map((rating) => (rating - centre) ** 2))) - 1.06)).toBeLessThan(0.05)
    expect(Math.abs(mean(rows.rating.map((rating) => (rating > 3.5 ? 1 : 0))) - 0.53)).toBeLessThan(0.03)
  })

  test("has a few very popular items and a long tail", () => {
    const counts = new Int32Array(stream.items)
    for (const item of rows.item) counts[item]++
    const falling = counts.toSorted().reverse()
    const share = (items: number) => mean(falling.subarray(0, items)) * (items / stream.interactions)
    expect(share(1)).toBeGreaterThan(0.002)
    expect(share(Math.round(stream.items / 10))).toBeGreaterThan(0.3)
    expect(share(Math.round(stream.items / 10))).toBeLessThan(0.5)
    expect(falling[stream.items - 1]).toBe(1)
  })

  test("has one to three of 18 genres per item, and a few items without an entry", () => {
    const { columns, values, present } = stream.features
    expect(columns.length).toBe(18)
    for (let item = 0; item < stream.items; item++) {
      const genres = values.subarray(item * 18, item * 18 + 18).reduce((sum, value) => sum + value, 0)
      expect(present[item] === 1 ? genres >= 1 && genres <= 3 : genres === 0).toBe(true)
    }
    expect(Math.abs(mean(present) - 0.97)).toBeLessThan(0.02)
  })

  describe("and its truth", () => {
    test("give the chance of a like and the mean rating in every tenth of the scores", () => {
      const { likeProbability, expectedRating } = stream.truth
      const order = [...rows.score.keys()].sort((a, b) => rows.score[a] - rows.score[b])
      for (let start = 0; start < order.length; start += 10_000) {
        const part = order.slice(start, start + 10_000)
        const likes = mean(part.map((i) => (rows.rating[i] > 3.5 ? 1 : 0)))
        expect(Math.abs(likes - mean(part.map((i) => likeProbability(rows.score[i]))))).toBeLessThan(0.02)
        const rating = mean(part.map((i) => rows.rating[i]))
        expect(Math.abs(rating - mean(part.map((i) => expectedRating(rows.score[i]))))).toBeLessThan(0.04)
      }
    })

    test("leave room: majority < biases < oracle, and the oracle is no prophet", () => {
      const { truth } = stream
      const users = Array.from({ length: stream.users }, (_, user) => truth.userBias(user))
      const accuracy = (score: (i: number) => number) =>
        mean(rows.rating.map((rating, i) => (score(i) > 0 === rating > 3.5 ? 1 : 0)))
      const biases = accuracy((i) => 0.25 + users[rows.user[i]] + truth.itemBias(rows.item[i]))
      const oracle = accuracy((i) => rows.score[i])
      expect(accuracy(() => 1)).toBeLessThan(0.56)
      expect(biases).toBeGreaterThan(0.7)
      expect(oracle).toBeGreaterThan(biases + 0.04)
      expect(oracle).toBeGreaterThan(0.77)
      expect(oracle).toBeLessThan(0.81)
    })

    test("say that dimensions differ from id to id and appear with activity", () => {
      const { truth } = stream
      const dimensions = Array.from({ length: stream.users }, (_, user) => truth.userDimension(user))
      expect([...new Set(dimensions)].sort((a, b) => a - b)).toEqual([0, 1, 2, 4, 8, 12, 16])
      const full = dimensions.indexOf(16)
      const after = [0, 2, 3, 15, 16, 47, 48, 239, 240, 1e6].map((events) => truth.userDimension(full, events))
      expect(after).toEqual([0, 0, 1, 3, 4, 7, 8, 15, 16, 16])
      expect(truth.userDimension(dimensions.indexOf(2), 1000)).toBe(2)
      expect(truth.itemDimension(0, 0)).toBe(0)
    })

    test("agree on the biases: before any coordinate speaks, the score is their sum", () => {
      const { truth } = stream
      for (let i = 0; i < 3; i++) {
        const sum = 0.25 + truth.userBias(rows.user[i]) + truth.itemBias(rows.item[i])
        expect(rows.score[i]).toBeCloseTo(sum, 5)
      }
      const flat = Array.from({ length: stream.users }, (_, user) => truth.userDimension(user)).indexOf(0)
      const events = [...rows.user.keys()].filter((i) => rows.user[i] === flat)
      for (const i of events) {
        expect(rows.score[i]).toBeCloseTo(0.25 + truth.userBias(flat) + truth.itemBias(rows.item[i]), 5)
      }
      expect(events.length).toBeGreaterThan(0)
    })

    test("let the spread of a user's genres tell of the user's dimension", () => {
      const genres = Array.from({ length: stream.users }, () => new Set<number>())
      const counts = new Int32Array(stream.users)
      rows.user.forEach((user, i) => {
        const item = rows.item[i]
        if (stream.features.present[item] === 0 || counts[user]++ >= 20) return
        for (let k = 0; k < 18; k++) if (stream.features.values[item * 18 + k] === 1) genres[user].add(k)
      })
      const met = [...counts.keys()].filter((user) => counts[user] >= 20)
      const spread = met.map((user) => genres[user].size)
      expect(
        correlation(
          spread,
          met.map((user) => stream.truth.userDimension(user)),
        ),
      ).toBeGreaterThan(0.3)
    })

    test("refuse an index outside the stream", () => {
      expect(() => stream.truth.userBias(692)).toThrow("user index: expected a whole number from 0 to 691, got 692")
      expect(() => stream.truth.itemDimension(-1)).toThrow("item index: expected a whole number from 0 to 1716, got -1")
      expect(() => stream.userName(0.5)).toThrow("got 0.5")
      expect([stream.userName(3), stream.itemName(4)]).toEqual(["u3", "i4"])
    })
  })
})

describe("its options", () => {
  /** The correlation of tastes, seen through genres, between the two halves of a stream of a few busy users. */
  function tasteKept(options: SyntheticOptions): number {
    const stream = synthetic({ interactions: 60_000, users: 20, items: 6000, ...options })
    const { user, item, score } = collect(stream)
    // What taste adds to the score, averaged per user and genre.
    const sums = [0, 1].map(() => new Float64Array(stream.users * 18))
    const counts = [0, 1].map(() => new Float64Array(stream.users * 18))
    user.forEach((u, i) => {
      const half = i < user.length / 2 ? 0 : 1
      const rest = score[i] - 0.25 - stream.truth.userBias(u) - stream.truth.itemBias(item[i])
      for (let k = 0; k < 18; k++) {
        if (stream.features.values[item[i] * 18 + k] === 0 || rest === 0) continue
        sums[half][u * 18 + k] += rest
        counts[half][u * 18 + k]++
      }
    })
    const cells = [...counts[0].keys()].filter((cell) => counts[0][cell] > 30 && counts[1][cell] > 30)
    expect(cells.length).toBeGreaterThan(20)
    const [before, after] = [0, 1].map((half) => cells.map((cell) => sums[half][cell] / counts[half][cell]))
    return correlation(before, after)
  }

  test("a change of regime draws tastes anew; without it they last", () => {
    expect(tasteKept({ stationary: true })).toBeGreaterThan(0.7)
    expect(tasteKept({ stationary: true, change: { at: 0.5 } })).toBeLessThan(0.4)
  })

  test("a stationary stream has no drift, and drift of 0 is the same", () => {
    const options = { interactions: 20_000, seed: 3 }
    const still = collect(synthetic({ ...options, stationary: true }))
    expect(fingerprints(collect(synthetic({ ...options, drift: 0 })))).toEqual(fingerprints(still))
    expect(fingerprints(collect(synthetic(options)))).not.toEqual(fingerprints(still))
  })

  test("a change leaves everything before it as it was", () => {
    const options = { interactions: 20_000, seed: 4 }
    const plain = collect(synthetic(options))
    const changed = collect(synthetic({ ...options, change: { at: 0.5 } }))
    const differs = changed.score.map((score, i) => (score === plain.score[i] ? 0 : 1))
    expect(mean(differs.subarray(0, 10_000))).toBe(0)
    expect(mean(differs.subarray(10_000))).toBeGreaterThan(0.5)
    expect(fingerprints(changed).slice(0, 2)).toEqual(fingerprints(plain).slice(0, 2))
  })

  test("users who choose by taste take what they like, one item like the other, and no pair twice", () => {
    const options = { interactions: 20_000, seed: 3 }
    const stream = synthetic({ ...options, choice: "taste" })
    const [taste, popular] = [collect(stream), collect(synthetic(options))]
    expect(mean(taste.score)).toBeGreaterThan(mean(popular.score) + 0.1)
    /** Of an item and the user's one before: how often they share a genre. */
    const kinship = ({ user, item }: Rows) => {
      const { columns, values } = stream.features
      const before = new Map<number, number>()
      let kin = 0
      item.forEach((now, row) => {
        const last = before.get(user[row]) ?? now
        kin += Number(columns.some((_, c) => values[now * columns.length + c] * values[last * columns.length + c] > 0))
        before.set(user[row], now)
      })
      return kin / item.length
    }
    expect(kinship(taste)).toBeGreaterThan(kinship(popular) + 0.1)
    expect(new Set(taste.user.map((user, row) => user * stream.items + taste.item[row])).size).toBe(20_000)
    expect(fingerprints(taste)).toEqual([218922004, 3932478703, 3814081480, 427997033, 3953628608])
    expect(() => synthetic({ choice: "chance" as "taste" })).toThrow("choice: expected popular or taste, got ")
  })

  test("any numbers of users and items come out exactly", () => {
    const sizes: Required<Pick<SyntheticOptions, "interactions" | "users" | "items">>[] = [
      { interactions: 1, users: 1, items: 1 },
      { interactions: 20, users: 1, items: 1 },
      { interactions: 50, users: 50, items: 50 },
      { interactions: 1000, users: 2, items: 5 },
      { interactions: 2000, users: 1500, items: 40 },
      { interactions: 5000, users: 12, items: 4000 },
    ]
    for (const size of sizes) {
      const { user, item, score } = collect(synthetic(size))
      expect([new Set(user).size, new Set(item).size]).toEqual([size.users, size.items])
      expect(score.every((value) => sigmoid(value) > 0 && sigmoid(value) < 1)).toBe(true)
    }
  })

  const refusals: [object, string][] = [
    [{ interactions: 0 }, "interactions: expected a whole number, 1 or more, got 0"],
    [{ interactions: "many" }, 'interactions: expected a whole number, 1 or more, got "many"'],
    [{ interactions: Number.POSITIVE_INFINITY }, "interactions: expected a whole number, 1 or more, got Infinity"],
    [{ interactions: 100, users: 101 }, "users: expected at most the 100 interactions, got 101"],
    [{ interactions: 100, items: 200 }, "items: expected at most the 100 interactions, got 200"],
    [{ users: -1 }, "users: expected a whole number, 1 or more, got -1"],
    [{ items: 1.5 }, "items: expected a whole number, 1 or more, got 1.5"],
    [{ seed: 0.5 }, "seed: expected a whole number, got 0.5"],
    [{ drift: 3 }, "drift: expected a number from 0 to 2, got 3"],
    [{ change: { at: 2 } }, "change at: expected a number from 0 to 1, got 2"],
    [{ batchLength: 0 }, "batch length: expected a whole number, 1 or more, got 0"],
  ]

  test.each(refusals)("%j is refused", (options, message) => {
    expect(() => synthetic(options)).toThrow(message)
    expect(() => synthetic(options)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }))
  })
})
