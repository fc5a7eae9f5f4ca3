/** Who leaves when: at any rate, without events, and whatever a clock says for a moment. */

import { describe, expect, test } from "vitest"
import { hashState } from "../../src/engine/safetensors.ts"
import { Idle, type Limits, tickMilliseconds, toleranceMilliseconds } from "../../src/ids/idle.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { Limiter } from "../../src/learning/limiter.ts"
import { Run } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import { EmbeddingTable } from "../../src/models/embedding-table.ts"
import type { Segment, Side } from "../../src/types.ts"
import { type Row, segmentOf } from "../support/planted.ts"
import { copyState } from "../support/states.ts"

const SECOND = 1000
const MINUTE = 60 * SECOND
const DAY = 86_400_000
const START = 1_700_000_000_000
const LIVE = { testUsers: 4, smallestBatch: 32, remembered: 100 }

const LEARNERS: RunOptions[] = [
  { recipe: "calibrated", task: "binary", method: "dess-fre" },
  { recipe: "calibrated", task: "topk", method: "dess-fre" },
  { recipe: "paper", task: "binary", method: "dess-fre", model: "mf" },
]

function open(options: RunOptions, limits?: Limits): Run {
  const run = new Run({ ...options, sizes: [2, 4, 8], protocol: "prequential", threads: 1, seed: 3, live: LIVE })
  if (limits) run.learner.live?.limit(limits, 500)
  return run
}

function at(rows: readonly Row[], index: number, time: number): Segment {
  return { ...segmentOf(rows, index), time }
}

function hashOf(run: Run): string {
  const state = new State()
  run.save(state)
  return hashState(state)
}

/** A limiter on tables of its own, and what it drives. */
class Held {
  readonly tables = { user: tableOf(), item: tableOf() }
  limiter: Limiter
  #limits: Limits
  number = 0

  constructor(limits: Limits) {
    this.#limits = limits
    this.limiter = this.#open()
  }

  #open(): Limiter {
    const limiter = new Limiter({
      tables: this.tables,
      forget: (side, ids) => {
        for (const id of ids) this.tables[side].free(id)
        limiter.forget(side, ids)
      },
    })
    limiter.set(this.#limits, 500)
    return limiter
  }

  limit(limits: Limits): void {
    this.#limits = limits
    this.limiter.set(limits, 500)
  }

  /** Who leaves, users and items in one list; the users' ids are also the items'. */
  step(ids: readonly number[], time: number): number[] {
    const segment = at(
      ids.map((id): Row => [id, id, 5]),
      this.number,
      time,
    )
    const gone = this.limiter.makeRoom(segment, ++this.number)
    for (const id of ids) for (const side of ["user", "item"] as const) this.tables[side].ensure(id)
    expect(gone?.left.item).toEqual(gone?.left.user)
    return gone?.left.user ?? []
  }

  tick(time: number): number[] {
    return this.limiter.advanceTime(time, this.number)?.left.user ?? []
  }

  /** Goes on with a limiter that was saved and loaded. */
  reopen(change: (state: State) => void = () => {}): void {
    const state = new State()
    this.limiter.save(state)
    change(state)
    const loaded = copyState(state)
    this.limiter = this.#open()
    this.limiter.load(loaded)
  }
}

function tableOf(): EmbeddingTable {
  return new EmbeddingTable({ sizes: [1], deviation: 0 })
}

describe("leaving keeps up", () => {
  test.each(LEARNERS)("with 2,000 one-time users a second and a limit of 3 s ($recipe, $task)", (options) => {
    const run = open(options, { leaveAfter: 3 * SECOND })
    const seconds = options.recipe === "paper" ? 20 : 60
    let most = 0
    for (let n = 0; n < 4 * seconds; n++) {
      const rows = Array.from({ length: 500 }, (_, r): Row => [500 * n + r, r % 50, r % 5])
      run.step(at(rows, n, START + 250 * n), { unmeasured: true })
      most = Math.max(most, run.learner.status().user.seen)
    }
    // Three seconds, one for whole seconds, one until the next search.
    expect(most / 2000).toBeLessThanOrEqual(5.5)
    expect(most / 2000).toBeGreaterThanOrEqual(3)
    expect(run.learner.status().item.seen).toBe(50)
    run.close()
  })

  test("with 20,000 new ids a second, and when 300,000 are due at once, at most 65,536 of them at a step", () => {
    const held = new Held({ leaveAfter: 10 * SECOND })
    let time = START
    const idsFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i)
    for (let n = 0; n < 800; n++) {
      held.step(idsFrom(500 * n, 500), time)
      time += 25
    }
    expect(held.tables.user.count).toBeLessThan(20_000 * 12.5)
    held.step(idsFrom(400_000, 300_000), time)
    const steps: number[] = []
    for (let tick = 0; tick < 30; tick++) {
      time += SECOND
      const { length } = held.tick(time)
      if (length > 0) steps.push(length)
      if (tick % 3 === 0) held.reopen()
    }
    expect(Math.max(...steps)).toBe(65_536)
    expect(held.tables.user.count).toBe(0)
  })

  test("without events, when time advances: all leave within a limit, a tick and a second", () => {
    for (const options of LEARNERS)
      for (const leaveAfter of [2 * SECOND, 64 * SECOND, 90 * DAY]) {
        const run = open(options, { leaveAfter })
        for (let n = 0; n < 3; n++) run.step(at([...rowsOf(n)], n, START))
        const tick = tickMilliseconds({ leaveAfter }) ?? 0
        let last = START
        for (let time = START; run.learner.status().user.seen > 0; time += tick) {
          expect(time, `${options.recipe}, ${leaveAfter}`).toBeLessThanOrEqual(
            START + leaveAfter + Math.max(tick, leaveAfter / 16) + tick + SECOND,
          )
          run.advanceTime(time)
          last = time
        }
        expect(last - START).toBeGreaterThan(leaveAfter)
        expect(run.left.user.length).toBeGreaterThan(0)
        expect(run.learner.status()).toMatchObject({ user: { seen: 0 }, item: { seen: 0 } })
        run.advanceTime(last + tick)
        expect(run.left).toEqual({ user: [], item: [] })
        run.close()
      }
  })
})

function* rowsOf(seed: number): Generator<Row> {
  const random = new Random(seed, "idle rows")
  for (let r = 0; r < 60; r++) yield [random.integer(40), random.integer(30), 1 + random.integer(5)]
}

describe("one wrong reading", () => {
  test.each(LEARNERS)("of 120 days ahead removes no id ($recipe, $task)", (options) => {
    const run = open(options, { shrinkAfter: 30 * DAY, leaveAfter: 90 * DAY })
    for (let n = 0; n < 12; n++) {
      const wrong = n === 8 ? 120 * DAY : 0
      const rows = Array.from({ length: 500 }, (_, r): Row => [(r + n) % 40, r % 30, r % 5])
      run.step(
        at(n < 4 ? rows : rows.map(([user, item, rating]) => [user % 5, item % 5, rating]), n, START + n + wrong),
      )
      expect([run.left, run.learner.status().user.seen]).toEqual([{ user: [], item: [] }, 40])
    }
    run.close()
  })

  test("anywhere, ahead or behind, by minutes to years: the same ids leave as without", () => {
    let leaving = 0
    for (let seed = 1; seed <= 60; seed++) {
      const random = new Random(seed, "wrong reading")
      const leaveAfter = [30 * SECOND, 40 * MINUTE, 30 * DAY][seed % 3]
      const slack = (toleranceMilliseconds({ leaveAfter }) ?? 0) + 2 * SECOND
      const held = new Held({ leaveAfter })
      const [count, users] = [500, 60]
      const wrongAt = seed % 5 === 0 ? 0 : random.integer(count)
      const wrong = (random.next() < 0.5 ? 1 : -1) * MINUTE * Math.exp(random.next() * Math.log(5e6))
      const met = new Map<number, number>()
      let [time, corrected] = [START, 0]
      for (let n = 0; n < count; n++) {
        // Some users are about all the time, some for a while.
        const ids = Array.from({ length: random.integer(6) }, () =>
          random.next() < 0.3 ? random.integer(4) : Math.floor((n / count) * users) + random.integer(8),
        )
        time += (random.next() * leaveAfter) / 16
        for (const id of ids) met.set(id, time)
        const reading = n === wrongAt ? time + wrong : time
        const left = ids.length > 0 ? held.step(ids, reading) : held.tick(reading)
        if (seed % 4 === 0 && n % 10 === 0) held.reopen()
        const where = `seed ${seed}, step ${n}, wrong at ${wrongAt} by ${Math.round(wrong / MINUTE)} minutes`
        for (const id of left) {
          leaving++
          const idle = time - (met.get(id) ?? 0)
          if (idle < leaveAfter - slack) expect.fail(`${where}: ${id} left after ${idle} of ${leaveAfter} ms`)
          met.delete(id)
        }
        // A first reading that is wrong is believed until 100 events or 8 ticks agree; who came until then came just then.
        if (wrongAt === 0 && n <= 60) corrected = time
        for (const [id, event] of met) {
          const last = Math.max(event, corrected)
          if (time - last > leaveAfter + slack) expect.fail(`${where}: ${id} is still here after ${time - last} ms`)
        }
      }
    }
    expect(leaving).toBeGreaterThan(1000)
  })

  test("that is the first ever does not keep ids for longer, nor let them leave, once the clock is right", () => {
    for (const wrong of [120 * DAY, -START, 50 * 365 * DAY]) {
      const held = new Held({ leaveAfter: 10 * DAY })
      expect(held.step([1, 2, 3], START + wrong)).toEqual([])
      for (let n = 0; n < 110; n++) expect(held.step([2], START + n * MINUTE), `step ${n}`).toEqual([])
      for (let day = 1; day < 10; day++) expect(held.step([2], START + day * DAY), `day ${day}`).toEqual([])
      const left = [10, 11, 12].flatMap((day) => held.step([2], START + day * DAY))
      expect(left).toEqual([1, 3])
    }
  })
})

describe("a pause longer than the limit", () => {
  test("is accepted after 100 events: ids that came back stay, the others leave", () => {
    const held = new Held({ leaveAfter: 90 * DAY })
    for (let n = 0; n < 3; n++) held.step([1, 2, 3, 4], START + n * MINUTE)
    const back = START + 120 * DAY
    for (let n = 0; n < 99; n++) {
      expect(held.step([n === 5 ? 2 : 10], back + n * MINUTE)).toEqual([])
      if (n % 7 === 0) held.reopen()
    }
    expect(held.step([10], back + 99 * MINUTE)).toEqual([1, 3, 4])
    expect(held.tables.user.count).toBe(2)
  })

  test("of a state without a clock is not believed at once either", () => {
    const held = new Held({ leaveAfter: 90 * DAY })
    for (let n = 0; n < 3; n++) held.step([1, 2, 3], START + n)
    held.reopen((state) => {
      for (const name of [...state.values.keys()]) if (!name.startsWith("cursor.")) state.values.delete(name)
    })
    expect(held.step([1], START + 120 * DAY)).toEqual([])
    expect(held.step([1], START + MINUTE)).toEqual([])
    expect(held.tables.user.count).toBe(3)
  })
})

describe("advancing time", () => {
  test.each(LEARNERS)("changes nothing where there are no idle limits ($recipe, $task)", (options) => {
    for (const limits of [undefined, { bytes: 2_000_000 }]) {
      const [run, ticked] = [open(options, limits), open(options, limits)]
      for (let n = 0; n < 6; n++) {
        for (const one of [run, ticked]) one.step(at([...rowsOf(n)], n, START + n * MINUTE))
        ticked.advanceTime(START + n * MINUTE + 400 * DAY)
        expect(ticked.left).toEqual({ user: [], item: [] })
      }
      expect(hashOf(ticked)).toBe(hashOf(run))
      run.close()
      ticked.close()
    }
  })

  test.each(LEARNERS)(
    "gives the same state to the bit when saved and loaded in between ($recipe, $task)",
    (options) => {
      const limits = { shrinkAfter: 4 * MINUTE, leaveAfter: 10 * MINUTE }
      const run = open(options, limits)
      let other = open(options, limits)
      const random = new Random(1, "ticks")
      let time = START
      const gone: Record<Side, number> = { user: 0, item: 0 }
      for (let n = 0; n < 60; n++) {
        time += MINUTE * random.next()
        const reading = random.next() < 0.1 ? time + DAY : time
        const rows: Row[] = Array.from({ length: 1 + random.integer(40) }, (): Row => {
          return [n + random.integer(5), n + random.integer(5), 1 + random.integer(5)]
        })
        for (const one of [run, other])
          if (n % 3 === 0) one.advanceTime(reading)
          else one.step(at(rows, n, reading))
        expect([other.left, other.shrunk]).toEqual([run.left, run.shrunk])
        for (const side of ["user", "item"] as const) gone[side] += run.left[side].length
        const state = new State()
        other.save(state)
        const next = open(options, limits)
        next.load(copyState(state))
        other.close()
        other = next
        expect(hashOf(other), `step ${n}`).toBe(hashOf(run))
      }
      expect(Math.min(gone.user, gone.item)).toBeGreaterThan(10)
      run.close()
      other.close()
    },
  )
})

describe("what is kept of an id", () => {
  const bytesOf = (limits: Limits) => {
    const idle = new Idle()
    idle.keep(limits, { milliseconds: START, here: () => [] })
    idle.meet("user", [999], { milliseconds: START, segment: 1 })
    return idle.bytes / 1000
  }

  test("is what the limits ask for: nothing without any", () => {
    expect(bytesOf({})).toBe(0)
    expect(bytesOf({ bytes: 1e6 })).toBe(4)
    expect(bytesOf({ leaveAfter: DAY })).toBe(8)
    expect(bytesOf({ leaveAfter: DAY, shrinkAfter: DAY, bytes: 1e6 })).toBe(12)
  })

  test("is assumed for ids that are here when limits are set: they leave as if met then, also if the clock was wrong", () => {
    for (const wrong of [0, -200 * DAY, 200 * DAY])
      for (const before of [{}, { bytes: 5_000_000 }]) {
        const held = new Held(before)
        for (let n = 0; n < 3; n++) held.step([1, 2, 3], START + n * MINUTE)
        held.limit({ ...before, shrinkAfter: 10 * DAY, leaveAfter: 40 * DAY })
        held.reopen()
        expect(held.step([2], START + DAY + wrong)).toEqual([])
        for (let n = 0; n < 110; n++) expect(held.step([2], START + DAY + n * MINUTE), `${wrong}, ${n}`).toEqual([])
        for (let day = 2; day < 41; day++) expect(held.step([2], START + day * DAY), `${wrong}, ${day}`).toEqual([])
        expect([41, 42, 43, 44].flatMap((day) => held.step([2], START + day * DAY))).toEqual([1, 3])
      }
  })

  test("is dropped with the limits", () => {
    const held = new Held({ leaveAfter: DAY })
    held.step([1, 2, 3], START)
    held.limit({})
    for (let n = 0; n < 4; n++) expect(held.step([1], START + n * 100 * DAY)).toEqual([])
    expect(held.tables.user.count).toBe(3)
    const state = new State()
    held.limiter.save(state)
    expect([...state.arrays.keys()]).toEqual([])
  })
})

test("the ids met longest ago are those a full sort finds, ties in order of their numbers, users first", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed, "longest")
    const idle = new Idle()
    idle.keep({ bytes: 1 }, { milliseconds: START, here: () => [] })
    const met = new Map<string, { side: Side; id: number; segment: number }>()
    const top = [6, 400, 200_000, 4_000_000_000][seed % 4]
    for (let n = 0; n < 200; n++) {
      const [side, id, segment] = [
        random.next() < 0.5 ? "user" : "item",
        random.integer(80),
        random.integer(top),
      ] as const
      idle.meet(side, [id], { milliseconds: START, segment })
      met.set(`${side} ${id}`, { side, id, segment })
    }
    for (const count of [1, 7, 64, 1000]) {
      const before = 1 + random.integer(top)
      const sorted = [...met.values()]
        .filter(({ segment }) => segment < before)
        .sort((a, b) => a.segment - b.segment || (a.side === b.side ? a.id - b.id : a.side === "user" ? -1 : 1))
        .slice(0, count)
      const of = (side: Side) => sorted.flatMap((one) => (one.side === side ? [one.id] : [])).sort((a, b) => a - b)
      expect(idle.longest(count, before), `seed ${seed}`).toEqual({ user: of("user"), item: of("item") })
    }
  }
})
