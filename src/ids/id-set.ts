/** A set of ids: one byte for each there may be. */

import { enlarged, growable } from "./columns.ts"

export class IdSet {
  #flags = growable("u8")
  /** Ids from here on have never been in it. */
  #reach = 0
  #size = 0

  add(id: number): void {
    if (id >= this.#reach) {
      this.#reach = id + 1
      this.#flags = enlarged(this.#flags, this.#reach)
    }
    if (this.#flags[id] === 1) return
    this.#flags[id] = 1
    this.#size++
  }

  /** All of them, in order; there are none left. */
  take(): Int32Array {
    const ids = new Int32Array(this.#size)
    let count = 0
    for (let id = 0; count < ids.length; id++) {
      if (this.#flags[id] === 0) continue
      this.#flags[id] = 0
      ids[count++] = id
    }
    this.#size = 0
    return ids
  }
}
