/** Snapshots of a directory: written beside, flushed, renamed; the last two are kept. */

import { closeSync, openSync, readdirSync, readSync, rmSync, statSync, writeSync } from "node:fs"
import { basename, join } from "node:path"
import { DessError, show } from "../errors.ts"
import { type Json, State } from "../kernels/state.ts"
import { diskError, isSystemError, PRIVATE_FILE, replaceFile, tryTo } from "./disk.ts"
import { decodeState, type FiledArray, fileArrays, piecesOf, putFiled, statePieces } from "./safetensors.ts"

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
      for (const whole of statePieces(state)) for (const some of piecesOf(whole, piece)) append(some)
    })
    return statSync(path).size
  } catch (cause) {
    throw diskError("snapshot", cause)
  }
}

/** The arrays of a state that lie in a file beside the snapshot they are to become part of. */
export interface FiledState {
  path: string
  arrays: FiledArray[]
  values: Map<string, Json>
}

/** Writes arrays to a file of their own, as they are now: their owner can move on, and nothing is copied in memory. */
export function fileState(path: string, state: State): FiledState {
  let file: number | undefined
  try {
    file = openSync(path, "w", PRIVATE_FILE)
    const open = file
    const arrays = fileArrays(state, (bytes) => {
      for (let at = 0; at < bytes.length; ) at += writeSync(open, bytes, at)
    })
    return { path, arrays, values: state.values }
  } catch (cause) {
    tryTo(() => rmSync(path, { force: true }))
    throw diskError("snapshot", cause)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/** Writes a snapshot of a filed state and what is added to it; the file is removed. */
export function completeSnapshot(path: string, filed: FiledState, add: (state: State) => void): number {
  let file: number | undefined
  try {
    const open = openSync(filed.path, "r")
    file = open
    const state = new State(new Map(), filed.values)
    putFiled(state, filed.arrays, (target, from) => readFully(open, target, from))
    add(state)
    return writeSnapshot(path, state)
  } catch (cause) {
    throw diskError("snapshot", cause)
  } finally {
    if (file !== undefined) closeSync(file)
    tryTo(() => rmSync(filed.path, { force: true }))
  }
}

function readFully(file: number, target: Uint8Array, from: number): void {
  for (let at = 0; at < target.length; ) {
    const count = readSync(file, target, at, target.length - at, from + at)
    if (count === 0) throw new DessError("INVALID_DATA", `snapshot: expected more than ${from + at} bytes, got no more`)
    at += count
  }
}

export function readSnapshot(path: string, piece?: number): State {
  const file = openSync(path, "r")
  const read = (target: Uint8Array, from: number) => {
    let place = from
    for (const part of piecesOf(target, piece)) {
      readFully(file, part, place)
      place += part.length
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
      // It may be intact, and hold what nothing else does.
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
