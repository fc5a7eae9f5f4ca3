/** Chooses kernels: what this machine can run, and with how many threads. */

import { DessError, show } from "../errors.ts"
import { KERNEL_BUILDS } from "./generated.ts"
import type { Kernels } from "./kernels.ts"
import { availableCores, canStartWorkers, nodeModule } from "./pool.ts"
import { ReferenceKernels } from "./reference.ts"
import { WasmKernels } from "./wasm.ts"
import { Wasm, type WasmModule } from "./webassembly.ts"

export type KernelKind = Kernels["kind"]

export interface KernelOptions {
  /** 1 to 64; default: the cores there are, or 1 where memory cannot be shared. */
  threads?: number
  /** Default "auto": the fastest this machine can run. */
  kind?: KernelKind | "auto"
  /** Nanoseconds, roughly, of the smallest piece of work worth giving to a thread. Default 6000. */
  grain?: number
  /** Working memory that other threads may be given (`floats.buffer`), also with one thread. Not for the reference. */
  shared?: boolean
}

const MAXIMUM_THREADS = 64
const KINDS: readonly string[] = ["auto", "relaxed-simd", "simd", "reference"]

type Build = keyof typeof KERNEL_BUILDS
const modules = new Map<string, WasmModule | undefined>()

/** The compiled module, or undefined where this engine cannot run it. Compiled once. */
function compile(build: Build, shared: boolean): WasmModule | undefined {
  const key = `${build} ${shared}`
  if (!modules.has(key)) modules.set(key, compileAnew(build, shared))
  return modules.get(key)
}

function compileAnew(build: Build, shared: boolean): WasmModule | undefined {
  if (!Wasm) return undefined
  const { base64, memoryFlags } = KERNEL_BUILDS[build]
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  if (!shared) bytes[memoryFlags] = 1
  // Node 20 has relaxed SIMD behind a flag; later ones have it without, and may not know the flag.
  if (!Wasm.validate(bytes) && build === "relaxed")
    nodeModule("node:v8")?.setFlagsFromString("--experimental-wasm-relaxed-simd")
  return Wasm.validate(bytes) ? new Wasm.Module(bytes) : undefined
}

function open(kind: KernelKind, options: { threads: number; grain: number; shared: boolean }): Kernels | undefined {
  if (kind === "reference") return options.shared ? undefined : new ReferenceKernels()
  const shared = options.shared || options.threads > 1
  const module = compile(kind === "simd" ? "simd" : "relaxed", shared)
  return module && new WasmKernels({ ...options, kind, module, shared })
}

/** Kernels for this machine. The caller closes them. */
export function openKernels(options: KernelOptions = {}): Kernels {
  const { kind = "auto", threads, grain = 6000, shared = false } = options
  if (!KINDS.includes(kind))
    throw new DessError("INVALID_ARGUMENT", `kernel kind: expected one of ${KINDS.join(", ")}, got ${show(kind)}`)
  if (threads !== undefined && !(Number.isInteger(threads) && threads >= 1 && threads <= MAXIMUM_THREADS))
    throw new DessError("INVALID_ARGUMENT", `threads: expected a whole number from 1 to 64, got ${show(threads)}`)
  if (!(grain > 0)) throw new DessError("INVALID_ARGUMENT", `grain: expected nanoseconds above 0, got ${show(grain)}`)
  const possible = canStartWorkers() ? (threads ?? Math.min(availableCores(), MAXIMUM_THREADS)) : 1
  const kinds: KernelKind[] = kind === "auto" ? ["relaxed-simd", "simd", "reference"] : [kind]
  for (const candidate of kinds) {
    const kernels = open(candidate, { threads: possible, grain, shared })
    if (kernels) return kernels
  }
  throw new DessError("UNSUPPORTED", `kernel kind: expected one this machine can run, got ${show(kind)}`)
}
