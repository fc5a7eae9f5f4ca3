import { afterAll, describe, expect, test } from "vitest"
import { openKernels } from "../../../src/kernels/open.ts"
import { Random } from "../../../src/kernels/random.ts"
import { FactorModel } from "../../../src/models/calibrated/factor.ts"
import { PackedItems } from "../../../src/models/calibrated/packed-items.ts"
import type { RowModel } from "../../../src/models/calibrated/rows.ts"
import { SequenceModel } from "../../../src/models/calibrated/sequence.ts"
import type { Bits } from "../../../src/models/row-packing.ts"
import { expectClose } from "../../support/close.ts"

const kernels = openKernels({ threads: 1, shared: true })
afterAll(() => kernels.close())

const USERS = 9
const row = { start: 0, seed: 4 }
const models: [string, (sizes: number[], bits?: Bits[]) => RowModel][] = [
  ["top-k", (sizes, bits = sizes.map(() => 32)) => new SequenceModel({ ...row, sizes, bits })],
  ["binary", (sizes, bits = sizes.map(() => 32)) => new FactorModel({ ...row, sizes, bits, task: "binary" })],
  ["multiclass", (sizes, bits = sizes.map(() => 32)) => new FactorModel({ ...row, sizes, bits, task: "multiclass" })],
]

/** Learns some rows on known items; returns the items that moved. */
function learn(model: RowModel, items: readonly number[], random: Random): Set<number> {
  const touched = new Set<number>()
  const chosen = Array.from({ length: 200 }, () => items[random.integer(items.length)])
  const label = chosen.map((_, r) => (model.outputs > 1 ? random.integer(5) : r % 3 === 0 ? 1 : 0))
  const user = chosen.map((_, r) => Math.floor(r / 3) % USERS)
  model.train({ user, item: chosen, label, logChance: label.map(() => -2) }, undefined, touched)
  return touched
}

function update(packed: PackedItems, model: RowModel, items: Iterable<number>): void {
  const table = model.tables.item
  const numbers = new Float32Array(table.sizes[table.top])
  for (const item of items) {
    if (table.has(item)) table.read(item, numbers, 0)
    packed.set(item, table.has(item) ? { step: table.step(item), numbers, at: 0 } : undefined)
  }
}

function expectSame(packed: PackedItems, model: RowModel, tolerance = 2e-6): void {
  const items = Int32Array.from(model.tables.item.ids())
  expect(packed.items).toEqual(items)
  for (const user of model.tables.user.ids()) {
    const want = new Float64Array(items.length * model.outputs)
    model.logitsOf(want, user, items)
    const got = packed.scores(user)
    model.addNeighbours?.(got, user, items)
    expectClose(got, want, tolerance)
  }
}

describe.each(models)("packed items, %s", (_, create) => {
  test.each<[number, number[], Bits[] | undefined]>([
    [2e-6, [2, 4, 8, 16, 64, 128], undefined],
    [2e-6, [0, 3, 5, 33], undefined],
    [5e-5, [0, 3, 8, 64, 64, 130], [8, 8, 8, 8, 16, 16]],
    [5e-5, [0, 2, 7, 7, 9], [8, 8, 8, 16, 32]],
  ])(
    "score to %f as the model does, sizes %j, bits %j: new items, learned ones, larger, smaller and gone",
    (tolerance, sizes, bits) => {
      const random = new Random(7, "packed items", sizes.length)
      const model = create(sizes, bits)
      const packed = new PackedItems(model, kernels)
      let next = 0
      let furthest = 0
      for (let version = 0; version < 12; version++) {
        const changed = new Set<number>()
        for (let n = 0; n < 60; n++, next += 1 + random.integer(3)) {
          model.meetOne("item", next)
          changed.add(next)
        }
        const items = [...model.tables.item.ids()]
        for (const item of learn(model, items, random)) changed.add(item)
        for (const side of ["user", "item"] as const)
          for (const id of [...model.tables[side].ids()])
            if (random.next() < 0.4) {
              model.resize(side, id, { step: random.integer(sizes.length) })
              if (side === "item") changed.add(id)
            }
        const gone = new Set(items.filter(() => random.next() < 0.1))
        model.forget("item", gone)
        for (const item of gone) changed.add(item)
        // Some of them come back in a later version, as other items.
        if (version % 3 === 0) next = Math.max(0, next - 50)
        update(packed, model, changed)
        expectSame(packed, model, tolerance)
        for (const user of model.tables.user.ids())
          for (const x of model.combined(user)) furthest = Math.max(furthest, Math.abs(x))
      }
      expect(furthest).toBeGreaterThan(0.05)
    },
  )
})

test("chunks fill, fall empty and go to another size, and hold no more than the items need", () => {
  const model = new SequenceModel({ ...row, sizes: [2, 8] })
  const packed = new PackedItems(model, kernels)
  const items = Array.from({ length: 9000 }, (_, item) => item)
  for (const item of items) model.meetOne("item", item)
  learn(model, items, new Random(1, "chunks"))
  update(packed, model, items)
  expectSame(packed, model)
  const move = (step: number) => {
    for (const item of items) model.resize("item", item, { step })
    update(packed, model, items)
    expectSame(packed, model)
    return kernels.mark()
  }
  const held = move(1)
  expect([move(0), move(1), move(0), move(1)]).toEqual([held, held, held, held])
})
