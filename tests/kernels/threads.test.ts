/** Threads: the same bits for any number of them, no work when idle, a clean end. */

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import { DessError } from "../../src/errors.ts"
import type { Kernels } from "../../src/kernels/kernels.ts"
import { STOP } from "../../src/kernels/layout.ts"
import { type KernelOptions, openKernels } from "../../src/kernels/open.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { type Build, OPERATIONS, perform, type Shape } from "../support/kernels.ts"

/** A product that takes long enough for every worker to wake up and take its part. */
const wakeUp: Build = ({ kernels }) => {
  const [rows, columns, inner] = [100, 160, 100]
  const [left, right, out] = [rows * inner, inner * columns, rows * columns].map((count) => kernels.allocate(count))
  kernels.fill({ out: left, value: 0.5, count: rows * inner })
  kernels.fill({ out: right, value: 0.5, count: inner * columns })
  kernels.multiply({ left, right, out, rows, columns, inner })
}

/** Where two sets of outputs are not the same to the bit. */
function differences(a: Record<string, number[]>, b: Record<string, number[]>): string[] {
  return Object.keys(a).flatMap((name) =>
    a[name].flatMap((value, i) => (Object.is(value, b[name][i]) ? [] : [`${name}[${i}]: ${value}, ${b[name][i]}`])),
  )
}

for (const kind of ["simd", "relaxed-simd"] as const) {
  describe(`${kind}: 1, 2 and 3 threads give the same bits`, () => {
    let all: Kernels[]
    beforeAll(async () => {
      // The grain of a nanosecond cuts even the smallest operation into parts.
      all = [1, 2, 3].map((threads) => openKernels({ kind, threads, grain: 1 }))
      for (const kernels of all) await kernels.ready()
    })
    afterAll(() => {
      for (const kernels of all) kernels.close()
    })

    const check = (build: Build, shape: Shape, seed: number) => {
      const after: Build = (board, shape) => {
        wakeUp(board, shape)
        build(board, shape)
      }
      const [one, ...more] = all.map((kernels) => perform(kernels, after, shape, seed))
      for (const [i, outputs] of more.entries())
        expect(differences(one, outputs), `${i + 2} threads, ${JSON.stringify(shape)}, seed ${seed}`).toEqual([])
    }

    it("the first alone, the others asleep", () => {
      all[2].alone = true
      check(OPERATIONS.hiddenTrain, { rows: 100, columns: 64, inner: 80, outputs: 1, users: 9, items: 60 }, 1)
      all[2].alone = false
    })

    for (const [name, build] of Object.entries(OPERATIONS))
      it(name, () => {
        for (let seed = 1; seed <= 6; seed++) {
          const random = new Random(seed, "threads")
          const upTo = (n: number) => 1 + random.integer(n)
          const shape = { rows: upTo(130), columns: upTo(150), inner: upTo(300), outputs: upTo(5) }
          check(build, { ...shape, users: upTo(9), items: upTo(60) }, seed)
        }
      })

    it("many operations on one tape, again and again", () => {
      const several: Build = (board, shape) => {
        for (const name of ["hiddenTrain", "multiply transposed right, with bias", "columnSums", "loss softmax"])
          OPERATIONS[name](board, shape)
      }
      const shape = { rows: 61, columns: 67, inner: 33, outputs: 3, users: 5, items: 40 }
      for (let seed = 1; seed <= 40; seed++) check(several, shape, seed)
    })
  })
}

describe("the pool", () => {
  beforeAll(buildCommand)
  const opened: Kernels[] = []
  const open = async (options: KernelOptions) => {
    const kernels = openKernels(options)
    opened.push(kernels)
    await kernels.ready()
    return kernels
  }
  afterEach(() => {
    for (const kernels of opened.splice(0)) kernels.close()
  })

  it("burns no CPU while there is nothing to do", async () => {
    const kernels = await open({ threads: 3, grain: 1 })
    perform(kernels, wakeUp, { rows: 0, columns: 0, inner: 0, outputs: 0, users: 0, items: 0 }, 1)
    await new Promise((resolve) => setTimeout(resolve, 50))
    const before = process.cpuUsage()
    await new Promise((resolve) => setTimeout(resolve, 300))
    const { user, system } = process.cpuUsage(before)
    // Two workers that spin would take up to 600 ms.
    expect((user + system) / 1000).toBeLessThan(100)
  })

  it("ends its workers when closed, twice does no harm, and then nothing runs any more", async () => {
    const threads = process.getBuiltinModule("node:worker_threads")
    const Original = threads.Worker
    const ends: Promise<number>[] = []
    threads.Worker = class extends Original {
      constructor(...options: ConstructorParameters<typeof Original>) {
        super(...options)
        ends.push(new Promise((resolve) => this.once("exit", resolve)))
      }
    }
    const kernels = await open({ threads: 4 })
    threads.Worker = Original
    kernels.close()
    kernels.close()
    expect(await Promise.all(ends)).toEqual([0, 0, 0])
    expect(() => kernels.run()).toThrow(DessError)
  })

  it("works before its workers are up", () => {
    const kernels = openKernels({ threads: 2, grain: 1 })
    opened.push(kernels)
    const out = kernels.allocate(1000)
    kernels.fill({ out, value: 2, count: 1000 })
    kernels.run()
    expect(kernels.floats[out + 999]).toBe(2)
  })

  it("sees an operation through that it left to the others, whoever is awake, before the next one starts", async () => {
    for (const threads of [1, 2, 3]) {
      const kernels = await open({ threads, grain: 1 })
      const [rows, columns] = [64, 512]
      const [out, input, sums] = [
        kernels.allocate(rows * columns),
        kernels.allocate(rows * columns),
        kernels.allocate(columns),
      ]
      for (let turn = 1; turn <= 50; turn++) {
        kernels.floats.fill(turn, input, input + rows * columns)
        kernels.copyRows({ out, input, rows, columns })
        kernels.start()
        kernels.columnSums({ out: sums, input: out, rows, columns })
        kernels.start()
        kernels.run()
        expect(kernels.floats.subarray(sums, sums + columns).every((sum) => sum === turn * rows)).toBe(true)
      }
    }
  })

  it("turns an index outside the memory into an error, on one thread and on several, and closes", async () => {
    for (const threads of [1, 3]) {
      const kernels = await open({ threads, grain: 1 })
      const [count, columns] = [5000, 64]
      const index = kernels.allocate(count)
      kernels.ints.fill(500_000_000, index, index + count)
      const [out, delta] = [kernels.allocate(count * columns), kernels.allocate(count * columns)]
      kernels.moveRows({ out, base: delta, index, delta, rate: 1, rows: count, columns })
      expect(() => {
        kernels.start()
        kernels.run()
      }).toThrow("expected addresses and indices inside the working memory")
      expect(() => kernels.run()).toThrow("expected open kernels, got closed ones")
    }
  })

  it("does not wait for workers that failed before it came to wait", async () => {
    const threads = process.getBuiltinModule("node:worker_threads")
    // A thread of its own: where this fails it sleeps for ever.
    const program = `
      import { openKernels } from ${JSON.stringify(new URL("../../dist/kernels/open.js", import.meta.url).href)}
      import { parentPort, workerData } from "node:worker_threads"
      const kernels = openKernels({ threads: 3, grain: 1 })
      await kernels.ready()
      const [count, columns] = [5000, 64]
      const index = kernels.allocate(count)
      kernels.ints.fill(500_000_000, index, index + count)
      const [out, delta] = [kernels.allocate(count * columns), kernels.allocate(count * columns)]
      kernels.moveRows({ out, base: delta, index, delta, rate: 1, rows: count, columns })
      kernels.start()
      // STOP: both workers have had time to fail.
      while (Atomics.load(kernels.ints, workerData.stop) === 0) Atomics.wait(kernels.ints, workerData.stop, 0, 10)
      Atomics.wait(kernels.ints, workerData.stop, 1, 200)
      try {
        kernels.run()
      } catch ({ message }) {
        parentPort.postMessage(message)
      }`
    const url = new URL(`data:text/javascript,${encodeURIComponent(program)}`)
    const worker = new threads.Worker(url, { workerData: { stop: STOP / 4 } })
    const message = await new Promise((resolve) => {
      worker.once("message", resolve)
      worker.once("error", resolve)
      setTimeout(resolve, 20_000, "it still waits")
    })
    await worker.terminate()
    expect(message).toContain("expected addresses and indices inside the working memory")
  }, 30_000)

  it("says what it expected when asked for something it cannot give", () => {
    for (const threads of [0, -1, 1.5, 65, Number.NaN])
      expect(() => openKernels({ threads })).toThrow(`threads: expected a whole number from 1 to 64, got ${threads}`)
    for (const options of [{ kind: "gpu" as "simd" }, { grain: 0 }, { threads: 0 }])
      expect(() => openKernels(options)).toThrow(DessError)
  })

  it("takes as many threads as there are cores unless told otherwise", async () => {
    const cores = process.getBuiltinModule("node:os").availableParallelism()
    expect((await open({})).threads).toBe(Math.min(64, cores))
    expect((await open({ threads: 1 })).threads).toBe(1)
  })
})
