/** Groups that are learned, and rows that are packed: every twin beside the reference. */

import { afterAll, describe, expect, it } from "vitest"
import { blocks } from "../../src/kernels/groups.ts"
import { PACKED_WORDS, ROW_HEAD } from "../../src/kernels/layout.ts"
import { openKernels } from "../../src/kernels/open.ts"
import { Random } from "../../src/kernels/random.ts"
import { liftOf, type RungLosses } from "../../src/models/calibrated/rows.ts"
import { SequenceModel } from "../../src/models/calibrated/sequence.ts"
import { type Bits, RowPacking } from "../../src/models/row-packing.ts"

const TOLERANCE = 1e-4
const KINDS = ["reference", "simd", "relaxed-simd"] as const
const open = KINDS.map((kind) => openKernels({ kind, threads: 1 }))
afterAll(() => {
  for (const kernels of open) kernels.close()
})

/** Positives with negatives, and a dislike now and then; the same items and users come back. */
function batchOf(seed: number) {
  const random = new Random(seed, "batch")
  const [user, item, label, logChance]: number[][] = [[], [], [], []]
  const add = (u: number, i: number, l: number, chance: number) => {
    user.push(u)
    item.push(i)
    label.push(l)
    logChance.push(chance)
  }
  for (let g = 0; g < 40; g++) {
    const u = random.integer(5)
    if (random.next() < 0.1) add(u, random.integer(30), 0, Number.NaN)
    else {
      add(u, random.integer(30), 1, -random.next())
      for (let n = random.integer(12); n > 0; n--) add(u, random.integer(30), 0, -3 * random.next())
    }
  }
  return { user, item, label, logChance }
}

const LADDERS: { sizes: number[]; bits: Bits[] }[] = [
  { sizes: [0, 2, 5, 16, 33], bits: [32, 32, 32, 32, 32] },
  { sizes: [0, 4, 16, 64, 64, 128], bits: [8, 8, 8, 8, 16, 16] },
]

/** Learns batches with rows of all sizes; returns all rows, losses and what was judged. */
function learn(kind: number, { sizes, bits }: (typeof LADDERS)[number], seed: number): number[] {
  const model = new SequenceModel({ sizes, bits, start: sizes.length - 1, seed, kernels: open[kind] })
  const out: number[] = []
  for (let n = 0; n < 4; n++) {
    const batch = batchOf(10 * seed + n)
    const { length } = batch.user
    const floats = () => new Float64Array(length * sizes.length)
    const rungs: RungLosses = { user: floats(), item: floats(), rows: Uint8Array.from(batch.user, (_, r) => r % 2) }
    out.push(...model.train(batch, rungs).losses, ...rungs.user, ...rungs.item)
    for (const side of ["user", "item"] as const)
      for (const id of model.tables[side].ids())
        if ((id + n) % 3 === 0) model.resize(side, id, { step: (id + n) % sizes.length })
  }
  for (const table of Object.values(model.tables))
    for (const id of table.ids()) {
      const row = new Float32Array(table.size(id))
      table.read(id, row, 0)
      out.push(...row)
    }
  return out
}

describe("groups", () => {
  it(`the twins ${KINDS.join(", ")} learn rows of 32 bits alike to ${TOLERANCE}`, () => {
    for (let seed = 1; seed <= 3; seed++) {
      const [reference, ...others] = KINDS.map((_, kind) => learn(kind, LADDERS[0], seed))
      expect(reference.every(Number.isFinite)).toBe(true)
      for (const other of others) {
        expect(other.length).toBe(reference.length)
        other.forEach((number, i) => {
          const error = Math.abs(number - reference[i]) / Math.max(1, Math.abs(reference[i]))
          expect(error, `seed ${seed}, number ${i}`).toBeLessThan(TOLERANCE)
        })
      }
    }
  })

  it("simd and relaxed-simd learn the same bits, packed rows included", () => {
    for (const ladder of LADDERS)
      for (let seed = 1; seed <= 3; seed++) expect(learn(1, ladder, seed)).toEqual(learn(2, ladder, seed))
  })
})

describe("packed rows", () => {
  const form = { whole: 2, head: 3, vectors: 2 }
  const sizes = [0, 2, 3, 8, 21, 64]

  it("are unpacked and packed to the bit as models/row-packing.ts has them, by every twin", () => {
    const random = new Random(3, "rows")
    const noise = {
      numbers: Float32Array.from({ length: 400 }, () => 0.3 * random.normal()),
      tail: (id: number) => id % 300,
    }
    const lift = liftOf(noise as never, 1 / 16)
    for (const bits of [8, 16] as const)
      for (const kernels of open) {
        const lengths = sizes.map((size) => form.whole + form.head + form.vectors * size)
        const packing = new RowPacking(lengths, { ...form, bits: sizes.map(() => bits), seed: 7, lift })
        const mark = kernels.mark()
        const noiseAt = kernels.allocate(lift.numbers.length + 16)
        kernels.floats.fill(0, noiseAt, noiseAt + lift.numbers.length + 16)
        kernels.floats.set(lift.numbers, noiseAt)
        sizes.forEach((size, step) => {
          const id = 1000 + 17 * step
          const words = Math.ceil(packing.bytes[step] / 4)
          const [record, packed] = [kernels.allocate(PACKED_WORDS), kernels.allocate(words + 4)]
          const row = kernels.allocate(ROW_HEAD + 2 * blocks(size))
          const numbers = Float32Array.from({ length: lengths[step] }, (_, k) =>
            k < form.whole ? k + 9 : random.normal(),
          )
          if (step === 4) numbers.fill(0, form.whole + form.head)
          const buffer = new ArrayBuffer(4 * words)
          const into = { halves: new Uint16Array(buffer), bytes: new Int8Array(buffer) }
          packing.pack(into, { place: 0, step, id }, { numbers, at: 0 })
          kernels.ints.set(new Int32Array(buffer), packed)
          kernels.ints.set([packed, row, size, bits, noise.tail(id), id, step, 0], record)
          const operation = { records: record, count: 1, form: { ...form, lift: noiseAt } }
          kernels.unpackRows(operation)
          kernels.run()
          const plain = new Float32Array(lengths[step])
          packing.unpack(into, { place: 0, step, id }, { numbers: plain, at: 0 })
          const f = kernels.floats
          const unpacked = Array.from(f.subarray(row, row + form.head))
          for (let v = 0; v < form.vectors; v++) {
            const at = row + ROW_HEAD + v * blocks(size)
            unpacked.push(...f.subarray(at, at + size))
            for (let k = size; k < blocks(size); k++)
              expect(f[at + k]).toBe(v === 0 ? lift.numbers[noise.tail(id) + k] : 0)
          }
          const name = `${kernels.kind}, ${size} numbers in ${bits} bits`
          expect(unpacked, name).toEqual(Array.from(plain.subarray(form.whole)))
          // Learned a little, and packed by chance.
          for (let k = form.whole; k < plain.length; k++) plain[k] += 0.01 * random.normal()
          plain.subarray(form.whole, form.whole + form.head).forEach((number, k) => {
            f[row + k] = number
          })
          for (let v = 0; v < form.vectors; v++)
            for (let k = 0; k < size; k++)
              f[row + ROW_HEAD + v * blocks(size) + k] = plain[form.whole + form.head + v * size + k]
          packing.pack(into, { place: 0, step, id, stochastic: true }, { numbers: plain, at: 0 })
          kernels.packRows({ ...operation, seed: 7 })
          kernels.run()
          const words32 = kernels.ints.slice(packed, packed + words)
          expect(Array.from(new Uint8Array(words32.buffer)), name).toEqual(Array.from(new Uint8Array(buffer)))
        })
        kernels.release(mark)
      }
  })
})
