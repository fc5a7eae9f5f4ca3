import { expect, test } from "vitest"
import { best } from "../../src/engine/best.ts"
import { Random } from "../../src/kernels/random.ts"

test("the best are those a full sort puts first, whatever is left out; of equals those with the smaller tie", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed, "best")
    const length = random.integer(400)
    // Few different values: many are equal. Some are −∞ or none at all.
    const draw = () => [Number.NEGATIVE_INFINITY, Number.NaN][random.integer(20)] ?? random.integer(30) - 15
    const drawn = Array.from({ length }, draw)
    const values = seed % 2 === 0 ? Float32Array.from(drawn) : Float64Array.from(drawn)
    const out = new Set(Array.from({ length: random.integer(60) }, () => random.integer(400)))
    const isOut = (place: number) => out.has(place)
    for (const count of [1, 10, 128, 129, 300]) {
      const all = Array.from(values, (_, place) => place)
      const fit = all.filter((place) => !isOut(place) && values[place] > Number.NEGATIVE_INFINITY)
      const sorted = fit.sort((a, b) => values[b] - values[a] || a - b)
      expect(best(values, count, { isOut }), `seed ${seed}, ${count}`).toEqual(sorted.slice(0, count))
      const tie = (place: number) => (place * 7919) % 401
      const maxima = maximaOf(values)
      expect(best(values, count, { isOut, maxima }), `seed ${seed}, ${count}, maxima`).toEqual(sorted.slice(0, count))
      const tied = fit.sort((a, b) => values[b] - values[a] || tie(a) - tie(b)).slice(0, count)
      expect(best(values, count, { isOut, tie }), `seed ${seed}, ${count}, ties`).toEqual(tied)
      expect(best(values, count, { isOut, tie, maxima }), `seed ${seed}, ${count}, ties, maxima`).toEqual(tied)
    }
  }
})

/** The largest of every 16. */
function maximaOf(values: Float32Array | Float64Array): Float32Array {
  return Float32Array.from({ length: Math.ceil(values.length / 16) }, (_, b) => {
    const numbers = Array.from(values.subarray(16 * b, 16 * b + 16)).filter((value) => !Number.isNaN(value))
    return Math.max(...numbers)
  })
}
