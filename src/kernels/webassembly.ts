/** The few pieces of WebAssembly we use, typed here because neither Node's types nor the ES library have them. */

export interface WasmMemory {
  readonly buffer: ArrayBuffer | SharedArrayBuffer
  grow(pages: number): number
}

export type WasmModule = object

export interface KernelImports {
  memory: WasmMemory
  /** Sleeps while the word at this byte has this value; only the builds with threads ask for it. */
  sleep(word: number, old: number): void
}

/** What the kernels export; see assembly/index.ts. */
export interface KernelExports {
  run(start: number, end: number, shared: boolean, leave: boolean): void
  settle(): void
  work(worker: number): void
  stop(): void
}

interface WebAssemblyNamespace {
  validate(bytes: Uint8Array): boolean
  Module: new (bytes: Uint8Array) => WasmModule
  Instance: new (module: WasmModule, imports: { env: KernelImports }) => { exports: KernelExports }
  Memory: new (limits: { initial: number; maximum: number; shared: boolean }) => WasmMemory
}

/** WebAssembly, or undefined where the engine has none. */
export const Wasm = (globalThis as unknown as { WebAssembly?: WebAssemblyNamespace }).WebAssembly
