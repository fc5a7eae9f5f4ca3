/** The users of the synthetic stream and their visits. See synthetic.ts for the whole. */

import { exp } from "../../kernels/math.ts"
import { Random } from "../../kernels/random.ts"
import type { AliasTable } from "./alias.ts"
import { genreTable } from "./items.ts"
import { DIMENSIONS, USER_BIAS, WIDTH } from "./rating.ts"

/** What is fixed about a user. */
export interface Person {
  index: number
  dimension: number
  bias: number
  /** The genres the user keeps to, one bit each. */
  focus: number
  loyalty: Loyalty
}

/** 0 never returns, 1 may for a while, 2 may for years. */
type Loyalty = 0 | 1 | 2

const NOTHING_RATED = new Uint32Array(0)

/** A user who is here or may return. */
export class Visitor implements Person {
  index = 0
  dimension = 0
  bias = 0
  focus = 0
  loyalty: Loyalty = 0
  /** Events so far. */
  events = 0
  /** Coordinates of the taste that speak already. */
  active = 0
  /** Events left in this visit, and the visit's number. */
  left = 0
  visit = 0
  /** The item rated last in this visit, −1 before the first. */
  last = -1
  /** The taste at this visit, the two vectors it turns between, and the regime they were drawn in. */
  readonly taste = new Float64Array(WIDTH)
  readonly ends = new Float64Array(2 * WIDTH)
  regime = -1
  /** One bit per item that was rated; only of one who is here. */
  rated: Uint32Array = NOTHING_RATED
  #items = new Int32Array(16)

  /** Starts as a person who has not been here. */
  become(person: Person): void {
    this.index = person.index
    this.dimension = person.dimension
    this.bias = person.bias
    this.focus = person.focus
    this.loyalty = person.loyalty
    this.events = 0
    this.active = 0
    this.left = 0
    this.visit = 0
    this.regime = -1
  }

  /** Comes, and has cleared bits while here. */
  enter(bits: Uint32Array): void {
    this.rated = bits
    this.last = -1
    for (let e = 0; e < this.events; e++) bits[this.#items[e] >>> 5] |= 1 << (this.#items[e] & 31)
  }

  /** Goes; the bits are cleared for the next. */
  leave(): void {
    for (let e = 0; e < this.events; e++) this.rated[this.#items[e] >>> 5] = 0
    this.rated = NOTHING_RATED
  }

  rate(item: number): void {
    if (this.events === this.#items.length) {
      const items = new Int32Array(2 * this.events)
      items.set(this.#items)
      this.#items = items
    }
    this.#items[this.events++] = item
    this.left--
    this.last = item
    this.rated[item >>> 5] |= 1 << (item & 31)
  }
}

/** By loyalty: the share of users, and how much of the stream they stay for. */
const SHARE = [0.37, 0.55, 0.08] as const
const LIFE = [0, 0.03, 0.35] as const
const SMALLEST_CIRCLE = 12
/** The chance that one who returns is of loyalty 1. */
const SHORT_RETURN = 0.45
const INTERACTIONS_PER_USER = 144.41
const FIRST_VISIT = { median: 65, spread: 0.8, most: 400, mean: 88 }
const LATER_VISIT = { median: 28, spread: 0.7, most: 200, mean: 35 }

/** Draws what is fixed about a user. */
export function drawPerson(seed: number, index: number, genres: AliasTable = genreTable()): Person {
  const random = new Random(seed, "user", index)
  const dimension = DIMENSIONS[random.integer(DIMENSIONS.length)]
  const bias = USER_BIAS * random.normal()
  const share = random.next()
  const loyalty = share < SHARE[2] ? 2 : share < SHARE[2] + SHARE[1] ? 1 : 0
  const focus = dimension < 12 ? drawFocus(2 + dimension, genres, random) : -1
  return { index, dimension, bias, focus, loyalty }
}

/** This many different genres, as bits. */
function drawFocus(count: number, genres: AliasTable, random: Random): number {
  let focus = 0
  for (let drawn = 0; drawn < count; ) {
    const bit = 1 << genres.pick(random)
    if ((focus & bit) === 0) drawn++
    focus |= bit
  }
  return focus
}

/** Draws the two ends of a user's taste, standard normal: `a`, then `b`. */
export function drawEnds(visitor: Visitor, seed: number, regime: number): void {
  const random = new Random(seed, "taste", regime, visitor.index)
  for (let k = 0; k < visitor.dimension; k++) {
    visitor.ends[k] = random.normal()
    visitor.ends[WIDTH + k] = random.normal()
  }
  visitor.regime = regime
}

/** taste = ((1 − s²)·a + 2s·b) / (1 + s²): a turn by 2·atan(s), standard normal at every s. */
export function turnTaste(visitor: Visitor, s: number): void {
  const { taste, ends, dimension } = visitor
  const near = (1 - s * s) / (1 + s * s)
  const far = (2 * s) / (1 + s * s)
  for (let k = 0; k < dimension; k++) taste[k] = near * ends[k] + far * ends[WIDTH + k]
}

interface Crowd {
  seed: number
  interactions: number
  users: number
}

/** How much visits are stretched. */
function stretch({ interactions, users }: Crowd): number {
  return interactions / users / INTERACTIONS_PER_USER
}

/** How many visits a stream has, roughly. */
export function expectedVisits(crowd: Crowd): number {
  const later = crowd.interactions - crowd.users * stretch(crowd) * FIRST_VISIT.mean
  return crowd.users + later / (stretch(crowd) * LATER_VISIT.mean)
}

/** Users come in order of index; those who may return wait in a circle, one for each loyalty. */
export class Arrivals {
  readonly #crowd: Crowd
  readonly #stretch: number
  readonly #random: Random
  readonly #genres = genreTable()
  readonly #circles: readonly [Visitor[], Visitor[], Visitor[]] = [[], [], []]
  readonly #gone: Visitor[] = []
  #introduced = 0
  #visits = 0

  constructor(crowd: Crowd) {
    this.#crowd = crowd
    this.#stretch = stretch(crowd)
    this.#random = new Random(crowd.seed, "visits")
  }

  get introduced(): number {
    return this.#introduced
  }

  /** The next visit: of a new user while fewer than `due` have come, else of one who returns. Nothing if nobody is left. */
  next(due: number): Visitor | undefined {
    const visitor = this.#introduced < due ? this.#welcome() : (this.#recall() ?? this.#welcome())
    if (visitor !== undefined) this.begin(visitor)
    return visitor
  }

  /** Begins a visit. */
  begin(visitor: Visitor): void {
    const { median, spread, most } = visitor.events === 0 ? FIRST_VISIT : LATER_VISIT
    const length = Math.min(most, median * exp(spread * this.#random.normal()))
    visitor.left = Math.max(1, Math.round(this.#stretch * length))
    visitor.visit = this.#visits++
  }

  /** Ends a visit. A full circle loses one of its own to the one who joins; the tired never return. */
  release(visitor: Visitor, tired: boolean): void {
    const { loyalty } = visitor
    const circle = this.#circles[loyalty]
    const room = Math.max(SMALLEST_CIRCLE, Math.round(SHARE[loyalty] * LIFE[loyalty] * this.#crowd.users))
    if (loyalty === 0 || tired) {
      this.#gone.push(visitor)
    } else if (circle.length < room) {
      circle.push(visitor)
    } else {
      const place = this.#random.integer(circle.length)
      this.#gone.push(circle[place])
      circle[place] = visitor
    }
  }

  #welcome(): Visitor | undefined {
    const { seed, users } = this.#crowd
    if (this.#introduced === users) return undefined
    const visitor = this.#gone.pop() ?? new Visitor()
    visitor.become(drawPerson(seed, this.#introduced++, this.#genres))
    return visitor
  }

  #recall(): Visitor | undefined {
    const [, short, long] = this.#circles
    const first = this.#random.next() < SHORT_RETURN ? short : long
    const circle = first.length > 0 ? first : first === short ? long : short
    if (circle.length === 0) return undefined
    // Of two, the one who has been away longer: few return at once.
    const one = this.#random.integer(circle.length)
    const two = this.#random.integer(circle.length)
    const place = circle[one].visit <= circle[two].visit ? one : two
    const visitor = circle[place]
    circle[place] = circle[circle.length - 1]
    circle.pop()
    return visitor
  }
}
