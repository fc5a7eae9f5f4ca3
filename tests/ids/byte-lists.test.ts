import { expect, it } from "vitest"
import { ByteLists } from "../../src/ids/byte-lists.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { copyState } from "../support/states.ts"

/** Of any length in bytes: about as many small ones as large ones. */
const randomNumber = (random: Random) => Math.floor(2 ** (31 * random.next())) - 1

function loaded(lists: ByteLists): ByteLists {
  const state = new State()
  lists.save(state)
  const again = new ByteLists()
  again.load(copyState(state))
  return again
}

it("lists of bytes keep what was appended, set and removed, in order, for many ids at once", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = new Random(seed, "byte lists")
    let lists = new ByteLists()
    const want = new Map<number, number[]>()
    for (let step = 0; step < 6000; step++) {
      const id = Math.floor(400 * random.next() ** 3)
      const list = want.get(id) ?? []
      want.set(id, list)
      const what = random.next()
      const value = randomNumber(random)
      if (what < 0.6) {
        list.push(value)
        lists.append(id, value)
      } else if (what < 0.8 && list.length > 0) {
        const [gone] = list.splice(list.indexOf(list[random.integer(list.length)]), 1)
        lists.remove(id, gone)
      } else if (what < 0.85) {
        list.shift()
        lists.removeFirst(id)
      } else if (what < 0.87) {
        const values = Array.from({ length: random.integer(30) }, () => randomNumber(random))
        want.set(id, values)
        lists.set(id, values)
      } else if (what < 0.88) {
        want.set(id, [])
        lists.clear(id)
      } else {
        expect(lists.has(id, value), `seed ${seed}, step ${step}`).toBe(list.includes(value))
      }
      if (step === 3000) lists = loaded(lists)
    }
    for (const [id, list] of want) {
      const where = `seed ${seed}, id ${id}`
      expect([...lists.of(id)], where).toEqual(list)
      expect(lists.count(id), where).toBe(list.length)
      for (const value of list) expect(lists.has(id, value), where).toBe(true)
    }
    expect([lists.count(100_000), lists.has(100_000, 0), [...lists.of(100_000)]]).toEqual([0, false, []])
  }
})

it("lists of bytes take bytes that follow from what is in them alone, and hold at most a quarter more", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const random = new Random(seed, "byte lists held")
    const lists = new ByteLists()
    for (let step = 0; step < 60_000; step++) {
      const id = random.integer(3000)
      const what = random.next()
      if (what < 0.9) lists.append(id, random.integer(100_000))
      else if (what < 0.99) lists.removeFirst(id)
      else lists.clear(id)
      if (step % 500 > 0) continue
      expect(lists.heldBytes, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(1.25 * lists.bytes + 8192)
    }
    const inOrder = new ByteLists()
    for (let id = lists.reach - 1; id >= 0; id--) inOrder.set(id, lists.of(id))
    expect([loaded(lists).bytes, inOrder.bytes], `seed ${seed}`).toEqual([lists.bytes, lists.bytes])
    for (let id = 0; id < lists.reach; id++) lists.clear(id)
    expect(lists.heldBytes, "all are gone").toBeLessThan(5 * lists.reach + 8192)
  }
})
