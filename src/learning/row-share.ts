/**
 * Shares the rows of the calibrated recipe between processes. A change of an item is its row now minus its base: the row
 * before the first event since changes were last sent. Rows take gradient steps and accumulators are sums, so changes of
 * several processes add up. If a change was made at another size than the row has here, the numbers both hold are added.
 *
 * The frame stays as it is: turning it would have to happen everywhere at once. So rows hold more numbers than they
 * would, since one cut short loses more.
 *
 * Under a budget in bytes copies of items owned elsewhere count, but only users and owned items give way, when the next
 * segment arrives; until then what others send comes on top.
 *
 * Pieces of bytes are those of `SharedRun` without their beginning. `read…` checks all, and returns what applies it.
 */

import { readIndicators, writeIndicators } from "../ids/indicator-bytes.ts"
import { Packer, type Unpacker } from "../kernels/packing.ts"
import type { RowModel } from "../models/calibrated/rows.ts"
import type { ModelBatch } from "../models/model.ts"
import type { Side } from "../types.ts"
import type { RungJudge } from "./rung-judge.ts"
import { type Base, type ItemChange, ShareLedger } from "./share-ledger.ts"
import type { SizedRows } from "./sized-rows.ts"

/** An item's index in the other process; undefined if it is not there. */
export type Renumber = (item: number) => number | undefined

/** The last index a neighbour can have: an exact float. */
const LAST_NEIGHBOUR = 16_777_214

/** The latest valid time of a clock. */
const END = 1e12

export class RowShare {
  /** The options that decide what rows mean. */
  readonly shape: string
  readonly #rows: SizedRows<RowModel>
  readonly #search: RungJudge | undefined
  readonly #ledger: ShareLedger
  #time = 0
  readonly #global: Float64Array
  /** Items dropped that may still be neighbours of others. */
  readonly #dropped = new Set<number>()

  constructor(rows: SizedRows<RowModel>, search: RungJudge | undefined) {
    this.#rows = rows
    this.#search = search
    const { model, indicators, limiter } = rows
    this.#ledger = new ShareLedger({ items: model.tables.item, indicators, limiter })
    const { task, sizes, bits, seed, heads } = model
    const policy = search?.options.policy
    const rungs = bits.every((one) => one === 32) ? sizes : sizes.map((size, step) => `${size}@${bits[step]}`)
    this.shape = JSON.stringify([
      "factor, last met",
      task,
      rungs,
      seed,
      heads,
      indicators.columns,
      policy?.context ?? null,
      ...(model.fusion ? [model.fusion.count] : []),
    ])
    this.#global = model.global.slice()
    this.restart()
  }

  /** Starts over with the rows as they are: nothing has changed since. */
  restart(): void {
    const { model, time } = this.#rows
    this.#time = time
    this.#global.set(model.global)
    this.#ledger.restart()
    this.#rows.returns.record()
    this.#search?.options.policy.record?.()
    model.neighbours?.record()
    model.fusion?.record()
    this.#dropped.clear()
  }

  get model(): RowModel {
    return this.#rows.model
  }

  has(side: Side, id: number): boolean {
    return this.model.tables[side].has(id)
  }

  /** Items that are also read for a user. */
  latest(user: number): number[] {
    const { model } = this.#rows
    return model.tables.user.has(user) ? (model.latestOf?.(user) ?? []) : []
  }

  // What the rows say.

  note(side: Side, id: number): void {
    const ledger = this.#ledger
    ledger.touch(side, id)
    if (side === "user") return
    if (!this.has("item", id)) ledger.leave(id)
    else if (!ledger.bases.has(id)) ledger.bases.set(id, this.#baseOf(id))
  }

  /** Notes every item that training on a batch will move. */
  noteTraining(batch: ModelBatch): void {
    this.#forgetDropped()
    const users = new Set<number>()
    for (let r = 0; r < batch.user.length; r++) {
      this.model.meetOne("item", batch.item[r])
      this.#rows.note("item", batch.item[r])
      users.add(batch.user[r])
    }
    for (const user of users) for (const item of this.latest(user)) this.#rows.note("item", item)
  }

  #forgetDropped(): void {
    if (this.#dropped.size > 0) this.model.neighbours?.forget(this.#dropped)
    this.#dropped.clear()
  }

  #baseOf(item: number): Base {
    const { model, lastMet, time } = this.#rows
    const table = model.tables.item
    const row = new Float32Array(table.size(item))
    table.read(item, row, 0)
    return { step: table.step(item), row, met: lastMet.of("item", item, time) }
  }

  /** The base of an item that changed its size follows it: numbers the row got or lost are no change. */
  resized(item: number, cold: boolean): void {
    const base = this.#ledger.bases.get(item)
    if (!base) return
    const { row: old, step } = base
    const now = this.#baseOf(item)
    if (now.step === step) return
    const keep = (from: number, to: number) => {
      now.row[to] = old[from]
    }
    this.#match(step, now.step, keep, cold)
    const { model } = this.#rows
    if (cold || model.sizes[step] === 0) model.renew("item", now.row)
    base.step = now.step
    base.row = now.row
  }

  /** Pairs the places of numbers that rows of an item of two sizes both hold. */
  #match(from: number, to: number, each: (from: number, to: number) => void, cold = false): void {
    const { heads, vectors, sizes } = this.#rows.model
    const head = heads.item
    for (let k = 0; k < head; k++) each(k, k)
    const shared = cold ? 0 : Math.min(sizes[from], sizes[to])
    for (let v = 0; v < vectors.item; v++)
      for (let k = 0; k < shared; k++) each(head + v * sizes[from] + k, head + v * sizes[to] + k)
  }

  isOwner(item: number): boolean {
    return this.#ledger.isOwner(item)
  }

  /** Items that changed elsewhere and wait for a decision; each is returned once. */
  visited(): number[] {
    return this.#ledger.takeVisited()
  }

  decide(isOwner: (item: number) => boolean): void {
    this.#ledger.decide(isOwner)
  }

  takeTouched(): Record<Side, number[]> {
    return this.#ledger.takeTouched()
  }

  // Rows.

  writeRow(side: Side, id: number, out: Packer, renumber?: Renumber): void {
    const { model, lastMet, time, indicators, limiter } = this.#rows
    const table = model.tables[side]
    out.byte(table.step(id))
    const row = new Float32Array(table.size(id))
    table.read(id, row, 0)
    if (renumber && side === "user") model.renumber?.(row, renumber)
    for (const number of row) out.float(number)
    out.double(lastMet.of(side, id, time))
    out.count(limiter.lastOf(side, id))
    writeIndicators(out, indicators, { side, id })
    if (side === "user" || !model.neighbours) return
    this.#forgetDropped()
    for (const row of model.neighbours.rowsOf(id)) {
      const { total, weights } = model.neighbours.entries(row)
      out.float(total)
      writeWeights(out, weights, renumber)
    }
  }

  readRow(side: Side, id: number, from: Unpacker): () => void {
    const rows = this.#rows
    const { model, indicators, lastMet, limiter } = rows
    const table = model.tables[side]
    const step = from.byte()
    if (step > table.top) throw from.damaged(`a step up to ${table.top}`, step)
    const row = from.floats(table.sizes[step])
    if (!model.accepts(side, row)) throw from.damaged("numbers of such a row", Array.from(row.subarray(0, 8)))
    const met = readMet(from)
    const second = from.count(0xffff_ffff)
    const putIndicators = readIndicators(from, indicators, { side, id })
    const { neighbours } = model
    const after = (side === "item" && neighbours ? neighbours.rowsOf(id) : []).map((place) => ({
      ...{ place, total: checkWeight(from, from.float()), weights: readWeights(from) },
    }))
    return () => {
      for (const { place, ...entries } of after) neighbours?.put(place, entries)
      if (side === "item") this.#settle(id)
      const before = table.has(id) ? table.step(id) : -1
      table.ensure(id)
      table.replace(id, step, row, 0)
      if (before !== step) rows.logSize(side, id, { step, why: "elsewhere" })
      if (side === "user" && before === -1) rows.arrived.add(id)
      if (met > 0) lastMet.meet(side, id, met)
      if (rows.segments === 0) rows.time = this.#time = Math.max(rows.time, met)
      putIndicators()
      if (rows.decides(side, id)) limiter.meet(side, id, { second, segment: rows.segments })
      if (rows.live && side === "item") rows.changed.add(id)
    }
  }

  drop(side: Side, id: number): void {
    if (!this.has(side, id)) return
    if (side === "item") this.#settle(id)
    const { model, indicators, lastMet, limiter, sizeLog, live, changed } = this.#rows
    const one = new Set([id])
    model.tables[side].free(id)
    if (side === "item") this.#dropped.add(id)
    indicators.forget(side, one)
    lastMet.forget(side, one)
    limiter.forget(side, one)
    sizeLog?.forget(side, one)
    this.#search?.forget(side, one)
    this.#ledger.untouch(side, id)
    if (side === "item") this.#ledger.leave(id)
    if (live && side === "item") changed.add(id)
  }

  // Changes of items.

  takeChanges(seal: (write: (out: Packer) => void) => Uint8Array): ItemChange[] {
    return this.#ledger.takeChanges(seal, (item) => this.#settle(item))
  }

  /** Sets the change of an item aside, to be taken; its row as it is now is the next base. */
  #settle(item: number): void {
    const base = this.#ledger.bases.get(item)
    if (!base) return
    this.#ledger.bases.delete(item)
    const now = this.#baseOf(item)
    const change = now.row.map((number, k) => number - base.row[k])
    const events = this.#ledger.takeEvents(item)
    const { neighbours } = this.model
    const counted = neighbours?.rowsOf(item).map((place) => neighbours.takeAdded(place)) ?? []
    if (
      events === 0 &&
      now.met === base.met &&
      counted.every((added) => added.size === 0) &&
      change.every((number) => number === 0)
    )
      return
    const { step, met } = now
    this.#ledger.setAside(item, (out) => {
      out.byte(step)
      for (const number of change) out.float(number)
      out.double(met)
      out.count(events)
      for (const added of counted) writeWeights(out, added)
    })
  }

  readChange(item: number, from: Unpacker): () => void {
    const rows = this.#rows
    const { model, indicators, lastMet } = rows
    const table = model.tables.item
    const step = from.byte()
    if (step > table.top) throw from.damaged(`a step up to ${table.top}`, step)
    const change = from.floats(table.sizes[step])
    const met = readMet(from)
    const events = from.count(0xffff_ffff)
    const { neighbours } = model
    const counted = neighbours?.rowsOf(item).map((place) => ({ place, weights: readWeights(from) })) ?? []
    const fresh = !table.has(item)
    if (fresh) model.meetOne("item", item)
    const held = table.step(item)
    const row = new Float32Array(table.sizes[held])
    table.read(item, row, 0)
    if (fresh) table.free(item)
    const addTo = (target: Float32Array) => (k: number, to: number) => {
      target[to] += change[k]
    }
    this.#match(step, held, addTo(row))
    if (!(row.every(Number.isFinite) && model.accepts("item", row)))
      throw from.damaged("a change that leaves a row", Array.from(change.subarray(0, 8)))
    return () => {
      if (model.meetOne("item", item)) rows.logSize("item", item, { step: held, why: "met" })
      const base = this.#ledger.bases.get(item)
      if (base) {
        this.#match(step, base.step, addTo(base.row))
        base.met = Math.max(base.met, met)
      }
      table.write(item, row, 0, 0)
      for (const { place, weights } of counted)
        for (const [other, weight] of weights) neighbours?.add(place, other, weight)
      if (met > lastMet.of("item", item, rows.time)) lastMet.meet("item", item, met)
      indicators.addElsewhere(item, events)
      if (rows.live) rows.changed.add(item)
      if (this.#ledger.visit(item) && events > 0) rows.limiter.meet("item", item, { segment: rows.segments })
    }
  }

  // What belongs to no id.

  writeEvidence(out: Packer): void {
    this.#search?.learnNow()
    const { model } = this.#rows
    out.double(this.#rows.time - this.#time)
    out.count(this.#rows.takeEvents())
    for (let c = 0; c < model.global.length; c++) out.double(model.global[c] - this.#global[c])
    this.#global.set(model.global)
    this.#time = this.#rows.time
    for (const number of model.fusion?.takeLearned() ?? []) out.double(number)
    this.#rows.returns.writeEvidence(out)
    this.#search?.options.policy.writeEvidence?.(out)
  }

  readEvidence(from: Unpacker): () => void {
    const rows = this.#rows
    const time = from.double()
    if (!(time >= 0 && time <= END)) throw from.damaged("a time from 0", time)
    const events = from.count()
    const global = from.doubles(rows.model.global.length)
    const { fusion } = rows.model
    const learned = fusion && from.doubles(fusion.count)
    const count = rows.returns.readEvidence(from)
    const learn = this.#search?.options.policy.readEvidence?.(from)
    return () => {
      rows.time += time
      this.#time += time
      rows.addElsewhere(events)
      if (time > 0) rows.returns.advanceTime(time)
      for (let c = 0; c < global.length; c++) {
        rows.model.global[c] += global[c]
        this.#global[c] += global[c]
      }
      if (learned) fusion?.add(learned)
      count()
      learn?.()
    }
  }

  /** Doubles with their number before; the 0 behind them is that of the numbers older releases averaged. */
  writeGlobal(out: Packer): void {
    const { model, time } = this.#rows
    const learned = new Packer()
    for (const number of model.fusion?.all() ?? []) learned.double(number)
    this.#rows.returns.writeAll(learned)
    this.#search?.options.policy.writeAll?.(learned)
    const bytes = learned.done()
    out.count(1 + model.global.length + bytes.length / 8)
    out.double(time)
    for (const bias of model.global) out.double(bias)
    out.bytes(bytes)
    out.count(0)
  }

  readGlobal(from: Unpacker): () => void {
    const rows = this.#rows
    const { global } = rows.model
    from.count()
    const time = from.double()
    if (!(time >= 0 && time <= END)) throw from.damaged("a time from 0", time)
    const biases = from.doubles(global.length)
    const { fusion } = rows.model
    const weights = fusion && from.doubles(fusion.count)
    const count = rows.returns.readAll(from)
    const learn = this.#search?.options.policy.readAll?.(from)
    from.count(0)
    return () => {
      if (rows.segments > 0) return
      rows.time = time
      this.#time = time
      global.set(biases)
      this.#global.set(biases)
      if (weights) fusion?.put(weights)
      count()
      learn?.()
    }
  }
}

/** Items and what they weigh as neighbours. */
function writeWeights(out: Packer, weights: ReadonlyMap<number, number>, renumber?: Renumber): void {
  const known = [...weights].flatMap(([item, weight]) => {
    const index = renumber ? renumber(item) : item
    return index === undefined ? [] : [[index, weight]]
  })
  out.count(known.length)
  for (const [index, weight] of known) {
    out.count(index)
    out.float(weight)
  }
}

function readWeights(from: Unpacker): Map<number, number> {
  const weights = new Map<number, number>()
  for (let left = from.count(); left > 0; left--) {
    const item = from.count(LAST_NEIGHBOUR)
    weights.set(item, checkWeight(from, from.float()))
  }
  return weights
}

function checkWeight(from: Unpacker, weight: number): number {
  if (!(weight >= 0 && weight < Number.POSITIVE_INFINITY)) throw from.damaged("a weight from 0", weight)
  return weight
}

function readMet(from: Unpacker): number {
  const met = from.double()
  if (!(met >= 0 && met <= END)) throw from.damaged("a time from 0", met)
  return met
}
