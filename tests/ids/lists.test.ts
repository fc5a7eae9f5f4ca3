import { expect, it } from "vitest"
import { Lists } from "../../src/ids/lists.ts"
import { Random } from "../../src/kernels/random.ts"

it("lists keep what was appended and removed, for many ids at once", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const random = new Random(seed, "lists")
    const lists = new Lists()
    const want = new Map<number, number[]>()
    for (let step = 0; step < 3000; step++) {
      const id = Math.floor(400 * random.next() ** 3)
      const list = want.get(id) ?? []
      want.set(id, list)
      if (list.length > 0 && random.next() < 0.3) {
        const position = random.integer(list.length)
        list.splice(position, 1)
        lists.remove(id, position)
      } else {
        list.push(step)
        lists.append(id, step)
      }
    }
    for (const [id, list] of want) {
      const start = lists.start[id]
      expect([...lists.cells.subarray(start, start + lists.count(id))], `seed ${seed}, id ${id}`).toEqual(list)
    }
    expect(lists.count(100_000)).toBe(0)
    expect(lists.bytes).toBeGreaterThan(0)
  }
})

it("lists reuse the chunks they have outgrown", () => {
  const lists = new Lists()
  for (let k = 0; k < 512; k++) lists.append(0, k)
  // The outgrown chunks hold the shorter lists of the other ids, the longest first.
  const cells = lists.cells.length
  for (let id = 6; id >= 1; id--) for (let k = 0; k < 2 ** (id + 2); k++) lists.append(id, k)
  expect(lists.cells.length).toBe(cells)
})
