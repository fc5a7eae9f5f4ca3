/** What the library offers of this folder: reading and preparing are loaded when they are asked for. */

import type { DataStream, OpenOptions } from "./data-stream.ts"
import type { Manifest } from "./manifest.ts"
import type { PrepareOptions, PrepareProgress } from "./prepare.ts"

export type { DataStream, OpenOptions } from "./data-stream.ts"
export type { PrepareOptions, PrepareProgress } from "./prepare.ts"

/** Opens a folder or file as a stream. */
export async function openData(path: string, options?: OpenOptions): Promise<DataStream> {
  const loaded = await import("./open.ts")
  return loaded.openData(path, options)
}

/** Prepares a folder, an archive, a file or a data set known by name; returns what the manifest says. */
export async function* prepareData(from: string, options: PrepareOptions): AsyncGenerator<PrepareProgress, Manifest> {
  const loaded = await import("./prepare.ts")
  return yield* loaded.prepareData(from, options)
}
