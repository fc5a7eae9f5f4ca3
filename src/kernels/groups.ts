/** The reference of what learns groups of rows, and of what unpacks and packs their rows: plain loops. */

import { floatBits, fromBrain, fromHalf, largest, mix, next, toBrain, toHalf, toPower } from "./codes.ts"
import type { Address, Floats, LearnGroups, PackRows, ScoreRows, UnpackRows } from "./kernels.ts"
import {
  GROUP_ALONE,
  GROUP_COUNT,
  GROUP_FROM,
  GROUP_INPUT,
  GROUP_JUDGED,
  GROUP_OWN,
  GROUP_TO,
  GROUP_TRAIL,
  GROUP_USER,
  GROUP_WEIGHT,
  GROUP_WORDS,
  PACKED_AT,
  PACKED_BITS,
  PACKED_ID,
  PACKED_LIFT,
  PACKED_ROW,
  PACKED_SIZE,
  PACKED_STEP,
  PACKED_WORDS,
  ROW_HEAD,
  ROW_LIFT,
  ROW_SIZE,
  ROW_STEP,
  SCORERS,
} from "./layout.ts"
import { exp, log, sigmoid, softplus } from "./math.ts"

/** Working memory. */
interface Memory {
  floats: Floats
  ints: Int32Array
}

/** t stays within this: no bias is left out for good. */
const MIX_MOST = 4

/** Numbers of whole blocks. */
export function blocks(size: number): number {
  return (size + 15) & ~15
}

/** Numbers that the work of groups takes. */
export function groupWork({ widest, longest, rungs }: { widest: number; longest: number; rungs: number }): number {
  return 3 * widest + (5 + rungs) * longest
}

/** One operation, group by group. */
class Groups {
  readonly #f: Floats
  readonly #i: Int32Array
  readonly #p: LearnGroups
  readonly #x: Address
  readonly #dx: Address
  readonly #z: Address
  readonly #e: Address
  /** Errors with the slow and with the quick bias alone. */
  #slow: number[] = []
  #quick: number[] = []
  #width = 0

  constructor({ floats, ints }: Memory, p: LearnGroups) {
    this.#f = floats
    this.#i = ints
    this.#p = p
    this.#x = p.work
    this.#dx = this.#x + p.widest
    this.#z = this.#dx + p.widest
    this.#e = this.#z + p.longest
  }

  #group(g: number, word: number): number {
    return this.#i[this.#p.groups + g * GROUP_WORDS + word]
  }

  #latest(g: number, a: number): Address {
    return this.#i[this.#group(g, GROUP_TRAIL) - a]
  }

  #weight(g: number, a: number): number {
    return this.#f[this.#p.decay + this.#group(g, GROUP_COUNT) * this.#p.latest + a]
  }

  #size(row: Address): number {
    return this.#i[row + ROW_SIZE]
  }

  learn(g: number): void {
    const { pass, passes, losses } = this.#p
    const first = this.#group(g, GROUP_FROM)
    const negatives = this.#group(g, GROUP_TO) - first
    const alone = this.#group(g, GROUP_ALONE) !== 0
    const rows = [this.#group(g, GROUP_OWN)]
    const end = first + Math.floor((negatives * (pass + 1)) / passes)
    for (let r = first + Math.floor((negatives * pass) / passes); r < end && !alone; r++) rows.push(r)
    this.#combine(g)
    const loss = this.#weigh(g, rows, alone)
    if (pass === 0) this.#f[losses + g] = loss
    if (pass === 0 && this.#group(g, GROUP_JUDGED) !== 0) this.#judge(g, rows, alone)
    this.#step(g, rows, pass === 0 && !alone)
  }

  #combine(g: number): void {
    const [f, x] = [this.#f, this.#x]
    const user = this.#group(g, GROUP_USER)
    const count = this.#group(g, GROUP_COUNT)
    let width = this.#size(user)
    f.fill(0, x, x + this.#p.widest)
    for (let k = 0; k < width; k++) f[x + k] = f[user + ROW_HEAD + k]
    for (let a = 0; a < count; a++) {
      const row = this.#latest(g, a)
      if (row === 0) continue
      const size = this.#size(row)
      const y = row + ROW_HEAD + blocks(size)
      width = Math.max(width, size)
      for (let k = 0; k < size; k++) f[x + k] += this.#weight(g, a) * f[y + k]
    }
    this.#width = width
  }

  /** Number k of q̂. */
  #number(row: Address, k: number): number {
    return k < this.#size(row) ? this.#f[row + ROW_HEAD + k] : this.#f[this.#p.lift + this.#i[row + ROW_LIFT] + k]
  }

  #item(r: number): Address {
    return this.#i[this.#p.rows + r]
  }

  #feature(r: number, k: number): number {
    return this.#p.features === 0 ? 0 : this.#f[this.#p.features + SCORERS * r + k]
  }

  #weigh(g: number, rows: readonly number[], alone: boolean): number {
    const [f, z, p] = [this.#f, this.#z, this.#p]
    const weight = f[p.groups + g * GROUP_WORDS + GROUP_WEIGHT]
    rows.forEach((r, j) => {
      const row = this.#item(r)
      let sum = f[row]
      for (let k = 0; k < this.#width; k++) sum += f[this.#x + k] * this.#number(row, k)
      for (let k = 0; k < SCORERS; k++) sum += f[p.fusion + k] * this.#feature(r, k)
      f[z + j] = sum - f[p.chances + r]
    })
    const m = this.#mix()
    const scores = rows.map((_, j) => f[z + j])
    const gaps = rows.map((r) => f[this.#item(r) + 1])
    const errors = (share: number) => {
      const own = scores.map((score, j) => score + share * gaps[j])
      if (alone) return [weight * sigmoid(own[0])]
      const loss = groupLoss(own, alone)
      return own.map((score, j) => weight * (exp(score - own[0] - loss) - (j === 0 ? 1 : 0)))
    }
    this.#slow = errors(-m)
    this.#quick = errors(1 - m)
    errors(0).forEach((error, j) => {
      f[this.#e + j] = error
    })
    return groupLoss(scores, alone)
  }

  /** m */
  #mix(): number {
    return sigmoid(this.#f[this.#p.fusion + 2 * SCORERS])
  }

  /** What the group would have cost with p, its own item's q, and the y of a latest item cut to each rung up to their own. */
  #judge(g: number, rows: readonly number[], alone: boolean): void {
    const { lift, rungs } = this.#p
    const out = this.#group(g, GROUP_JUDGED)
    const z = rows.map((_, j) => this.#f[this.#z + j])
    const user = this.#group(g, GROUP_USER)
    const items = rows.map((r) => this.#item(r))
    /** ⟨v, q̂⟩ of the items, v times weight. */
    const ofItems = (v: Float64Array, weight: number) =>
      items.map((row) => v.reduce((sum, number, k) => sum + weight * number * this.#number(row, k), 0))
    this.#judgeVector(out, { at: user + ROW_HEAD, step: this.#i[user + ROW_STEP], noise: 0 }, { z, alone }, (v) =>
      ofItems(v, 1),
    )
    const own = items[0]
    const noise = lift + this.#i[own + ROW_LIFT]
    const ofOwn = (v: Float64Array) => {
      let sum = 0
      for (let k = 0; k < Math.min(v.length, this.#width); k++)
        sum += this.#f[this.#x + k] * (v[k] - this.#f[noise + k])
      return [sum]
    }
    this.#judgeVector(out + rungs, { at: own + ROW_HEAD, step: this.#i[own + ROW_STEP], noise }, { z, alone }, ofOwn)
    const a = this.#group(g, GROUP_INPUT)
    if (a < 0) return
    const row = this.#latest(g, a)
    const y = { at: row + ROW_HEAD + blocks(this.#size(row)), step: this.#i[row + ROW_STEP], noise: 0 }
    this.#judgeVector(out + 2 * rungs, y, { z, alone }, (v) => ofItems(v, this.#weight(g, a)))
  }

  /** `partOf`: what a vector has in z, the first ones or all. */
  #judgeVector(
    out: Address,
    vector: { at: Address; step: number; noise: Address },
    p: { z: readonly number[]; alone: boolean },
    partOf: (v: Float64Array) => number[],
  ): void {
    const { ladder, rungs } = this.#p
    const size = (rung: number) => this.#i[ladder + rung]
    const bits = (rung: number) => this.#i[ladder + rungs + rung]
    let numbers = Float64Array.from({ length: size(vector.step) }, (_, k) => this.#f[vector.at + k])
    const whole = partOf(numbers)
    this.#f[out + vector.step] = groupLoss(p.z, p.alone)
    const full = numbers
    for (let rung = vector.step - 1; rung >= 0; rung--) {
      numbers = numbers.slice(0, size(rung))
      if (bits(rung) !== bits(rung + 1)) numbers = this.#cut(full.slice(0, size(rung)), bits(rung), vector.noise)
      const part = partOf(numbers)
      const other = p.z.map((z, j) => (j < whole.length ? z - (whole[j] - part[j]) : z))
      this.#f[out + rung] = groupLoss(other, p.alone)
    }
  }

  /** Numbers in fewer bits, rounded to the nearest; kept relative to others. */
  #cut(numbers: Float64Array, bits: number, noise: Address): Float64Array<ArrayBuffer> {
    const less = (k: number) => (noise === 0 ? 0 : this.#f[noise + k])
    const work = numbers.map((number, k) => number - less(k))
    const most = largest(work, work.length)
    const end = bits === 16 ? 32_767 : 127
    const scale = most === 0 ? 0 : fromBrain(bits === 16 ? toPower(most / end) : toBrain(most / end, -1))
    const code = (number: number) => (most === 0 ? 0 : Math.floor(number / scale + 0.5))
    return Float64Array.from(work, (number, k) => scale * Math.max(-end, Math.min(end, code(number))) + less(k))
  }

  #squares(from: Address, count: number): number {
    let sum = 0
    for (let k = 0; k < count; k++) sum += this.#f[from + k] * this.#f[from + k]
    return sum
  }

  /** Adds to an accumulator; returns what it slows the step down by. */
  #slowed(at: Address, squares: number): number {
    this.#f[at] += squares
    return 1 / Math.sqrt(Math.min(this.#f[at], this.#p.constants.most))
  }

  #step(g: number, rows: readonly number[], fuses: boolean): void {
    const [f, x, dx, e, p] = [this.#f, this.#x, this.#dx, this.#e, this.#p]
    const { rate, l2 } = p.constants
    const width = this.#width
    const m = this.#mix()
    if (fuses && p.features !== 0) this.#stepFusion(rows)
    if (fuses) this.#stepMix(rows)
    f.fill(0, dx, dx + p.widest)
    rows.forEach((r, j) => {
      const [row, error] = [this.#item(r), f[e + j]]
      const shared = Math.min(this.#size(row), width)
      const pace = rate.item * this.#slowed(row + 2, error * error * this.#squares(x, shared))
      const [slow, quick] = [-rate.slow * this.#slow[j], -rate.quick * this.#quick[j]]
      f[row] += slow + m * (quick - slow)
      f[row + 1] += quick - slow
      for (let k = 0; k < width; k++) f[dx + k] += error * this.#number(row, k)
      for (let k = row + ROW_HEAD; k < row + ROW_HEAD + shared; k++)
        f[k] -= pace * (error * f[x + k - row - ROW_HEAD] + l2.item * f[k])
    })
    const user = this.#group(g, GROUP_USER)
    const held = this.#size(user)
    this.#move(user + ROW_HEAD, held, { rate: rate.user * this.#slowed(user, this.#squares(dx, held)), l2: l2.user })
    for (let a = 0; a < this.#group(g, GROUP_COUNT); a++) {
      const row = this.#latest(g, a)
      if (row === 0) continue
      const [size, weight] = [this.#size(row), this.#weight(g, a)]
      const slow = this.#slowed(row + 3, weight * weight * this.#squares(dx, size))
      this.#move(row + ROW_HEAD + blocks(size), size, { rate: rate.input * weight * slow, l2: l2.input })
    }
  }

  #move(at: Address, size: number, p: { rate: number; l2: number }): void {
    const f = this.#f
    for (let k = 0; k < size; k++) f[at + k] -= p.rate * (f[this.#dx + k] + p.l2 * f[at + k])
  }

  #stepMix(rows: readonly number[]): void {
    const f = this.#f
    const { rate, fusion } = this.#p.constants
    const m = this.#mix()
    const at = this.#p.fusion + 2 * SCORERS
    const g = m * (1 - m) * rows.reduce((sum, r, j) => sum + f[this.#e + j] * f[this.#item(r) + 1], 0)
    f[at + 1] += g * g
    f[at] = Math.max(
      -MIX_MOST,
      Math.min(MIX_MOST, f[at] - (rate.mix * g) / Math.sqrt(Math.min(f[at + 1], fusion.most))),
    )
  }

  #stepFusion(rows: readonly number[]): void {
    const f = this.#f
    const { rate, most } = this.#p.constants.fusion
    for (let k = 0; k < SCORERS; k++) {
      const at = this.#p.fusion + k
      let g = 0
      rows.forEach((r, j) => {
        g += f[this.#e + j] * this.#feature(r, k)
      })
      f[at + SCORERS] += g * g
      f[at] = Math.max(0, f[at] - (rate * g) / Math.sqrt(Math.min(f[at + SCORERS], most)))
    }
  }
}

/** −log softmax(z)_0, or of one alone −log(1 − σ(z_0)). */
function groupLoss(z: readonly number[], alone: boolean): number {
  if (alone) return softplus(z[0])
  const top = Math.max(...z)
  return log(z.reduce((sum, score) => sum + exp(score - top), 0)) + top - z[0]
}

export function learnGroups(memory: Memory, p: LearnGroups): void {
  const groups = new Groups(memory, p)
  for (let g = p.from; g < p.to; g++) groups.learn(g)
}

export function scoreRows({ floats, ints }: Memory, p: ScoreRows): void {
  for (let i = 0; i < p.count; i++) {
    const row = ints[p.rows + i]
    const [size, noise] = [ints[row + ROW_SIZE], p.lift + ints[row + ROW_LIFT]]
    let sum = floats[row]
    for (let k = 0; k < p.columns; k++) sum += floats[p.x + k] * floats[k < size ? row + ROW_HEAD + k : noise + k]
    floats[p.out + i] = sum
  }
}

/** What a packed row is made of. */
function recordOf(ints: Int32Array, at: Address) {
  const [packed, row, size] = [ints[at + PACKED_AT], ints[at + PACKED_ROW], ints[at + PACKED_SIZE]]
  const [bits, tail, id] = [ints[at + PACKED_BITS], ints[at + PACKED_LIFT], ints[at + PACKED_ID]]
  return { packed, row, size, bits, tail, id, step: ints[at + PACKED_STEP] }
}

function viewsOf({ buffer }: Int32Array) {
  return { halves: new Uint16Array(buffer), bytes: new Int8Array(buffer), plain: new Float32Array(buffer) }
}

export function unpackRows({ floats, ints }: Memory, p: UnpackRows): void {
  const { halves, bytes, plain } = viewsOf(ints)
  const { whole, head, vectors, lift } = p.form
  for (let i = 0; i < p.count; i++) {
    const { packed, row, size, bits, tail, step } = recordOf(ints, p.records + i * PACKED_WORDS)
    ints[row + ROW_SIZE] = size
    ints[row + ROW_LIFT] = tail
    ints[row + ROW_STEP] = step
    const h = 2 * packed + head
    for (let k = 0; k < head; k++)
      floats[row + k] = bits === 32 ? plain[packed + whole + k] : fromHalf(halves[2 * packed + k])
    for (let v = 0; v < vectors; v++) {
      const at = row + ROW_HEAD + v * blocks(size)
      const noise = v === 0 && lift !== 0 ? lift + tail : 0
      for (let k = 0; k < blocks(size); k++) {
        const more = noise === 0 ? 0 : floats[noise + k]
        if (k >= size) floats[at + k] = more
        else if (bits === 32) floats[at + k] = plain[packed + whole + head + v * size + k]
        else {
          const code = h + vectors
          const c = bits === 16 ? (halves[code + v * size + k] << 16) >> 16 : bytes[2 * code + v * size + k]
          floats[at + k] = Math.fround(fromBrain(halves[h + v]) * c) + more
        }
      }
    }
  }
}

export function packRows({ floats, ints }: Memory, p: PackRows): void {
  const { halves, bytes, plain } = viewsOf(ints)
  const { whole, head, vectors, lift } = p.form
  for (let i = 0; i < p.count; i++) {
    const { packed, row, size, bits, tail, id } = recordOf(ints, p.records + i * PACKED_WORDS)
    let state = mix(id ^ Math.imul(p.seed + 1, 0x9e3779b1))
    for (let k = 0; k < head; k++) state = mix(state ^ floatBits(floats[row + k]))
    for (let k = 0; k < head; k++) {
      state = next(state)
      if (bits === 32) plain[packed + whole + k] = floats[row + k]
      else halves[2 * packed + k] = toHalf(floats[row + k], state >>> 19)
    }
    const h = 2 * packed + head
    for (let v = 0; v < vectors && size > 0; v++) {
      const at = row + ROW_HEAD + v * blocks(size)
      if (bits === 32) {
        for (let k = 0; k < size; k++) plain[packed + whole + head + v * size + k] = floats[at + k]
        continue
      }
      const work = Float64Array.from({ length: size }, (_, k) =>
        v === 0 && lift !== 0 ? floats[at + k] - floats[lift + tail + k] : floats[at + k],
      )
      const most = largest(work, size)
      state = next(state)
      const brain = most === 0 ? 0 : bits === 16 ? toPower(most / 32_767) : toBrain(most / 127, state >>> 16)
      halves[h + v] = brain
      const steps = most === 0 ? 0 : 1 / fromBrain(brain)
      const base = bits === 16 ? 32_768 : 128
      for (let k = 0; k < size; k++) {
        state = next(state)
        const code = ((work[k] * steps + (state >>> 8) / 0x1_00_0000 + base) | 0) - base
        if (bits === 16) halves[h + vectors + v * size + k] = code
        else {
          const cut = most > 0 && Math.abs(work[k]) === most ? 127 * Math.sign(work[k]) : code
          bytes[2 * (h + vectors) + v * size + k] = Math.max(-127, Math.min(127, cut))
        }
      }
    }
  }
}
