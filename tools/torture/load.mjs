/** The load on a target, which is a recommender or a service: events, snapshots, erasures, wrong clocks. */

import { Random } from "../../dist/kernels/random.js"
import { Faults } from "../faults/faults.mjs"
import { CASES, EPOCH, event, numberOf, until, wait } from "./cases.mjs"
import { shop } from "./shop.mjs"

const DAY = 86_400_000
/** Milliseconds in which everything must be well again once the disk is. */
const RECOVERY = 30_000
/** Events of one kill after which they come more slowly. */
const ENOUGH = 1500
const REFUSALS = new Set(["CLOSED", "UNAVAILABLE", "BUSY", 503, 429])

/** Whether an error says that it is to be tried again. */
export function isRefusal({ code, message }) {
  return REFUSALS.has(code) && !/training stopped|it was closed/.test(message)
}

/**
 * Observes, takes snapshots, erases; tells what was acknowledged. What is refused is sent again as it was, where faults
 * are expected. Ends with the target, or when it is told to: `stop.now`.
 */
export async function load(target, { name, from, seed, isFaulty, stop = {} }, tell) {
  const { ids, forgets = false, jumps = false, shops = false } = CASES[name]
  const random = new Random(seed, "torture load")
  const pick = (word) => `${word} ${random.integer(ids)}`
  let next = from
  let ghosts = 0
  const someEvents = (count) =>
    Array.from({ length: count }, () => event(next++, pick("user"), pick("item"), 1 + random.integer(5)))
  /** Until it is taken; undefined when it is to stop before. */
  const patiently = async (action) => {
    const refusals = []
    while (!stop.now) {
      try {
        return { result: await action(), refusals }
      } catch (error) {
        if (!isFaulty || !isRefusal(error)) throw error
        refusals.push(error.code)
        tell({ refused: 1 })
        await wait(10 + random.integer(60))
      }
    }
    return undefined
  }
  const observe = async (events) => {
    const done = await patiently(() => target.observe(events))
    if (!done) return
    const { accepted, duplicates } = done.result
    if (accepted + duplicates !== events.length) throw new Error(`of ${events.length} events ${accepted} were accepted`)
    if (duplicates > 0 && done.refusals.every((code) => code === "CLOSED"))
      throw new Error(`${duplicates} events were taken and ${done.refusals.length === 0 ? "not told" : "refused"}`)
    tell({ acknowledged: events.map(numberOf) })
  }
  const observing = async () => {
    while (!stop.now) {
      await observe(someEvents(1 + random.integer(40)))
      // Erasing waits for what was accepted before it; let it get there. And all of it is to be learned again by who checks.
      if (forgets || next - from > ENOUGH) await wait(20)
    }
  }
  const others = async () => {
    while (!stop.now) {
      await wait(random.integer(forgets ? 40 : 120))
      if (!forgets || random.next() < 0.25) await patiently(() => target.snapshot())
      else await erase()
    }
  }
  const erase = async () => {
    const user = `ghost-${seed}-${ghosts++}!`
    if (!(await patiently(() => target.observe([{ user, item: pick("item"), timestamp: EPOCH - 1 }])))) return
    if (!(await patiently(() => target.note(user)))) return
    const done = await patiently(() => target.forget(user))
    if (done?.result.status === "done") tell({ forgotten: user })
    else if (done?.result.status === "pending") tell({ pending: user })
    else if (done) throw new Error(`erasing said ${JSON.stringify(done.result)}`)
  }
  /** The clock is wrong for one reading, or two where the batch ends two segments. */
  const jumping = async () => {
    const clock = Faults.own()
    while (clock && !stop.now) {
      await wait(20 + random.integer(100))
      const events = someEvents(50)
      clock.setClock((random.next() < 0.5 ? -1 : 1) * (DAY + random.integer(9 * DAY)))
      const answer = target.observe(events).then(
        () => tell({ acknowledged: events.map(numberOf) }),
        (error) => {
          if (!isFaulty || !isRefusal(error)) throw error
          return observe(events)
        },
      )
      for (let turn = 0; turn < 5; turn++) await null
      clock.setClock(0)
      await answer
    }
  }
  const nextNumber = () => next++
  const shopping = () => shop(target, { random, stop, nextNumber, patiently, observe, tell })
  await Promise.all([observing(), observing(), others(), jumps && jumping(), shops && shopping()])
}

/** After the faults: writing goes on, and nothing is left to be erased. What is wrong, or undefined. */
export async function settle(target) {
  let last
  const isWell = async () => {
    try {
      last = await target.status()
      return last.state === "learning" && last.erasures.pending === 0
    } catch (error) {
      if (!isRefusal(error)) throw error
      last = error
      return false
    }
  }
  if (!(await until(isWell, RECOVERY)))
    return `after the faults: expected it to go on, got ${last instanceof Error ? last.message : JSON.stringify({ state: last.state, reason: last.reason, erasures: last.erasures })}`
  await target.observe([{ user: "user 1", item: "item 1", timestamp: EPOCH - 1 }])
  return undefined
}
