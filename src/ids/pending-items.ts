/**
 * Items that users have liked and rows do not hold yet, in order of acceptance: a ring of events, freed segment by segment
 * as they are learned. Nothing is kept of a user beyond its events.
 *
 *   bucket(user) → its newest event → the one before it in the same bucket → …     until one that is freed
 *
 * Events are numbered from 0 on; number n stands in slot n mod capacity. A link is 1 + a number, 0 for none. Links to what
 * is freed stay: they end a walk.
 */

const FEWEST = 4096
/** In place of an item that left. */
const NONE = -1

interface Slots {
  user: Int32Array
  item: Int32Array
  segment: Uint32Array
  /** The event before in the same bucket. */
  before: Float64Array
  /** By bucket: its newest event. */
  newest: Float64Array
}

const BYTES_PER_SLOT = 4 + 4 + 4 + 8 + 8

function newSlots(capacity: number): Slots {
  return {
    user: new Int32Array(capacity),
    item: new Int32Array(capacity),
    segment: new Uint32Array(capacity),
    before: new Float64Array(capacity),
    newest: new Float64Array(capacity),
  }
}

export class PendingItems {
  #capacity = FEWEST
  #slots = newSlots(FEWEST)
  /** Numbers of the oldest event held and of the next. */
  #first = 0
  #next = 0

  get length(): number {
    return this.#next - this.#first
  }

  get bytes(): number {
    return BYTES_PER_SLOT * this.#capacity
  }

  /** Takes an event of a segment that is not before the last one's. */
  add(user: number, item: number, segment: number): void {
    if (this.length === this.#capacity) this.#resize(2 * this.#capacity)
    this.#put(user, item, segment)
  }

  #put(user: number, item: number, segment: number): void {
    const slots = this.#slots
    const slot = this.#next % this.#capacity
    const bucket = this.#bucket(user)
    slots.user[slot] = user
    slots.item[slot] = item
    slots.segment[slot] = segment
    slots.before[slot] = slots.newest[bucket]
    slots.newest[bucket] = ++this.#next
  }

  #bucket(user: number): number {
    return (Math.imul(user, 0x9e3779b1) >>> 8) & (this.#capacity - 1)
  }

  /** Calls with the slots of a user's events, latest first, until that says so. */
  #walk(user: number, visit: (slot: number) => boolean): void {
    const { newest, before, user: users } = this.#slots
    let at = newest[this.#bucket(user)]
    while (at > this.#first) {
      const slot = (at - 1) % this.#capacity
      if (users[slot] === user && visit(slot)) return
      at = before[slot]
    }
  }

  /** Items of a user in segments after one, oldest first: the latest `most`. */
  since(user: number, segment: number, most: number): number[] {
    if (this.length === 0) return []
    const found: number[] = []
    const { item, segment: segments } = this.#slots
    this.#walk(user, (slot) => {
      if (segments[slot] <= segment) return true
      if (item[slot] !== NONE) found.push(item[slot])
      return found.length === most
    })
    return found.reverse()
  }

  /** Frees the events of segments up to the given one. */
  free(segment: number): void {
    const { segment: segments } = this.#slots
    while (this.#first < this.#next && segments[this.#first % this.#capacity] <= segment) this.#first++
    let capacity = this.#capacity
    while (capacity > FEWEST && 32 * this.length <= capacity) capacity /= 2
    if (capacity < this.#capacity) this.#resize(capacity)
  }

  /** Drops a user's events. */
  dropUser(user: number): void {
    this.#walk(user, (slot) => {
      this.#slots.item[slot] = NONE
      return false
    })
  }

  dropItems(items: ReadonlySet<number>): void {
    const { item } = this.#slots
    for (let n = this.#first; n < this.#next; n++) {
      const slot = n % this.#capacity
      if (items.has(item[slot])) item[slot] = NONE
    }
  }

  #resize(capacity: number): void {
    const { user, item, segment } = this.#slots
    const [first, next, before] = [this.#first, this.#next, this.#capacity]
    this.#slots = newSlots(capacity)
    this.#capacity = capacity
    this.#first = 0
    this.#next = 0
    for (let n = first; n < next; n++) {
      const slot = n % before
      this.#put(user[slot], item[slot], segment[slot])
    }
  }
}
