/** How often ids are met, kept in float32. */

import { expect, test } from "vitest"
import { Activity } from "../../src/ids/activity.ts"
import { exp } from "../../src/kernels/math.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"

test("after ten thousand turns a pause is known to a thousandth of one", () => {
  const random = new Random(1, "pauses")
  const activity = new Activity()
  for (let id = 0; id < 2000; id++) {
    const time = 10_000 * random.next()
    const pause = 20 * random.next()
    activity.meet("user", id, time)
    const idle = activity.idle("user", id, time + pause)
    expect(Math.abs(idle - pause), `id ${id}`).toBeLessThanOrEqual(1 / 1024)
  }
})

test("events one by one, a five-hundredth of a turn apart, give the rate of float64 to 0.1 %, ten thousand turns on", () => {
  for (const start of [0.002, 1000, 10_000]) {
    const activity = new Activity()
    const random = new Random(2, "events")
    let [count, last, time] = [0, 0, start]
    for (let n = 0; n < 20_000; n++) {
      time += 0.002 * random.integer(3)
      count = count * exp((-Math.LN2 * (time - last)) / 5) + 1
      last = time
      activity.meet("item", 3, time)
    }
    expect(Math.abs(activity.rate("item", 3, time) / ((count * Math.LN2) / 5) - 1), `from ${start}`).toBeLessThan(1e-3)
  }
})

test("takes 8 bytes an id, whatever was forgotten, and is saved and loaded", () => {
  const activity = new Activity()
  for (let id = 0; id < 1000; id++) activity.meet("user", id, 1 + id / 500)
  activity.meet("item", 9, 3)
  expect(activity.bytes).toBe(8 * 1010)
  activity.forget("user", [5])
  expect(activity.of("user", 5)).toEqual({ count: 0, last: 0 })
  const state = new State()
  activity.save(state)
  const other = new Activity()
  other.load(state)
  for (const id of [0, 5, 999, 5000]) expect(other.of("user", id)).toEqual(activity.of("user", id))
  expect([other.of("item", 9), other.bytes]).toEqual([{ count: 1, last: 3 }, activity.bytes])
})
