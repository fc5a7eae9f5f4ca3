/** A learner as one of many: rows that travel, changes that add up, evidence, and what is refused. */

import { createHash } from "node:crypto"
import { describe, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { SharedRun } from "../../src/learning/shared-run.ts"
import type { SequenceModel } from "../../src/models/calibrated/sequence.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import type { ItemFeatures, Segment, Side } from "../../src/types.ts"
import { expectSameBits } from "../support/model-state.ts"
import { returnsOf } from "../support/returns.ts"
import { LIVE, partitionOf, Trainers } from "../support/trainers.ts"

const SIDES = ["user", "item"] as const
const TASKS = ["binary", "multiclass", "topk"] as const
const SIZES = [2, 4, 8, 16]

async function segmentsOf(
  length: number,
  limit: number,
): Promise<{ segments: Segment[]; features: ItemFeatures | undefined }> {
  const stream = synthetic({ interactions: limit, seed: 3 })
  const segments: Segment[] = []
  for await (const segment of cutSegments(stream.batches(), { length, limit })) segments.push(segment)
  return { segments, features: stream.features }
}

/** Few users and items, met in random order. */
async function mixedSegments(
  limit: number,
  length: number,
): Promise<{ segments: Segment[]; features: ItemFeatures | undefined }> {
  const stream = synthetic({ interactions: limit, users: 100, items: 120, stationary: true, seed: 3 })
  const rows: number[][] = []
  for await (const { user, item, rating, timestamp } of cutSegments(stream.batches(), { length, limit }))
    for (let r = 0; r < user.length; r++) rows.push([user[r], item[r], rating[r], timestamp[r]])
  const random = new Random(1, "order")
  const order = rows.map((row) => ({ row, at: random.next() })).sort((a, b) => a.at - b.at)
  const segments = Array.from({ length: limit / length }, (_, index): Segment => {
    const part = order.slice(index * length, (index + 1) * length).map(({ row }) => row)
    return {
      index,
      length,
      trainLength: 0.8 * length,
      user: Int32Array.from(part, ([user]) => user),
      item: Int32Array.from(part, ([, item]) => item),
      rating: Float32Array.from(part, ([, , rating]) => rating),
      timestamp: Float64Array.from(part, ([, , , timestamp]) => timestamp),
    }
  })
  return { segments, features: stream.features }
}

const DATA = await segmentsOf(250, 4000)

function open(options: RunOptions = {}): Run {
  return new Run({ sizes: SIZES, price: 1e-6, ...options, live: LIVE }, DATA.features)
}

function trained(options: RunOptions = {}, segments = DATA.segments): Run {
  const run = open(options)
  run.shared
  for (const segment of segments) run.step(segment)
  return run
}

/** Every id of the data. */
function idsOf(side: Side): number[] {
  return [...new Set(DATA.segments.flatMap((segment) => [...segment[side]]))]
}

function predictions(run: Run): Float64Array {
  const users = idsOf("user").slice(0, 40)
  const items = idsOf("item").slice(0, 60)
  const user = users.flatMap((id) => items.map(() => id))
  const item = users.flatMap(() => items)
  return run.learner.test({ user, item, label: new Float64Array(user.length) }).logits
}

/** All rows and the global state, moved to another learner. */
function copyInto(target: SharedRun, source: SharedRun): void {
  target.putGlobal(source.takeGlobal())
  for (const side of SIDES)
    for (const id of idsOf(side)) {
      const row = source.takeRow(side, id)
      if (row) target.putRow(side, id, row)
    }
}

describe("rows", () => {
  test.each(TASKS)(
    "%s: taken and put into another learner, they predict the same to the bit and are taken the same",
    (task) => {
      const from = trained({ task })
      const to = open({ task })
      copyInto(to.shared, from.shared)
      expectSameBits(predictions(to), predictions(from), task)
      let sizes = 0
      for (const side of SIDES)
        for (const id of idsOf(side)) {
          const row = from.shared.takeRow(side, id)
          if (!row) continue
          sizes = Math.max(sizes, row.length)
          expect(to.shared.takeRow(side, id), `${side} ${id}`).toEqual(row)
          expect(to.learner.live?.explain(side, id)?.indicators.frequency).toBe(
            from.learner.live?.explain(side, id)?.indicators.frequency,
          )
          const diversity = from.learner.live?.explain(side, id)?.indicators.diversity
          if (side === "user" && diversity !== null)
            expect(to.learner.live?.explain(side, id)?.indicators.diversity).toBeCloseTo(diversity ?? Number.NaN, 9)
        }
      expect(sizes).toBeGreaterThan(60)
      if (task === "topk")
        expect(to.shared.met(idsOf("user")[0])).toEqual([...from.shared.met(idsOf("user")[0])].sort((a, b) => a - b))
    },
  )

  test("a learner made of another's rows goes on as that one would: the next segments to within 0.01 of its loss", () => {
    const from = trained({}, DATA.segments.slice(0, 12))
    from.shared.takeEvidence()
    const to = open()
    copyInto(to.shared, from.shared)
    for (const segment of DATA.segments.slice(12)) {
      const [a, b] = [from.step(segment), to.step(segment)]
      expect(Math.abs((a.loss ?? 0) - (b.loss ?? 0))).toBeLessThan(0.01)
    }
  })

  test("dropped rows are gone from memory, and put back they are as before", () => {
    const run = trained({ task: "topk" })
    const [user, item] = [idsOf("user")[1], idsOf("item")[1]]
    const before = predictions(run)
    const rows = { user: run.shared.takeRow("user", user), item: run.shared.takeRow("item", item) }
    run.shared.dropRow("user", user)
    run.shared.dropRow("item", item)
    expect(run.shared.takeRow("item", item)).toBeUndefined()
    expect([run.shared.has("user", user), run.shared.has("item", item)]).toEqual([false, false])
    run.shared.putRow("user", user, rows.user ?? new Uint8Array(0))
    run.shared.putRow("item", item, rows.item ?? new Uint8Array(0))
    expectSameBits(predictions(run), before, "put back")
  })
})

test("top-k: a user's row can be taken for a process where items have other indices", () => {
  const from = trained({ task: "topk" })
  const [user, left] = [idsOf("user")[0], from.shared.met(idsOf("user")[0])[0]]
  const renumber = (item: number) => (item === left ? undefined : item + 1000)
  const to = open({ task: "topk" })
  to.shared.putRow("user", user, from.shared.takeRow("user", user, renumber) ?? new Uint8Array(0))
  const wanted = from.shared
    .met(user)
    .map(renumber)
    .filter((item) => item !== undefined)
  expect(wanted.length).toBeGreaterThan(3)
  expect([...to.shared.met(user)].sort()).toEqual([...wanted].sort())
  const latest = to.shared.model.latestOf?.(user) ?? []
  expect(latest.length).toBeGreaterThan(2)
  for (const item of latest) expect(wanted).toContain(item)
})

describe("changes", () => {
  test.each(TASKS)(
    "%s: one trainer, homes elsewhere: what adds up there is what was learned here, to 1e-4 (neighbours, rounded by chance: 3e-2)",
    (task) => {
      const trainer = open({ task })
      const home = open({ task })
      trainer.shared.decide(() => false)
      for (const segment of DATA.segments) {
        trainer.step(segment)
        home.shared.addEvidence(trainer.shared.takeEvidence())
        for (const { index, change } of trainer.shared.takeChanges()) home.shared.addChange(index, change)
        expect(trainer.shared.takeTouched().item).toEqual([])
      }
      expect(trainer.shared.takeChanges()).toEqual([])
      expect(home.shared.takeChanges()).toEqual([])
      for (const user of idsOf("user")) {
        const row = trainer.shared.takeRow("user", user)
        if (row) home.shared.putRow("user", user, row)
      }
      home.shared.putGlobal(trainer.shared.takeGlobal())
      const [here, there] = [predictions(trainer), predictions(home)]
      const most = task === "topk" ? 3e-2 : 1e-4
      for (let i = 0; i < here.length; i++) expect(Math.abs(here[i] - there[i])).toBeLessThan(most)
      for (const item of idsOf("item"))
        expect(home.learner.live?.explain("item", item)?.indicators.frequency ?? 0).toBe(
          trainer.learner.live?.explain("item", item)?.indicators.frequency ?? 0,
        )
    },
  )

  test("made at another size than the owner has, they change the numbers both hold", () => {
    const trainer = trained()
    expect(trainer.shared.takeChanges().length).toBeGreaterThan(10)
    const item = DATA.segments[0].item[0]
    const row = trainer.shared.takeRow("item", item) ?? new Uint8Array(0)
    const home = open()
    home.shared.putRow("item", item, row)
    const events = { ...DATA.segments[0], item: DATA.segments[0].item.slice().fill(item) }
    trainer.step(events)
    const changes = trainer.shared.takeChanges().filter(({ index }) => index === item)
    expect(changes.length).toBe(1)
    // An item that has no row yet starts smaller than the one the change was made at.
    const fresh = open()
    for (const learner of [home, fresh]) {
      learner.shared.addChange(item, changes[0].change)
      expect(learner.shared.has("item", item)).toBe(true)
      expect(learner.shared.takeTouched().item).toEqual([item])
    }
    expect(fresh.learner.live?.explain("item", item)?.indicators.frequency).toBe(events.length)
  })

  test("a fresh row and the own changes it lacks count every event once", () => {
    const follower = open()
    follower.shared.decide(() => false)
    const item = DATA.segments[0].item[0]
    const home = open()
    const frequency = (run: Run) => run.learner.live?.explain("item", item)?.indicators.frequency
    const events = (until: number) =>
      DATA.segments
        .slice(0, until)
        .flatMap((segment) => [...segment.item])
        .filter((other) => other === item).length
    const taken = (segment: Segment) => {
      follower.step(segment)
      return follower.shared.takeChanges().filter(({ index }) => index === item)
    }
    for (const { change } of taken(DATA.segments[0])) home.shared.addChange(item, change)
    const row = home.shared.takeRow("item", item) ?? new Uint8Array(0)
    const own = DATA.segments.slice(1, 8).flatMap(taken)
    expect(own.length).toBeGreaterThan(0)
    follower.shared.putRow("item", item, row)
    expect(frequency(follower)).toBe(events(1))
    for (const { change } of own) follower.shared.addChange(item, change)
    expect(frequency(follower)).toBe(events(8))
    expect(follower.shared.takeChanges()).toEqual([])
  })

  test("an item put while changes wait loses none of them, and a change added is not reported back", () => {
    const [a, b] = [open(), open()]
    expect(a.shared.takeChanges()).toEqual(b.shared.takeChanges())
    a.step(DATA.segments[0])
    const item = DATA.segments[0].item[0]
    b.step(DATA.segments[1])
    const row = b.shared.takeRow("item", item) ?? a.shared.takeRow("item", item) ?? new Uint8Array(0)
    a.shared.putRow("item", item, row)
    const [{ change }] = a.shared.takeChanges().filter(({ index }) => index === item)
    a.shared.addChange(item, change)
    expect(a.shared.takeChanges()).toEqual([])
  })
})

describe("evidence", () => {
  test.each(["dess-cv", "dess-fre"])(
    "%s: added, it leaves another policy as if it had played the rounds, to 1e-9",
    (method) => {
      const all: RunOptions[] = [{}, { preset: "paper" }]
      for (const one of all) {
        const options = { method, sizes: SIZES, ...one }
        const from = new Run({ ...options, live: LIVE }, DATA.features)
        const to = new Run({ ...options, live: LIVE }, DATA.features)
        for (const segment of DATA.segments) {
          from.shared
          from.step(segment)
          to.shared.addEvidence(from.shared.takeEvidence())
        }
        const [a, b] = [from, to].map((run) => numbersOf(run.shared.takeGlobal()))
        expect(a.length).toBeGreaterThan(10)
        for (let i = 0; i < a.length; i++)
          expect(Math.abs(a[i] - b[i])).toBeLessThan(1e-9 * Math.max(1, Math.abs(a[i])))
        expect(a.some((value) => Math.abs(value) > 10)).toBe(true)
      }
    },
  )

  test("nothing learned since the last time is nothing added", () => {
    const [from, to] = [trained(), trained()]
    from.shared.takeEvidence()
    to.shared.takeEvidence()
    const before = to.shared.takeGlobal()
    to.shared.addEvidence(from.shared.takeEvidence())
    expect(to.shared.takeGlobal()).toEqual(before)
  })
})

/** The doubles of a global state. */
function numbersOf(state: Uint8Array): number[] {
  const view = new DataView(state.buffer, state.byteOffset)
  let [at, count, scale] = [4, 0, 1]
  for (let more = true; more; scale *= 128) {
    more = state[at] >= 128
    count += (state[at++] % 128) * scale
  }
  return Array.from({ length: count }, (_, i) => view.getFloat64(at + 8 * i, true))
}

describe("what is refused", () => {
  const everything = (run: Run) => {
    const hash = createHash("sha256").update(predictions(run)).update(run.shared.takeGlobal())
    for (const side of SIDES)
      for (const id of idsOf(side)) hash.update(run.shared.takeRow(side, id) ?? new Uint8Array(0))
    return hash.digest("hex")
  }

  const entries: Record<
    string,
    { take: (shared: SharedRun) => Uint8Array; give: (shared: SharedRun, bytes: Uint8Array) => void }
  > = {
    "user row": {
      take: (shared) => shared.takeRow("user", idsOf("user")[0]) ?? new Uint8Array(0),
      give: (shared, bytes) => shared.putRow("user", idsOf("user")[0], bytes),
    },
    "item row": {
      take: (shared) => shared.takeRow("item", idsOf("item")[0]) ?? new Uint8Array(0),
      give: (shared, bytes) => shared.putRow("item", idsOf("item")[0], bytes),
    },
    "item change": {
      take: (shared) => shared.takeChanges()[0].change,
      give: (shared, bytes) => shared.addChange(idsOf("item")[0], bytes),
    },
    evidence: { take: (shared) => shared.takeEvidence(), give: (shared, bytes) => shared.addEvidence(bytes) },
    "global state": { take: (shared) => shared.takeGlobal(), give: (shared, bytes) => shared.putGlobal(bytes) },
  }

  test.each(Object.entries(entries))(
    "%s: another version, kind or options, and bytes cut off, added or not finite",
    (kind, { take, give }) => {
      const good = take(trained().shared)
      const run = trained({}, DATA.segments.slice(0, 6))
      run.shared.takeEvidence()
      const before = everything(run)
      const changed = (at: number, value: number) => {
        const bytes = good.slice()
        bytes[at] = value
        return bytes
      }
      expect(() => give(run.shared, changed(0, 9))).toThrow(
        `${kind}: expected version 2, got 9; it was written by another release`,
      )
      expect(() => give(run.shared, changed(1, good[1] === 2 ? 3 : 2))).toThrow(/damaged/)
      expect(() => give(run.shared, changed(2, good[2] ^ 1))).toThrow(/same method, task, sizes, features and seed/)
      expect(() => give(open({ seed: 2 }).shared, good)).toThrow(/same method/)
      expect(() => give(run.shared, new Uint8Array(0))).toThrow(/damaged/)
      const pace = Math.max(3, Math.floor(good.length / 200))
      for (let length = 1; length < good.length; length += pace)
        expect(() => give(run.shared, good.slice(0, length)), `${length} bytes`).toThrow(/expected/)
      expect(() => give(run.shared, Uint8Array.from([...good, 0]))).toThrow(/damaged/)
      const infinite = good.slice()
      infinite.fill(0xff, 5, Math.min(good.length, 80))
      expect(() => give(run.shared, infinite)).toThrow(/expected/)
      expect(everything(run)).toEqual(before)
    },
  )

  test.each(Object.entries(entries))(
    "%s: any bytes are refused with nothing changed, or leave finite predictions",
    (_, { take, give }) => {
      const good = take(trained().shared)
      const run = trained({}, DATA.segments.slice(0, 6))
      run.shared.takeEvidence()
      let before = everything(run)
      for (let seed = 1; seed <= 40; seed++) {
        const random = new Random(seed, "hostile")
        const bytes = good.slice()
        for (let n = 1 + random.integer(4); n > 0; n--)
          bytes[4 + random.integer(bytes.length - 4)] = random.integer(256)
        try {
          give(run.shared, bytes)
          before = everything(run)
        } catch (error) {
          expect(error, `seed ${seed}`).toMatchObject({ name: "DessError", code: "INVALID_DATA" })
          expect(everything(run), `seed ${seed}`).toEqual(before)
        }
      }
      expect(predictions(run).every(Number.isFinite)).toBe(true)
    },
  )

  test.each<RunOptions>([
    { method: "plain-bias" },
    { method: "esapn" },
    { method: "esapn", recipe: "calibrated" },
    { method: "darts" },
    { method: "autoemb" },
    { method: "dess-fre", recipe: "paper" },
    { method: "fixed-8", model: "distance" },
  ])("%o cannot be shared", (options) => {
    const run = new Run({ ...options, sizes: SIZES, threads: 1 })
    expect(() => run.shared).toThrow(/many processes can share/)
    run.close()
  })
})

describe("many trainers", () => {
  const whole = async (trainers: number, run: RunOptions): Promise<Trainers> => {
    const { segments, features } = await segmentsOf(500, 12_000)
    const cluster = new Trainers({ trainers, partitions: 8, run, features })
    for (const segment of segments) cluster.round(segment)
    return cluster
  }

  test("two and four learn as much as one: accuracy to 0.01 on a short stream", async () => {
    const accuracy: number[] = []
    for (const trainers of [1, 2, 4]) {
      const { tested } = await whole(trainers, {})
      accuracy.push(tested.hits / tested.rows)
    }
    expect(accuracy[0]).toBeGreaterThan(0.65)
    for (const other of accuracy.slice(1)) expect(other).toBeGreaterThan(accuracy[0] - 0.01)
  })

  test("after an exchange all have the same items, sizes decided by the owner alone, and count the same events", async () => {
    const { runs } = await whole(4, {})
    const [first, ...others] = runs
    const items = idsOf("item").filter((item) => first.shared.has("item", item))
    expect(items.length).toBeGreaterThan(100)
    let grown = 0
    for (const item of items) {
      const row = first.shared.takeRow("item", item)
      const explained = first.learner.live?.explain("item", item)
      if ((explained?.size ?? 0) > 2) grown++
      for (const other of others) {
        const there = other.learner.live?.explain("item", item)
        expect(there?.size).toBe(explained?.size)
        expect(there?.indicators.frequency).toBe(explained?.indicators.frequency)
        expect(other.shared.takeRow("item", item)?.length).toBe(row?.length)
      }
    }
    expect(grown).toBeGreaterThan(10)
  })

  test("a partition that moves takes its users along", async () => {
    const { segments, features } = await segmentsOf(500, 8000)
    const cluster = new Trainers({ trainers: 2, partitions: 4, run: {}, features })
    for (const segment of segments.slice(0, 8)) cluster.round(segment)
    const moved = cluster.owners.indexOf(1)
    const users = [...new Set(segments.slice(0, 8).flatMap(({ user }) => [...user]))].filter(
      (user) => partitionOf(user, 4) === moved,
    )
    const [to, from] = cluster.runs
    for (const user of users) {
      to.shared.putRow("user", user, from.shared.takeRow("user", user) ?? new Uint8Array(0))
      from.shared.dropRow("user", user)
    }
    cluster.owners[moved] = 0
    cluster.assign()
    for (const segment of segments.slice(8)) cluster.round(segment)
    expect(users.length).toBeGreaterThan(5)
    for (const user of users) {
      const events = segments.flatMap((segment) => [...segment.user]).filter((other) => other === user).length
      expect(to.learner.live?.explain("user", user)?.indicators.frequency).toBe(events)
      expect(from.shared.has("user", user)).toBe(false)
    }
  })

  test("how often ids come back is the same for four as for one, to 80 % where a segment is several turns long, and a new process gets it", async () => {
    const { segments, features } = await mixedSegments(60_000, 500)
    const rates = (run: Run) => SIDES.map((side) => returnsOf(run).rate(side, 200, 0))
    const [one, four] = [1, 4].map((trainers) => {
      const all = new Trainers({ trainers, partitions: 8, run: { sizes: SIZES, price: 1e-4 }, features })
      for (const segment of segments) all.round(segment)
      const found = all.runs.map(rates)
      const fresh = new Run({ sizes: SIZES, price: 1e-4, live: LIVE }, features)
      fresh.shared.putGlobal(all.runs[0].shared.takeGlobal())
      expect(rates(fresh)).toEqual(found[0])
      fresh.close()
      all.close()
      return found
    })
    expect(Math.min(...one[0])).toBeGreaterThan(0.3)
    for (const found of four)
      found.forEach((rate, s) => {
        // 220 ids: a segment is 4.5 turns, within which a process does not know when the events of others fall; and when an
        // id was met is kept to a sixteenth of a turn, half of the shortest pause that is told apart.
        expect(Math.abs(Math.log(rate / one[0][s])), SIDES[s]).toBeLessThan(Math.log(1.8))
      })
  })

  test("users who were away from memory are neither looked at nor counted when they return", () => {
    const rate = (away: boolean) => {
      const run = new Run({ method: "dess-fre", sizes: [2, 4, 8], protocol: "prequential", price: 1e-4, live: LIVE })
      const { shared } = run
      const users = (t: number) => Array.from({ length: 24 }, (_, n) => 24 * (t % 13) + n)
      const kept = new Map<number, Uint8Array>()
      for (let t = 0; t < 200; t++) {
        const here = users(t)
        for (const user of here) if (kept.has(user)) shared.putRow("user", user, kept.get(user) ?? new Uint8Array(0))
        const column = <T>(of: (r: number) => T) => Array.from({ length: 500 }, (_, r) => of(r))
        run.step({
          index: t,
          length: 500,
          trainLength: 500,
          user: Int32Array.from(column((r) => here[r % 24])),
          item: Int32Array.from(column((r) => (7 * r + t) % 40)),
          rating: Float32Array.from(column((r) => 1 + ((r + t) % 5))),
          timestamp: new Float64Array(500).fill(t),
        })
        shared.takeEvidence()
        if (!away || t < 4) continue
        for (const user of users(t - 4)) {
          kept.set(user, shared.takeRow("user", user) ?? new Uint8Array(0))
          shared.dropRow("user", user)
        }
      }
      const found = returnsOf(run).rate("user", 100, 33)
      run.close()
      return found
    }
    // A segment is 2.84 turns of 176 events: 500/24 events in the one after being found at rest for 12, of which 12 count.
    expect(Math.abs(rate(false) / (12 / 2.84) - 1)).toBeLessThan(0.1)
    expect(rate(true)).toBe(0)
  })

  test("top-k: four find what one finds, recall to 0.03", async () => {
    const recall: number[] = []
    for (const trainers of [1, 4]) {
      const { tested } = await whole(trainers, { task: "topk" })
      recall.push(tested.recall / tested.users)
    }
    expect(recall[0]).toBeGreaterThan(0.05)
    expect(recall[1]).toBeGreaterThan(recall[0] - 0.03)
  })

  test("within a budget users and owned items leave; copies of others' items stay", async () => {
    const { segments, features } = await segmentsOf(500, 8000)
    const cluster = new Trainers({ trainers: 2, partitions: 4, run: {}, features })
    for (const run of cluster.runs) run.learner.live?.limit({ bytes: 42_000, usersReturn: true }, 150)
    const left = { user: 0, item: 0 }
    for (const segment of segments) {
      cluster.round(segment)
      cluster.runs.forEach((run, t) => {
        for (const side of SIDES) left[side] += run.left[side].length
        for (const item of run.left.item) expect(cluster.ownerOf(item)).toBe(t)
      })
    }
    expect(Math.min(left.user, left.item)).toBeGreaterThan(0)
    cluster.runs.forEach((run, t) => {
      for (const item of idsOf("item"))
        if (cluster.ownerOf(item) !== t)
          expect(run.shared.has("item", item), `item ${item}`).toBe(cluster.runs[1 - t].shared.has("item", item))
    })
  })
})

describe("neighbours of many processes", () => {
  const modelOf = (run: Run) => (run.learner as unknown as { model: SequenceModel }).model
  /** Every C and R there is, by row. */
  const countsOf = (run: Run) => {
    const { neighbours } = modelOf(run)
    const rows = idsOf("item").flatMap((item) => neighbours.rowsOf(item))
    return new Map(rows.map((row) => [row, neighbours.entries(row)] as const))
  }
  const add = (to: Map<number, { total: number; weights: Map<number, number> }>, more: typeof to) => {
    for (const [item, { total, weights }] of more) {
      const row = to.get(item) ?? { total: 0, weights: new Map() }
      row.total += total
      for (const [other, weight] of weights) row.weights.set(other, (row.weights.get(other) ?? 0) + weight)
      to.set(item, row)
    }
    return to
  }

  test("what each counts reaches the other with its changes and adds up: totals to 1e-4, what is counted on average; weights too", () => {
    const [one, two] = [
      trained({ task: "topk" }, DATA.segments.slice(0, 5)),
      trained({ task: "topk" }, DATA.segments.slice(5, 9)),
    ]
    const want = add(countsOf(one), countsOf(two))
    const weights = modelOf(one).fusion.weights.map((weight, k) => weight + modelOf(two).fusion.weights[k])
    const shared = [one, two].map(({ shared }) => shared as SharedRun)
    const changes = shared.map((run) => run.takeChanges())
    const evidence = shared.map((run) => run.takeEvidence())
    shared.forEach((run, n) => {
      for (const { index, change } of changes[1 - n]) run.addChange(index, change)
      run.addEvidence(evidence[1 - n])
    })
    let [compared, sum, wanted] = [0, 0, 0]
    for (const run of [one, two]) {
      for (const [item, { total, weights: rows }] of want) {
        const got = modelOf(run).neighbours.entries(item)
        expect(Math.abs(got.total - total)).toBeLessThanOrEqual(1e-4 * Math.max(1, total))
        // A full set of slots lets the smallest go, in the order things come.
        if (rows.size > 64) continue
        for (const [other, weight] of rows) {
          // Up or down by chance, two steps at most: each process rounds once more, and what is little may be none.
          expect(Math.abs((got.weights.get(other) ?? 0) - weight)).toBeLessThanOrEqual(1 + 0.3 * weight)
          wanted += weight
          compared++
        }
        for (const weight of got.weights.values()) sum += weight
      }
      modelOf(run).fusion.weights.forEach((weight, k) => {
        expect(weight).toBeCloseTo(weights[k], 5)
      })
    }
    expect(compared).toBeGreaterThan(1000)
    expect(Math.abs(sum / wanted - 1)).toBeLessThan(0.02)
    expect(Math.max(...weights)).toBeGreaterThan(0)
    // Told once.
    expect(shared[0].takeChanges()).toEqual([])
  })

  test("an item's row brings its neighbours, and one that is dropped leaves those of others", () => {
    const run = trained({ task: "topk" }, DATA.segments.slice(0, 5))
    const other = trained({ task: "topk" }, [])
    const counts = countsOf(run)
    const [strongest, { weights }] = [...counts].sort(([, a], [, b]) => b.total - a.total)[0]
    const item = strongest >> 1
    const [from, to] = [run.shared as SharedRun, other.shared as SharedRun]
    to.putRow("item", item, from.takeRow("item", item) as Uint8Array)
    const { neighbours } = modelOf(other)
    for (const row of neighbours.rowsOf(item)) {
      expect(counts.get(row)?.total).toBeGreaterThan(0)
      expect(neighbours.entries(row)).toEqual(counts.get(row))
    }
    const neighbour = [...weights.keys()][0]
    from.dropRow("item", neighbour)
    run.step(DATA.segments[5])
    to.putRow("item", item, from.takeRow("item", item) as Uint8Array)
    const before = weights.get(neighbour) as number
    expect(neighbours.weight(strongest, neighbour)).toBeLessThan(before)
  })
})
