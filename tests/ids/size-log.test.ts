/** The size log against a plain list of the last ten changes. */

import { expect, test } from "vitest"
import { REASONS, type SizeChange, SizeLog } from "../../src/ids/size-log.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import type { Side } from "../../src/types.ts"

/** A number that 21 bits hold. */
const score = (random: Random) => Math.round(512 * random.normal()) / 512

const DECIDED = ["grown", "explored", "released"]
const START = 1_700_000_000_000

test("gives the last ten changes of every id, of a segment's decisions the last, as they were added, forgotten, saved and loaded", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = new Random(seed, "size log")
    let log = new SizeLog()
    const want = new Map<string, SizeChange[]>()
    let [segment, time] = [0, 0]
    for (let n = 0; n < 600; n++) {
      if (random.next() < 0.2) {
        segment += 1 + random.integer(3)
        time = random.next() < 0.05 ? 0 : START + 1000 * random.integer(4e9 / 3)
      }
      // Time may pass within a segment.
      if (random.next() < 0.05) time += 60_000
      const side: Side = random.next() < 0.5 ? "user" : "item"
      const id = random.integer(12)
      const key = `${side} ${id}`
      if (random.next() < 0.03) {
        log.forget(side, [id])
        want.delete(key)
      }
      const changes = want.get(key) ?? []
      want.set(key, changes)
      const first = changes.length === 0 && random.next() < 0.9
      const change: SizeChange = {
        segment,
        time,
        step: random.integer(seed % 5 === 0 ? 200 : 7),
        why: first ? "met" : REASONS[random.integer(REASONS.length)],
      }
      if (!first && random.next() < 0.5) change.scores = { keep: score(random), grow: score(random), estimate: -0.5 }
      log.add(side, id, change)
      // Of several decisions of one segment the last is kept.
      const last = changes.at(-1)
      if (last?.segment === segment && DECIDED.includes(last.why) && DECIDED.includes(change.why)) changes.pop()
      changes.push(change)
      if (changes.length > 10) changes.shift()
      if (n % 200 === 199) {
        const state = new State()
        log.save(state)
        log = new SizeLog()
        log.load(state)
      }
      expect(log.of(side, id), `seed ${seed}, step ${n}`).toEqual(changes)
    }
    for (const side of ["user", "item"] as const)
      for (let id = 0; id < 14; id++) expect(log.of(side, id)).toEqual(want.get(`${side} ${id}`) ?? [])
  }
})

test("an id that was met and never changed takes 4 bytes, a segment 4", () => {
  const log = new SizeLog()
  const change = { time: START, step: 1, why: "met" } as const
  for (let id = 0; id < 1000; id++) log.add("user", id, { ...change, segment: 1 + Math.floor(id / 100) })
  expect(log.bytes).toBe(4 * 1000 + 4 * 11)
  log.add("user", 0, { segment: 10, time: START, step: 2, why: "grown", scores: { keep: 1, grow: 2, estimate: 3 } })
  expect(log.of("user", 0)).toHaveLength(2)
})
