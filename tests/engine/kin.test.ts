/** What newcomers are drawn to, against the formula worked out again. */

import { expect, test } from "vitest"
import { Catalogue } from "../../src/engine/catalogue.ts"
import { drawToKin } from "../../src/engine/newcomers.ts"
import { Random } from "../../src/kernels/random.ts"

const ITEMS = 40

/** What is put of an item, and its groups. */
function draw(random: Random) {
  const categories = ["c0", "c1", "c2"].filter(() => random.next() < 0.3)
  const brand = random.integer(4)
  const tags = ["t0", "t1", "t2"].filter(() => random.next() < 0.3)
  const properties = { ...(brand > 0 ? { brand: `b${brand}` } : {}), tags, price: random.integer(9) }
  const groups = [...categories, ...(brand > 0 ? [`b${brand}`] : []), ...tags]
  return { stored: { categories, hidden: false, features: null, properties }, groups }
}

/** The values of newcomers as the formula has them; NaN for those without a value. */
function expected(groups: Map<number, string[]>, values: Float32Array, events: number[]): Map<number, number> {
  const count = (item: number) => (Number.isNaN(values[item]) ? 0 : events[item] / (events[item] + 20))
  const found = new Map<number, number>()
  for (const [item, own] of groups) {
    if (events[item] >= 20) continue
    let [sum, total] = [0, 0]
    for (const group of own) {
      const others = [...groups].filter(([other, all]) => other !== item && all.includes(group)).map(([other]) => other)
      const weight = others.reduce((all, other) => all + count(other), 0)
      if (weight < 1e-6) continue
      const mean =
        others.reduce((all, other) => all + (count(other) > 0 ? count(other) * values[other] : 0), 0) / weight
      sum += mean / others.length
      total += 1 / others.length
    }
    if (total === 0) continue
    const [mean, n] = [sum / total, Number.isNaN(values[item]) ? 0 : events[item]]
    found.set(item, n === 0 ? mean : Math.max(values[item], (n * values[item] + 5 * mean) / (n + 5)))
  }
  return found
}

test("newcomers stand where the formula puts them, whatever is put, changed, met and taken away in between", () => {
  for (let seed = 1; seed <= 5; seed++) {
    const random = new Random(seed, "kin")
    const catalogue = new Catalogue(0)
    const groups = new Map<number, string[]>()
    const events = new Array<number>(ITEMS).fill(0)
    for (let round = 0; round < 60; round++) {
      for (let n = random.integer(6); n >= 0; n--) {
        const item = random.integer(ITEMS)
        const what = random.next()
        if (what < 0.5) {
          const { stored, groups: own } = draw(random)
          catalogue.put(item, stored)
          groups.set(item, own)
        } else if (what < 0.6) {
          catalogue.put(item, null)
          groups.delete(item)
        } else {
          events[item] += random.integer(9)
          catalogue.setItem(item, { events: events[item], trend: 0 })
        }
      }
      // Of some the model has no row.
      const scored = Int32Array.from({ length: ITEMS - 4 }, (_, item) => item)
      const values = Float32Array.from(scored, () => (random.next() < 0.1 ? Number.NaN : random.normal()))
      const all = Float32Array.from({ length: ITEMS }, (_, item) => values[item] ?? Number.NaN)
      const drawn = drawToKin({ items: scored, values }, catalogue)
      const formula = expected(groups, all, events)
      const places = new Map(Array.from(drawn.items, (item, i) => [item, i]))
      for (let item = 0; item < ITEMS; item++) {
        const place = places.get(item)
        const got = place === undefined ? Number.NaN : drawn.values[place]
        const right = formula.get(item) ?? all[item]
        const where = `seed ${seed}, round ${round}, item ${item}`
        if (Number.isNaN(right)) expect(got, where).toBeNaN()
        else expect(got, where).toBeCloseTo(right, 4)
      }
    }
  }
})
