/** Snapshots of a directory: written beside, flushed, renamed; the last two are kept. */

import { closeSync, openSync, readdirSync, readSync, rmSync, statSync } from "node:fs"
import { basename, join } from "node:path"
import { DessError, show } from "../errors.ts"
import type { State } from "../kernels/state.ts"
import { diskError, isSystemError, replaceFile, tryTo } from "./disk.ts"
import { decodeState, encodeState, piecesOf } from "./safetensors.ts"

const PATTERN = /^snapshot-(\d{12,})\.safetensors$/

export interface SnapshotFile {
  /** The record of the journal it was taken before. */
  position: number
  path: string
}

export function snapshotPath(directory: string, position: number): string {
  return join(directory, `snapshot-${String(position).padStart(12, "0")}.safetensors`)
}

/** Newest first. What a crash left half written is removed. */
export function listSnapshots(directory: string): SnapshotFile[] {
  const found: SnapshotFile[] = []
  for (const name of readdirSync(directory)) {
    if (name.startsWith("snapshot-") && name.endsWith(".part"))
      tryTo(() => rmSync(join(directory, name), { force: true }))
    const match = PATTERN.exec(name)
    if (match) found.push({ position: Number(match[1]), path: join(directory, name) })
  }
  return found.sort((a, b) => b.position - a.position)
}

/** Writes a state; it is there whole or not at all. Returns the bytes. `piece`: the most that is written at a time. */
export function writeSnapshot(path: string, state: State, { piece }: { piece?: number } = {}): number {
  try {
    replaceFile(path, (append) => {
      for (const whole of encodeState(state)) for (const some of piecesOf(whole, piece)) append(some)
    })
    return statSync(path).size
  } catch (cause) {
    throw diskError("snapshot", cause)
  }
}

export function readSnapshot(path: string, piece?: number): State {
  const file = openSync(path, "r")
  const read = (target: Uint8Array, from: number) => {
    let place = from
    for (const part of piecesOf(target, piece))
      for (let at = 0; at < part.length; ) {
        const count = readSync(file, part, at, part.length - at, place)
        if (count === 0) throw new DessError("INVALID_DATA", `snapshot: expected more than ${place} bytes, got no more`)
        at += count
        place += count
      }
  }
  try {
    return decodeState({ length: statSync(path).size, read })
  } finally {
    closeSync(file)
  }
}

/** The newest snapshot that can be read, where there is one, and what is wrong with newer ones. */
export function readNewest(files: readonly SnapshotFile[]): {
  found: { state: State; file: SnapshotFile } | undefined
  damaged: string[]
} {
  const damaged: string[] = []
  for (const file of files) {
    try {
      return { found: { state: readSnapshot(file.path), file }, damaged }
    } catch (error) {
      if (error instanceof DessError && error.code === "UNSUPPORTED") throw error
      // It may be whole, and what it holds nowhere else.
      if (isSystemError(error))
        throw new DessError(
          "UNAVAILABLE",
          `snapshot: expected to read ${show(basename(file.path))}, got ${(error as NodeJS.ErrnoException).code}; try again, or take it away to go on from what was before it`,
          { cause: error },
        )
      damaged.push(`${basename(file.path)}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return { found: undefined, damaged }
}
