/** The stream's own clock: what it believes of readings that may be wrong. */

import { describe, expect, test } from "vitest"
import { tickMilliseconds, toleranceMilliseconds } from "../../src/ids/idle.ts"
import { StreamClock } from "../../src/ids/stream-clock.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const START = 1_700_000_000_000

interface Reading {
  time: number
  events: number
}

/** The clock of a leave limit, and its tolerance. */
function clockOf(leaveAfter: number): { clock: StreamClock; tolerance: number } {
  const tolerance = toleranceMilliseconds({ leaveAfter }) ?? 0
  return { clock: new StreamClock(tolerance), tolerance }
}

/** The largest distance from the truth after each reading, behind and ahead, in milliseconds. */
function worst(clock: StreamClock, readings: Iterable<Reading>): { behind: number; ahead: number } {
  let [behind, ahead] = [0, 0]
  for (const { time, events } of readings) {
    const believed = clock.read(time, events)
    behind = Math.max(behind, time - believed)
    ahead = Math.max(ahead, believed - time)
  }
  return { behind, ahead }
}

/** Exponentially distributed, with a mean of 1. */
const waiting = (random: Random) => -Math.log(1 - random.next())

describe("the stream's clock", () => {
  test("believes a step of up to a quarter of the shortest limit at once, forward and back", () => {
    const { clock, tolerance } = clockOf(8 * DAY)
    expect(tolerance).toBe(2 * DAY)
    expect([START, START + 2 * DAY, START + DAY, START - DAY].map((time) => clock.read(time, 1))).toEqual([
      ...[START, START + 2 * DAY, START + DAY, START - DAY],
    ])
    expect(clock.read(START + 3 * DAY + 1, 1)).toBe(START - DAY)
    expect(clock.doubtful).toBe(true)
    expect(clock.read(START, 1)).toBe(START)
    expect(clock.doubtful).toBe(false)
  })

  test("stands still while a jump is not believed, and believes it after 100 events", () => {
    const { clock } = clockOf(90 * DAY)
    for (let n = 0; n < 20; n++) clock.read(START + n * MINUTE, 1)
    const before = START + 19 * MINUTE
    for (let n = 0; n < 99; n++) expect(clock.read(before + 120 * DAY + n * MINUTE, 1)).toBe(before)
    expect(clock.read(before + 120 * DAY + 99 * MINUTE, 1)).toBe(before + 120 * DAY + 99 * MINUTE)
    expect([clock.jumped, clock.doubtful]).toEqual([true, false])
  })

  test("believes a jump after eight readings without events", () => {
    const { clock } = clockOf(90 * DAY)
    for (let n = 0; n < 3; n++) clock.read(START + n * HOUR, 0)
    for (let n = 0; n < 7; n++) expect(clock.read(START + 120 * DAY + n * HOUR, 0)).toBe(START + 2 * HOUR)
    expect(clock.read(START + 120 * DAY + 7 * HOUR, 0)).toBe(START + 120 * DAY + 7 * HOUR)
  })

  test("takes back a small step behind, also where the next reading is further from it than the tolerance", () => {
    const { clock } = clockOf(8 * DAY)
    const readings = [START, START + DAY, START - 0.9 * DAY, START + 2 * DAY]
    expect(readings.map((time) => clock.read(time, 1))).toEqual(readings)
  })

  test("does not believe one reading, or two, however many events came with them", () => {
    const { clock } = clockOf(3 * SECOND)
    clock.read(START, 500)
    expect(clock.read(START + 120 * DAY, 1_000_000)).toBe(START)
    expect(clock.read(START + 120 * DAY, 1_000_000)).toBe(START)
    expect(clock.read(START + SECOND, 500)).toBe(START + SECOND)
    expect(clock.doubtful).toBe(false)
  })

  test.each([
    ["ahead by 120 days", 120 * DAY],
    ["behind, at 1970", -START],
  ])("leaves a first reading that is %s once 100 events agree", (_, wrong) => {
    const { clock } = clockOf(90 * DAY)
    expect(clock.read(START + wrong, 1)).toBe(START + wrong)
    expect(clock.doubtful, "one reading is no agreement").toBe(true)
    for (let n = 0; n < 99; n++) expect(clock.read(START + n * MINUTE, 1)).toBe(START + wrong)
    expect(clock.read(START + 99 * MINUTE, 1)).toBe(START + 99 * MINUTE)
  })

  test("saved and loaded after any reading, believes the same of all that follow", () => {
    for (let seed = 1; seed <= 30; seed++) {
      const random = new Random(seed, "saved clock")
      let { clock } = clockOf(DAY)
      const { clock: other } = clockOf(DAY)
      let truth = START
      for (let n = 0; n < 400; n++) {
        truth += waiting(random) * (random.next() < 0.02 ? 30 * DAY : HOUR)
        const time = random.next() < 0.05 ? truth + (random.next() - 0.5) * 400 * DAY : truth
        const events = random.integer(20)
        if (clock.read(time, events) !== other.read(time, events)) expect.fail(`seed ${seed}, reading ${n}`)
        const state = new State()
        clock.save(state)
        clock = clockOf(DAY).clock
        clock.load(state)
        expect([clock.time, clock.doubtful]).toEqual([other.time, other.doubtful])
      }
    }
  })
})

describe("one wrong reading", () => {
  test("anywhere in a stream with pauses never moves the clock further than the tolerance from what was read", () => {
    let ends = 0
    for (let seed = 1; seed <= 400; seed++) {
      const random = new Random(seed, "one wrong reading")
      const leaveAfter = [30 * SECOND, HOUR, DAY, 90 * DAY][seed % 4]
      const { clock, tolerance } = clockOf(leaveAfter)
      const count = 300
      const wrongAt = random.integer(count)
      // Minutes to years, evenly on a scale of logarithms.
      const wrong = (random.next() < 0.5 ? 1 : -1) * MINUTE * Math.exp(random.next() * Math.log(5e6))
      let truth = START
      let corrected = wrongAt !== 0
      const right: number[] = []
      for (let n = 0; n < count; n++) {
        const pause = random.next() < 0.01
        truth += waiting(random) * (pause ? 2 * leaveAfter : tolerance / 8)
        if (n !== wrongAt) right.push(truth)
        const events = random.next() < 0.2 ? 0 : 1 + random.integer(300)
        const time = clock.read(n === wrongAt ? truth + wrong : truth, events)
        const near = right.some((reading) => Math.abs(reading - time) <= tolerance)
        // A wrong first reading is all there is to believe, until others agree.
        if (near) corrected = true
        else if (corrected) expect.fail(`seed ${seed}, reading ${n}, wrong at ${wrongAt} by ${wrong}: ${time - truth}`)
      }
      if (clock.doubtful) continue
      ends++
      const distance = Math.abs((clock.time ?? 0) - truth)
      expect(distance, `seed ${seed}: the last reading is believed`).toBeLessThanOrEqual(tolerance)
    }
    expect(ends, "streams that did not end in a pause").toBeGreaterThan(350)
  })
})

describe("how far the clock is behind", () => {
  test("a fast stream, 40 segments of 500 a second with a limit of 3 s: never", () => {
    const { clock } = clockOf(3 * SECOND)
    const readings = Array.from({ length: 20_000 }, (_, n) => ({ time: START + 25 * n, events: 500 }))
    expect(worst(clock, readings)).toEqual({ behind: 0, ahead: 0 })
  })

  test("a slow one, 10 events a day with a limit of 90 days: never, with ticks or without", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed, "slow stream")
      let time = START
      const readings = Array.from({ length: 5000 }, () => {
        time += 0.1 * DAY * waiting(random)
        return { time, events: 1 }
      })
      expect(worst(clockOf(90 * DAY).clock, readings), `seed ${seed}`).toEqual({ behind: 0, ahead: 0 })
    }
  })

  test("a slow one whose gaps are longer than the tolerance: 100 gaps without ticks, never with them", () => {
    const limit = HOUR
    const tick = tickMilliseconds({ leaveAfter: limit }) ?? 0
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed, "long gaps")
      let time = START
      const gap = 30 * MINUTE
      const events = Array.from({ length: 1000 }, () => {
        time += gap * (0.5 + random.next())
        return { time, events: 1 }
      })
      const { behind, ahead } = worst(clockOf(limit).clock, events)
      expect(behind / gap, `seed ${seed}, without ticks, in gaps`).toBeLessThan(110)
      expect(ahead, `seed ${seed}, without ticks`).toBe(0)
      const both = [...events]
      for (let at = START; at < time; at += tick) both.push({ time: at, events: 0 })
      both.sort((a, b) => a.time - b.time)
      expect(worst(clockOf(limit).clock, both), `seed ${seed}, with ticks`).toEqual({ behind: 0, ahead: 0 })
    }
  })

  test("bursts with pauses longer than the limit: 100 events after each pause, or 8 ticks, half of the limit", () => {
    const limit = DAY
    const tick = tickMilliseconds({ leaveAfter: limit }) ?? 0
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed, "bursts")
      let time = START
      for (const ticks of [false, true]) {
        const { clock, tolerance } = clockOf(limit)
        for (let n = 0; n < 2; n++) clock.read(time, 1)
        for (let burst = 0; burst < 20; burst++) {
          // The process is away.
          time += tolerance + (1 + 100 * random.next()) * limit
          const before = clock.time
          let [events, empty] = [0, 0]
          for (let n = 0; n < 200; n++) {
            const length = ticks ? random.integer(2) : 1 + random.integer(5)
            const believed = clock.read(time, length)
            events += length
            empty += length === 0 ? 1 : 0
            const wanted = events >= 100 || empty >= 8 ? time : before
            if (believed !== wanted)
              expect.fail(`seed ${seed}, burst ${burst}, reading ${n}: ${believed} instead of ${wanted}`)
            time += ticks ? tick * random.next() : SECOND
          }
        }
      }
    }
  })
})

test("ticks come at a sixteenth of the shortest limit, at least every hour, at most every second", () => {
  expect(tickMilliseconds({})).toBeUndefined()
  expect(tickMilliseconds({ bytes: 1e6 })).toBeUndefined()
  expect(tickMilliseconds({ leaveAfter: 2000 })).toBe(1000)
  expect(tickMilliseconds({ leaveAfter: 160 * SECOND, shrinkAfter: 32 * SECOND })).toBe(2000)
  expect(tickMilliseconds({ leaveAfter: 90 * DAY })).toBe(HOUR)
})
