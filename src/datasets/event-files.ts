/** The one reader of files of events: a folder or file in any form, as rows. `run`, `compare` and `import` read with it. */

import { existsSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { textFile } from "./bytes.ts"
import type { Duck } from "./duck.ts"
import { type Rows, readTexts } from "./formats.ts"
import type { FileChoice } from "./layout.ts"
import { nothingAt } from "./publishers.ts"
import type { RatingBlock, ReadOptions } from "./ratings.ts"
import { findSource } from "./source.ts"

export interface EventFiles extends Rows {
  /** In the order they are read. */
  files: readonly string[]
  /** Whether what was read so far was not UTF-8 and was taken as Latin-1. */
  isLatin1(): boolean
}

export interface EventFileOptions extends ReadOptions, FileChoice {}

/** Finds out how the files are laid out; rows are read when they are asked for. */
export async function openEventFiles(path: string, options: EventFileOptions): Promise<EventFiles> {
  if (!existsSync(path)) throw nothingAt(path)
  const { form, files } = await findSource(path)
  if (form === "parquet") return { files, isLatin1: () => false, ...(await openParquet(files, options)) }
  const sizes = files.map((file) => statSync(file).size)
  const total = Math.max(
    1,
    sizes.reduce((sum, size) => sum + size, 0),
  )
  const texts = files.map((file, f) => {
    const before = sizes.slice(0, f).reduce((sum, size) => sum + size, 0)
    return textFile(file, (bytes) => options.onShare?.((before + bytes) / total))
  })
  return { files, isLatin1: () => texts.some(({ latin1 }) => latin1), ...(await readTexts(texts, options, options)) }
}

async function openParquet(files: readonly string[], options: EventFileOptions): Promise<Rows> {
  const { readParquet } = await import("./parquet.ts")
  async function* blocks(): AsyncGenerator<RatingBlock> {
    const duck = await openReader()
    try {
      yield* (await readParquet(duck, files, options)).blocks
    } finally {
      duck.close()
    }
  }
  const duck = await openReader()
  try {
    const { reading } = await readParquet(duck, files, options)
    return { reading, blocks: blocks() }
  } finally {
    duck.close()
  }
}

/** Parquet is read with DuckDB, which is optional. */
async function openReader(): Promise<Duck> {
  const { openDuck } = await import("./duck.ts")
  return openDuck({ memoryBytes: 2 ** 30, threads: 1, temporary: join(tmpdir(), `dess-${process.pid}`) })
}
