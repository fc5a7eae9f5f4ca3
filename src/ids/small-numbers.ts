/** A whole number below 65,536 of every id; 0 where nothing is known. */

import type { State } from "../kernels/state.ts"
import { Columns } from "./columns.ts"

export interface SmallNumbers {
  get(id: number): number
  /** Returns what it was. */
  set(id: number, value: number): number
  /** Makes it one more, round to 0 after 65,535; returns what it is then. */
  add(id: number): number
  clear(id: number): void
  /** Bytes they take; none where they stand in rows, which count for themselves. */
  readonly bytes: number
  save(state: State): void
  load(state: State): void
}

/** In a column of their own, 2 bytes an id. */
export class SmallColumn implements SmallNumbers {
  readonly #columns = new Columns({ value: "u16" })
  #values = this.#columns.at.value

  get(id: number): number {
    return id < this.#values.length ? this.#values[id] : 0
  }

  set(id: number, value: number): number {
    this.#columns.reserve(id)
    this.#values = this.#columns.at.value
    const before = this.#values[id]
    this.#values[id] = value
    return before
  }

  add(id: number): number {
    const count = (this.get(id) + 1) & 0xffff
    this.set(id, count)
    return count
  }

  clear(id: number): void {
    this.#columns.clear(id)
  }

  get bytes(): number {
    return this.#columns.bytes
  }

  save(state: State): void {
    this.#columns.save(state)
  }

  load(state: State): void {
    this.#columns.load(state)
    this.#values = this.#columns.at.value
  }
}

/** A table whose rows have two such numbers before them. */
export interface NotedRows {
  has(id: number): boolean
  note(id: number, k: 0 | 1): number
  setNote(id: number, k: 0 | 1, value: number): number
  addNote(id: number, k: 0 | 1): number
}

/** In the rows themselves: an id without a row has none. The table saves them. */
export class RowNotes implements SmallNumbers {
  readonly bytes = 0
  readonly #rows: NotedRows
  readonly #k: 0 | 1

  constructor(rows: NotedRows, k: 0 | 1) {
    this.#rows = rows
    this.#k = k
  }

  get(id: number): number {
    return this.#rows.note(id, this.#k)
  }

  set(id: number, value: number): number {
    return this.#rows.setNote(id, this.#k, value)
  }

  add(id: number): number {
    return this.#rows.addNote(id, this.#k)
  }

  clear(id: number): void {
    if (this.#rows.has(id)) this.#rows.setNote(id, this.#k, 0)
  }

  save(): void {}
  load(): void {}
}
