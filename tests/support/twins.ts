/** Every twin of the kernels this machine can run. */

import { afterAll, afterEach } from "vitest"
import { DessError } from "../../src/errors.ts"
import type { Kernels } from "../../src/kernels/kernels.ts"
import { type KernelKind, openKernels } from "../../src/kernels/open.ts"
import { ReferenceKernels } from "../../src/kernels/reference.ts"

export interface Twin {
  name: string
  precision: "single" | "double"
  /** Kernels with empty working memory, until the end of the test. What stood in the memory before is still there. */
  open(): Kernels
}

interface Opened {
  kernels: Kernels
  empty: number
}

const all: Opened[] = []
const inUse: { opened: Opened; free: Opened[] }[] = []

afterEach(() => {
  for (const { opened, free } of inUse.splice(0)) {
    opened.kernels.release(opened.empty)
    free.push(opened)
  }
})
afterAll(() => {
  for (const { kernels } of all.splice(0)) kernels.close()
})

function twin(name: string, precision: Twin["precision"], create: () => Kernels): Twin {
  const free: Opened[] = []
  const open = () => {
    let opened = free.pop()
    if (!opened) {
      const kernels = create()
      opened = { kernels, empty: kernels.mark() }
      all.push(opened)
    }
    inUse.push({ opened, free })
    return opened.kernels
  }
  return { name, precision, open }
}

export const REFERENCE = twin("reference float32", "single", () => new ReferenceKernels("single"))
export const DOUBLE = twin("reference float64", "double", () => new ReferenceKernels("double"))

function canRun(kind: KernelKind): boolean {
  try {
    openKernels({ kind, threads: 1 }).close()
    return true
  } catch (error) {
    if (error instanceof DessError && error.code === "UNSUPPORTED") return false
    throw error
  }
}

const fast = (["simd", "relaxed-simd"] as const)
  .filter(canRun)
  .map((kind) => twin(kind, "single", () => openKernels({ kind, threads: 1 })))

export const TWINS: readonly Twin[] = [REFERENCE, DOUBLE, ...fast]
