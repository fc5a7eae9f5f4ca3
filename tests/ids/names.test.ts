/** The slab of names against a plain map. */

import { execFileSync } from "node:child_process"
import { describe, expect, test } from "vitest"
import { hash, Names } from "../../src/ids/names.ts"
import { Random } from "../../src/kernels/random.ts"
import { State } from "../../src/kernels/state.ts"
import { buildCommand } from "../support/command.ts"
import { copyState } from "../support/states.ts"

/** What an index is called, which may be given out, last first, and how to take back what is not settled. */
class Model {
  names = new Map<number, string>()
  free: number[] = []
  count = 0
  undo: (() => void)[] = []

  add(name: string): number {
    const index = this.free.pop() ?? this.count
    const isNew = index === this.count
    this.count = Math.max(this.count, index + 1)
    this.names.set(index, name)
    this.undo.push(() => {
      this.names.delete(index)
      if (isNew) this.count--
      else this.free.push(index)
    })
    return index
  }

  remove(index: number): void {
    const before = this.names.get(index)
    if (before === undefined) return
    this.names.delete(index)
    this.undo.push(() => this.names.set(index, before))
  }

  rollback(): void {
    for (const back of this.undo.reverse()) back()
    this.undo = []
  }
}

const PIECES = ["a", "Ω", "漢字", "👩‍🚀", "\0", "é", "xyz ", "__proto__", "0"]

function randomName(random: Random): string {
  const length = random.integer(20) === 0 ? 512 : 1 + random.integer(8)
  let name = ""
  while (name.length < length) name += PIECES[random.integer(PIECES.length)]
  return Buffer.from(name.slice(0, 512)).toString()
}

function check(names: Names, model: Model, where: string): void {
  expect([names.size, names.count], where).toEqual([model.names.size, model.count])
  for (let index = 0; index < model.count + 2; index++) {
    const name = model.names.get(index)
    expect([names.name(index), names.has(index)], `${where}, index ${index}`).toEqual([name, name !== undefined])
    if (name !== undefined) expect(names.find(name), `${where}, index ${index}`).toBe(index)
  }
  const listed = [...model.names].sort(([a], [b]) => a - b).map(([, name]) => name)
  expect(names.list(0, 1e9), where).toEqual(listed)
  expect(names.list(3, 4), where).toEqual(listed.slice(3, 7))
}

function saved(names: Names): State {
  const state = new State()
  names.save(state)
  return copyState(state)
}

function loaded(state: State): Names {
  const names = new Names()
  names.load(state)
  return names
}

describe("a slab of names", () => {
  test("is a map from names to indices and back, whatever is done to it", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = new Random(seed, "names")
      let names = new Names()
      const model = new Model()
      const pick = () => random.integer(Math.max(1, model.count))
      for (let step = 0; step < 400; step++) {
        const where = `seed ${seed}, step ${step}`
        const what = random.integer(100)
        const name = randomName(random)
        const known = names.find(name)
        if (what < 50 && known === undefined) expect(names.add(name), where).toBe(model.add(name))
        else if (what < 70) {
          const index = pick()
          names.remove(index)
          model.remove(index)
        } else if (what < 80) {
          const count = random.integer(model.undo.length + 1)
          names.settle(count)
          model.undo.splice(0, count)
        } else if (what < 85) {
          names.rollback()
          model.rollback()
        } else if (model.undo.length === 0) {
          // As in a replay: settled at once, and only where nothing is to be taken back.
          const index = pick()
          if (what < 90) {
            names.drop(index)
            model.names.delete(index)
          } else if (what < 95 && known === undefined) {
            names.set(index, name)
            model.names.set(index, name)
            model.free = model.free.filter((one) => one !== index)
            model.count = Math.max(model.count, index + 1)
            names = loaded(saved(names))
            names.recycleAll(new Set())
            model.free = []
          } else if (!model.names.has(index) && !model.free.includes(index) && index < model.count) {
            names.recycle(index)
            model.free.push(index)
            continue
          }
          names.recycleAll(new Set())
          model.free = []
          for (let free = model.count - 1; free >= 0; free--) if (!model.names.has(free)) model.free.push(free)
        }
        expect(names.unsettled, where).toBe(model.undo.length)
        if (step % 20 === 0) check(names, model, where)
      }
      names.rollback()
      model.rollback()
      check(names, model, `seed ${seed}, at the end`)
    }
  })

  test("saves what is settled, and nothing of what is not", () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = new Random(seed, "names saved")
      const names = new Names()
      const model = new Model()
      for (let step = 0; step < 60; step++) {
        const name = randomName(random)
        if (random.integer(3) > 0 && names.find(name) === undefined) {
          names.add(name)
          model.add(name)
        } else {
          const index = random.integer(Math.max(1, model.count))
          names.remove(index)
          model.remove(index)
        }
        const count = random.integer(4) === 0 ? random.integer(model.undo.length + 1) : 0
        names.settle(count)
        model.undo.splice(0, count)
      }
      const again = loaded(saved(names))
      model.rollback()
      check(again, model, `seed ${seed}`)
      expect(again.count, "an index that is not to be given out stays known").toBe(model.count)
      names.rollback()
      check(names, model, `seed ${seed}, after a rollback`)
    }
  })

  test("gives out an index that was taken back in the order it would have without", () => {
    const names = new Names()
    for (const name of ["a", "b", "c", "d"]) names.add(name)
    names.settle(4)
    for (const index of [1, 3]) {
      names.drop(index)
      names.recycle(index)
    }
    expect(["x", "y", "z"].map((name) => names.add(name))).toEqual([3, 1, 4])
    names.rollback()
    expect(["x", "y", "z"].map((name) => names.add(name))).toEqual([3, 1, 4])
  })

  test("never gives out an index that is kept back, even one it does not know", () => {
    const names = new Names()
    names.set(0, "a")
    names.set(2, "c")
    names.recycleAll(new Set([1, 3]))
    expect(["x", "y"].map((name) => names.add(name))).toEqual([4, 5])
  })

  test("holds a name of 512 characters that are three bytes each, and tells it from one that differs at the end", () => {
    const names = new Names()
    const long = "漢".repeat(512)
    const index = names.add(long)
    expect(names.find(long)).toBe(index)
    expect(names.find(`${"漢".repeat(511)}字`)).toBeUndefined()
    expect(names.name(index)).toBe(long)
    expect(loaded(saved(settled(names))).find(long)).toBe(index)
  })

  test("does not grow for ever where names come and go, and finds those that stay", () => {
    const names = new Names()
    for (let n = 0; n < 50; n++) names.add(`stays ${n}`)
    names.settle(50)
    let most = 0
    for (let n = 0; n < 30_000; n++) {
      const index = names.add(`passes by under number ${n}`)
      names.settle(1)
      names.remove(index)
      names.settle(1)
      names.recycle(index)
      if (n === 1000) most = names.heldBytes
    }
    expect(names.heldBytes).toBeLessThanOrEqual(most)
    expect(names.size).toBe(50)
    for (let n = 0; n < 50; n++) expect(names.find(`stays ${n}`)).toBe(n)
  })

  test("takes bytes that follow from its names and indices alone, and holds at most a quarter more", () => {
    for (let seed = 1; seed <= 5; seed++) {
      const random = new Random(seed, "names bytes")
      const names = new Names()
      const held: number[] = []
      for (let step = 0; step < 30_000; step++) {
        if (random.next() < 0.6) held.push(names.add(`${"x".repeat(random.integer(30))}${step}`))
        else if (held.length > 0) {
          const [index] = held.splice(random.integer(held.length), 1)
          names.remove(index)
          names.recycle(index)
        }
        names.settle(1)
        if (step % 1000 > 0) continue
        expect(names.heldBytes, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(1.25 * names.bytes + 8192)
      }
      const again = loaded(saved(names))
      const inOrder = new Names()
      for (const index of held.sort((a, b) => b - a)) inOrder.set(index, names.name(index) as string)
      inOrder.recycleAll(new Set([names.count - 1]))
      expect([again.bytes, inOrder.bytes], `seed ${seed}`).toEqual([names.bytes, names.bytes])
      expect(again.heldBytes).toBeLessThanOrEqual(1.25 * names.bytes + 8192)
    }
  })

  test("leaves no trace of a name that was removed in what it saves", () => {
    for (const gone of [1, 5, 400]) {
      const names = new Names()
      for (let n = 0; n < 500; n++) names.add(n < gone ? `secret ${n}` : `public ${n}`)
      names.settle(500)
      expect(holds(names, "secret")).toBe(true)
      for (let n = 0; n < gone; n++) names.remove(n)
      expect(holds(names, "secret"), "not settled: it may come back").toBe(true)
      names.settle(gone)
      expect(holds(names, "secret"), `${gone} gone`).toBe(false)
      expect(holds(names, "public")).toBe(true)
      expect(loaded(saved(names)).size).toBe(500 - gone)
    }
  })
})

function settled(names: Names): Names {
  names.settle(names.unsettled)
  return names
}

function holds(names: Names, text: string): boolean {
  return [...saved(names).arrays.values()].some((array) =>
    Buffer.from(array.buffer, array.byteOffset, array.byteLength).includes(text),
  )
}

test("names that collide in one process do not in another: nobody can choose them", () => {
  buildCommand()
  const encoder = new TextEncoder()
  const byHash = new Map<number, string>()
  const pairs: [string, string][] = []
  for (let n = 0; pairs.length < 8; n++) {
    const name = `name ${n}`
    const hashed = hash(encoder.encode(name), 0, name.length)
    const other = byHash.get(hashed)
    if (other) pairs.push([other, name])
    byHash.set(hashed, name)
  }
  const program = `
    import { hash } from ${JSON.stringify(new URL("../../dist/ids/names.js", import.meta.url).href)}
    const of = (name) => hash(new TextEncoder().encode(name), 0, name.length)
    console.log(${JSON.stringify(pairs)}.filter(([a, b]) => of(a) === of(b)).length)`
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" })
  expect(said.trim()).toBe("0")
})
