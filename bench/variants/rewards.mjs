/**
 * Other rewards of a rung than the default's: what it saves on the very event it has just learned, and what a probe of
 * one step saves on the id's next event (method.md §6, with the rung as it is lifted). Binary task.
 *
 * Both return, by side and id, for each of its rows in turn, Δ of every rung held by step.
 */

import { sigmoid } from "../../dist/kernels/math.js"

/** Δ on each row after the segment was learned. */
export function lossesAfter(model, { user, item, label }) {
  return eachRung(model, { user, item }, (side, r, { from, to }) => {
    const [p, q] = [numbersOf(model, "user", user[r], item[r]), numbersOf(model, "item", item[r], item[r])]
    const base = baseOf(model, user[r], item[r])
    // An item cut short is lifted with ε in the place of its numbers, a user with zeros.
    const lifted = side === "item" ? liftOf(model, item[r]) : undefined
    const product = (size) => dot(p, q, 0, size) + (lifted ? dot(p, lifted, size, p.length) : 0)
    return loss(base + product(from), label[r]) - loss(base + product(to), label[r])
  })
}

/** Δ on the id's next row of both sizes after one step on this one; no Δ for an id's last row. */
export function lossesOfProbe(model, { user, item, label }, rate) {
  model.meet({ user, item })
  const ids = { user, item }
  const next = { user: nextRows(user), item: nextRows(item) }
  return eachRung(model, ids, (side, r, { from, to }) => {
    const other = next[side][r]
    if (other === undefined) return Number.NaN
    const own = numbersOf(model, side, ids[side][r], item[r]).slice()
    if (side === "item") own.set(liftOf(model, item[r]).subarray(from, to), from)
    else own.fill(0, from, to)
    const across = (row) =>
      side === "user" ? numbersOf(model, "item", item[row], item[row]) : numbersOf(model, "user", user[row], item[row])
    const [here, there] = [across(r), across(other)]
    const error = sigmoid(baseOf(model, user[r], item[r]) + dot(own, here, 0, from)) - label[r]
    const tuned = own.map((value, k) => value - rate * error * (here[k] ?? 0))
    const base = baseOf(model, user[other], item[other])
    const keep = dot(tuned, there, 0, from) + (side === "item" ? dot(own, there, from, to) : 0)
    const grow = dot(tuned, there, 0, to)
    return loss(base + keep, label[other]) - loss(base + grow, label[other])
  })
}

function eachRung(model, ids, saved) {
  const out = { user: new Map(), item: new Map() }
  for (const side of ["user", "item"])
    for (let r = 0; r < ids[side].length; r++) {
      const id = ids[side][r]
      const held = model.tables[side].step(id)
      const rungs = Array.from({ length: held }, (_, step) =>
        saved(side, r, { from: model.sizes[step], to: model.sizes[step + 1] }),
      )
      if (!out[side].has(id)) out[side].set(id, [])
      out[side].get(id).push(rungs)
    }
  return out
}

/** For each row the id's next one. */
function nextRows(ids) {
  const latest = new Map()
  const next = new Array(ids.length)
  for (let r = ids.length - 1; r >= 0; r--) {
    next[r] = latest.get(ids[r])
    latest.set(ids[r], r)
  }
  return next
}

/** A row's vector; an item's with the numbers it is lifted with behind. */
function numbersOf(model, side, id, item) {
  const table = model.tables[side]
  const at = table.placeOf(id) + model.heads[side]
  const size = model.sizes[table.step(id)]
  const own = table.numbersOf(id).subarray(at, at + size)
  if (side === "user") return own
  const lifted = liftOf(model, item).slice()
  lifted.set(own)
  return lifted
}

function liftOf(model, item) {
  const tail = model.noise.tail(item)
  return model.noise.numbers.subarray(tail, tail + model.sizes[model.sizes.length - 1])
}

function baseOf(model, user, item) {
  const { user: users, item: items } = model.tables
  return model.global[0] + users.numbersOf(user)[users.placeOf(user)] + items.numbersOf(item)[items.placeOf(item)]
}

function dot(a, b, from, to) {
  let sum = 0
  for (let k = from; k < Math.min(to, a.length, b.length); k++) sum += a[k] * b[k]
  return sum
}

const loss = (z, label) => (sigmoid(z) - label) ** 2
