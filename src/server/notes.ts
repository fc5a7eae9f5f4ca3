/**
 * What clients of Gorse say about users and items and dess has no use for (labels, comments, dates): kept, to be given
 * back. A file of JSON lines, the last line about an id counts; written through before `put` resolves.
 */

import {
  closeSync,
  existsSync,
  fdatasyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs"
import { DessError } from "../errors.ts"
import type { Side } from "../types.ts"

export interface Note {
  labels?: unknown
  comment?: string
  /** As it was given. */
  timestamp?: string
  /** A deleted item: hidden, and not to be found. */
  deleted?: boolean
}

interface Line {
  side: Side
  id: string
  note: Note | null
}

const MOST_NOTES = 1_000_000
const LONGEST_NOTE = 4096

export class Notes {
  readonly #notes: Record<Side, Map<string, Note>> = { user: new Map(), item: new Map() }
  #path: string | undefined
  #file: number | undefined

  /** Takes up a file, once nobody else has its directory; without one, notes are kept in memory. */
  load(path: string): void {
    this.#path = path
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : []
    // A last line without its end was never acknowledged.
    for (const text of lines.slice(0, -1)) if (text !== "") this.#take(JSON.parse(text) as Line)
    this.#rewrite()
  }

  get(side: Side, id: string): Note | undefined {
    return this.#notes[side].get(id)
  }

  /** Ids with a note, in order of their first. */
  ids(side: Side): IterableIterator<string> {
    return this.#notes[side].keys()
  }

  put(side: Side, entries: readonly { id: string; note: Note }[]): void {
    const lines = entries.map(({ id, note }) => ({ side, id, note: { ...this.get(side, id), ...note } }))
    for (const { note } of lines)
      if (JSON.stringify(note).length > LONGEST_NOTE)
        throw new DessError("INVALID_DATA", `labels and comment: expected at most ${LONGEST_NOTE} characters, got more`)
    if (this.#notes[side].size + lines.length > MOST_NOTES)
      throw new DessError(
        "INVALID_DATA",
        `labels and comments: expected at most ${MOST_NOTES} ${side}s with some, got more`,
      )
    this.#append(lines)
    for (const line of lines) this.#take(line)
  }

  /** Removes a user, also from the file; whether there was a note. */
  forget(user: string): boolean {
    const noted = this.#notes.user.delete(user)
    if (noted) this.#rewrite()
    return noted
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }

  #take({ side, id, note }: Line): void {
    if (note === null) this.#notes[side].delete(id)
    else this.#notes[side].set(id, note)
  }

  #append(lines: readonly Line[]): void {
    if (this.#path === undefined) return
    this.#file ??= openSync(this.#path, "a", 0o600)
    writeSync(this.#file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""))
    fdatasyncSync(this.#file)
  }

  #rewrite(): void {
    if (this.#path === undefined) return
    this.close()
    const lines = (["user", "item"] as const).flatMap((side) =>
      [...this.#notes[side]].map(([id, note]) => `${JSON.stringify({ side, id, note })}\n`),
    )
    const beside = `${this.#path}.new`
    const file = openSync(beside, "w", 0o600)
    writeFileSync(file, lines.join(""))
    fdatasyncSync(file)
    closeSync(file)
    renameSync(beside, this.#path)
  }
}
