/**
 * The frame of a factor model: its coordinates turned so that the first ones carry the most.
 *
 * ⟨Rp, Rq⟩ = ⟨p, q⟩ for an orthogonal R, so a turn changes no prediction between full rows; a shorter row keeps the part
 * of the turned vector it has numbers for. With R from C = Σ w_i·q_i·q_iᵀ, descending, leaving off the last numbers of a
 * row is the least-squares way to shorten it. (Both sides learn from the same products, so the frame suits the users as
 * well: plain gradient steps keep PᵀP and QᵀQ in proportion, those of factor.ts nearly so.)
 */

import type { RowModel } from "./rows.ts"

/** Turns the model's frame; `weigh` says how much an item counts. */
export function turnFrame(model: RowModel, weigh: (item: number) => number): void {
  const { width } = model
  if (width < 2) return
  const moments = secondMoments(model, width, weigh)
  const turn = eigenvectors(moments, width)
  const turned = new Float64Array(width)
  for (const side of ["user", "item"] as const) {
    const table = model.tables[side]
    for (const id of table.ids()) {
      const held = model.sizes[table.step(id)]
      const size = Math.min(width, held)
      if (size === 0) continue
      const row = table.numbersOf(id)
      for (let v = 0; v < model.vectors[side]; v++) {
        const at = table.placeOf(id) + model.heads[side] + v * held
        for (let r = 0; r < size; r++) {
          let sum = 0
          for (let k = 0; k < size; k++) sum += turn[r * width + k] * row[at + k]
          turned[r] = sum
        }
        for (let r = 0; r < size; r++) row[at + r] = turned[r]
      }
    }
  }
}

/** Σ w_i·q_i·q_iᵀ; q is the first vector of an item. */
function secondMoments(model: RowModel, width: number, weigh: (item: number) => number): Float64Array {
  const table = model.tables.item
  const moments = new Float64Array(width * width)
  for (const id of table.ids()) {
    const size = Math.min(width, model.sizes[table.step(id)])
    const weight = weigh(id)
    if (weight === 0) continue
    const row = table.numbersOf(id)
    const at = table.placeOf(id) + model.heads.item
    for (let j = 0; j < size; j++) {
      const scaled = weight * row[at + j]
      for (let k = 0; k <= j; k++) moments[j * width + k] += scaled * row[at + k]
    }
  }
  for (let j = 0; j < width; j++) for (let k = 0; k < j; k++) moments[k * width + j] = moments[j * width + k]
  return moments
}

/**
 * Eigenvectors of a symmetric matrix as rows, largest eigenvalue first, by cyclic Jacobi rotations. Between two turns the
 * matrix stays nearly diagonal, so a few sweeps do. A row keeps the sign of its own coordinate, so that a frame at rest
 * stays at rest.
 */
export function eigenvectors(matrix: Float64Array, width: number): Float64Array {
  const a = matrix.slice()
  const v = new Float64Array(width * width)
  for (let i = 0; i < width; i++) v[i * width + i] = 1
  let trace = 0
  for (let i = 0; i < width; i++) trace += a[i * width + i]
  const small = 1e-9 * trace
  for (let sweep = 0; sweep < 12; sweep++) {
    let turned = false
    for (let p = 0; p < width; p++)
      for (let q = p + 1; q < width; q++) {
        const apq = a[p * width + q]
        if (Math.abs(apq) <= small) continue
        turned = true
        const theta = (a[q * width + q] - a[p * width + p]) / (2 * apq)
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1))
        const c = 1 / Math.sqrt(t * t + 1)
        rotate(a, v, { width, p, q, c, s: t * c })
      }
    if (!turned) break
  }
  const order = Array.from({ length: width }, (_, i) => i).sort((i, j) => a[j * width + j] - a[i * width + i] || i - j)
  const out = new Float64Array(width * width)
  order.forEach((from, to) => {
    const sign = v[from * width + from] < 0 ? -1 : 1
    for (let k = 0; k < width; k++) out[to * width + k] = sign * v[from * width + k]
  })
  return out
}

/** A ← JᵀAJ and V ← JᵀV (eigenvectors as rows) for a rotation of rows and columns p and q. */
function rotate(
  a: Float64Array,
  v: Float64Array,
  { width, p, q, c, s }: { width: number; p: number; q: number; c: number; s: number },
): void {
  for (let k = 0; k < width; k++) {
    const [akp, akq] = [a[k * width + p], a[k * width + q]]
    a[k * width + p] = c * akp - s * akq
    a[k * width + q] = s * akp + c * akq
  }
  for (let k = 0; k < width; k++) {
    const [apk, aqk] = [a[p * width + k], a[q * width + k]]
    a[p * width + k] = c * apk - s * aqk
    a[q * width + k] = s * apk + c * aqk
    const [vpk, vqk] = [v[p * width + k], v[q * width + k]]
    v[p * width + k] = c * vpk - s * vqk
    v[q * width + k] = s * vpk + c * vqk
  }
}
