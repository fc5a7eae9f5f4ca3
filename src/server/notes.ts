/**
 * What clients of Gorse say about users and items and dess has no use for (labels, comments, dates): kept, to be given
 * back. A file of JSON lines, the last line about an id counts; written through before `put` resolves.
 */

import {
  appendFileSync,
  closeSync,
  existsSync,
  fdatasyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs"
import { dirname } from "node:path"
import { syncFolder } from "../engine/snapshots.ts"
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

/** A user whose removal has begun: finished at the next start when a crash comes in between. */
interface ForgettingLine {
  forgetting: string
}

interface Line {
  side: Side
  id: string
  note: Note | null
}

const MOST_NOTES = 1_000_000
const LONGEST_NOTE = 4096
/** Lines that say something newer about an id, before the file is written anew. */
const MOST_STALE = 1000

export class Notes {
  readonly #notes: Record<Side, Map<string, Note>> = { user: new Map(), item: new Map() }
  #path: string | undefined
  #file: number | undefined
  readonly #forgetting = new Set<string>()
  /** Lines in the file, and whether the last may be cut short. */
  #lines = 0
  #torn = false

  /** Takes up a file, once nobody else has its directory; without one, notes are kept in memory. */
  load(path: string): void {
    this.#path = path
    const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : []
    // A last line without its end was never acknowledged.
    lines.slice(0, -1).forEach((text, at) => {
      if (text === "") return
      try {
        this.#takeText(text)
      } catch (cause) {
        throw new DessError("INVALID_DATA", `${path}: expected JSON in line ${at + 1}, got a damaged one`, { cause })
      }
    })
    this.#rewrite()
  }

  get(side: Side, id: string): Note | undefined {
    return this.#notes[side].get(id)
  }

  /** Users whose removal has begun. */
  get forgetting(): string[] {
    return [...this.#forgetting]
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
    const fresh = new Set(lines.filter(({ id }) => !this.#notes[side].has(id)).map(({ id }) => id))
    if (fresh.size > 0 && this.#notes[side].size + fresh.size > MOST_NOTES)
      throw new DessError(
        "INVALID_DATA",
        `labels and comments: expected at most ${MOST_NOTES} ${side}s with some, got more`,
      )
    this.#append(lines)
    for (const line of lines) this.#take(line)
    if (this.#lines > MOST_STALE + 2 * this.#size) this.#rewrite()
  }

  /** Removes a user, also from the file, and remembers that the rest is to go, too; whether there was a note. */
  beginForgetting(user: string): boolean {
    const noted = this.#notes.user.delete(user)
    if (!noted) return false
    this.#forgetting.add(user)
    this.#rewrite()
    return true
  }

  /** Everything else of the user is gone. */
  endForgetting(user: string): void {
    if (this.#forgetting.delete(user)) this.#rewrite()
  }

  get #size(): number {
    return this.#notes.user.size + this.#notes.item.size
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }

  #takeText(text: string): void {
    const line = JSON.parse(text) as Line | ForgettingLine
    if ("forgetting" in line) this.#forgetting.add(line.forgetting)
    // There were lines of another kind once.
    else if ("side" in line) this.#take(line)
  }

  #take({ side, id, note }: Line): void {
    if (note === null) this.#notes[side].delete(id)
    else this.#notes[side].set(id, note)
  }

  #append(lines: readonly Line[]): void {
    if (this.#path === undefined) return
    if (this.#torn) this.#rewrite()
    this.#file ??= openSync(this.#path, "a", 0o600)
    try {
      appendFileSync(this.#file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""))
      fdatasyncSync(this.#file)
    } catch (error) {
      // Nothing may follow half a line.
      this.#torn = true
      throw error
    }
    this.#lines += lines.length
  }

  #rewrite(): void {
    if (this.#path === undefined) return
    this.close()
    const lines: (ForgettingLine | Line)[] = Array.from(this.#forgetting, (user) => ({ forgetting: user }))
    for (const side of ["user", "item"] as const)
      for (const [id, note] of this.#notes[side]) lines.push({ side, id, note })
    const beside = `${this.#path}.new`
    const file = openSync(beside, "w", 0o600)
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""))
    fdatasyncSync(file)
    closeSync(file)
    renameSync(beside, this.#path)
    syncFolder(dirname(this.#path))
    this.#lines = lines.length
    this.#torn = false
  }
}
