/**
 * Which items each user has met, and which items there are: what sampling and masking need in the top-k task.
 * A user's items are an ascending list, mostly of a byte an item. That of the user asked about last is at hand unpacked: an
 * item is found in it by halving.
 */

import type { State } from "../kernels/state.ts"
import type { Side } from "../types.ts"
import { ByteLists } from "./byte-lists.ts"
import { Columns, enlarged, growable, growableFrom } from "./columns.ts"
import { Lists } from "./lists.ts"

export class History {
  readonly #met = new ByteLists()
  /** The items of the user asked about last, how many, and who that is. */
  #unpacked = new Int32Array(0)
  #length = 0
  #user = -1
  /** `place`: 1 + where the item stands among those seen, 0 for one not seen. `users`: how many users have met it. */
  readonly #items = new Columns({ place: "u32", users: "u32" })
  #seen = growable("i32")
  #count = 0

  /** No item from here on has been met. */
  get reach(): number {
    return this.#items.length
  }

  /** Items seen so far, in order of first sight: a view until the next change. */
  get seen(): Int32Array {
    return this.#seen.subarray(0, this.#count)
  }

  /** Takes in rows in order. */
  add(user: ArrayLike<number>, item: ArrayLike<number>): void {
    for (let r = 0; r < user.length; r++) {
      this.#add(user[r], item[r])
      this.meet(item[r])
    }
  }

  #add(user: number, item: number): void {
    if (!this.#met.insertAscending(user, item)) return
    if (user === this.#user) this.#user = -1
    this.#items.reserve(item)
    this.#items.at.users[item]++
  }

  /** Takes in an item. */
  meet(item: number): void {
    if (this.knows(item)) return
    this.#items.reserve(item)
    this.#seen = enlarged(this.#seen, this.#count + 1)
    this.#seen[this.#count++] = item
    this.#items.at.place[item] = this.#count
  }

  /** Replaces what a user has met; the items need not be known. */
  put(user: number, items: Iterable<number>): void {
    this.#clear(user)
    for (const item of items) this.#add(user, item)
  }

  /** Leaves an item out of those seen; users have met it all the same. */
  leaveOut(item: number): void {
    if (this.knows(item)) this.#leaveOut((other) => other === item)
  }

  #leaveOut(leaves: (item: number) => boolean): void {
    const [seen, { place }] = [this.#seen, this.#items.at]
    let count = 0
    for (let s = 0; s < this.#count; s++) {
      const item = seen[s]
      if (!leaves(item)) seen[count++] = item
      place[item] = leaves(item) ? 0 : count
    }
    this.#count = count
  }

  /** Where an item stands among those seen, −1 for one that is not. */
  placeOf(item: number): number {
    return item < this.#items.length ? this.#items.at.place[item] - 1 : -1
  }

  knows(item: number): boolean {
    return item < this.#items.length && this.#items.at.place[item] !== 0
  }

  has(user: number, item: number): boolean {
    if (user !== this.#user) this.#unpack(user)
    const items = this.#unpacked
    let [low, high] = [0, this.#length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (items[middle] < item) low = middle + 1
      else high = middle
    }
    return low < this.#length && items[low] === item
  }

  #unpack(user: number): void {
    const room = this.#met.room(user)
    if (this.#unpacked.length < room) this.#unpacked = new Int32Array(2 * room)
    this.#length = this.#met.readAscending(user, this.#unpacked)
    this.#user = user
  }

  /** The items a user has met, ascending: a view until the next change, or until another user is asked about. */
  of(user: number): Int32Array {
    if (user !== this.#user) this.#unpack(user)
    return this.#unpacked.subarray(0, this.#length)
  }

  /** Items seen, those met by most users first; of equals the earlier seen. */
  byPopularity(): number[] {
    const { seen } = this
    const { length } = seen
    const { users } = this.#items.at
    let most = 0
    for (let i = 0; i < length; i++) if (users[seen[i]] > most) most = users[seen[i]]
    if (most <= 4 * length + 1024) return countingSort(seen, users, most)
    // Numbers sort faster than pairs: the count, then the place.
    const keys = Float64Array.from(seen, (item, i) => i - users[item] * length).sort()
    return Array.from(keys, (key) => seen[((key % length) + length) % length])
  }

  #clear(user: number): void {
    const { users } = this.#items.at
    for (const item of this.of(user)) users[item]--
    this.#met.clear(user)
    this.#user = -1
  }

  /** Drops users, or items from everywhere. */
  forget(side: Side, ids: ReadonlySet<number>): void {
    if (side === "user") {
      for (const user of ids) this.#clear(user)
      return
    }
    for (let user = 0; user < this.#met.reach; user++) {
      const kept = this.of(user).filter((item) => !ids.has(item))
      if (kept.length < this.#length) this.#met.setAscending(user, kept)
    }
    this.#user = -1
    this.#leaveOut((item) => ids.has(item))
    for (const item of ids) this.#items.clear(item)
  }

  get bytes(): number {
    return this.#met.bytes + this.#items.bytes + 4 * this.#count
  }

  save(state: State): void {
    state.put("seen", this.seen)
    this.#met.save(state.at("met"))
    this.#items.save(state.at("items"))
  }

  load(state: State): void {
    const seen = state.take("seen", Int32Array)
    this.#seen = growableFrom("i32", seen)
    this.#count = seen.length
    this.#user = -1
    this.#loadMet(state.at("met"))
    this.#items.load(state.at("items"))
  }

  #loadMet(state: State): void {
    if (state.has("lists")) {
      this.#met.load(state)
      return
    }
    // A state from before lists were packed.
    const lists = new Lists()
    lists.load(state)
    for (let user = 0; user < lists.reach; user++) this.#met.setAscending(user, lists.of(user))
  }
}

/** Items by their counts, `most` and less, the largest first; of equals in their order. */
function countingSort(items: Int32Array, counts: Uint32Array, most: number): number[] {
  const places = new Uint32Array(most + 2)
  for (let i = 0; i < items.length; i++) places[most - counts[items[i]] + 1]++
  for (let n = 1; n < places.length; n++) places[n] += places[n - 1]
  const out = new Array<number>(items.length)
  for (let i = 0; i < items.length; i++) out[places[most - counts[items[i]]]++] = items[i]
  return out
}
