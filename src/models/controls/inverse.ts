/**
 * The inverse of a symmetric positive definite matrix by Cholesky's A = L·Lᵀ: A⁻¹ = T·Tᵀ with T = (L⁻¹)ᵀ. All three steps are
 * products of contiguous pieces of rows.
 */

/** Of n×n numbers, row-major; their lower triangle is read, and all are overwritten by the inverse. */
export function invert(matrix: Float64Array, n: number): Float64Array {
  const rows = Array.from({ length: n }, (_, i) => matrix.subarray(i * n, (i + 1) * n))
  for (let i = 0; i < n; i++) {
    const row = rows[i]
    for (let j = 0; j < i; j++) row[j] = (row[j] - product(row, rows[j], { from: 0, to: j })) / rows[j][j]
    row[i] = Math.sqrt(row[i] - product(row, row, { from: 0, to: i }))
  }
  const turned = Array.from({ length: n }, () => new Float64Array(n))
  for (let j = 0; j < n; j++) {
    const row = turned[j]
    row[j] = 1 / rows[j][j]
    for (let i = j + 1; i < n; i++) row[i] = -product(rows[i], row, { from: j, to: i }) / rows[i][i]
  }
  for (let i = 0; i < n; i++)
    for (let j = 0; j <= i; j++) rows[i][j] = rows[j][i] = product(turned[i], turned[j], { from: i, to: n })
  return matrix
}

/** Σ a_k·b_k, in four sums: one would wait for itself. */
function product(a: Float64Array, b: Float64Array, { from, to }: { from: number; to: number }): number {
  let [s0, s1, s2, s3] = [0, 0, 0, 0]
  let k = from
  for (; k + 3 < to; k += 4) {
    s0 += a[k] * b[k]
    s1 += a[k + 1] * b[k + 1]
    s2 += a[k + 2] * b[k + 2]
    s3 += a[k + 3] * b[k + 3]
  }
  for (; k < to; k++) s0 += a[k] * b[k]
  return s0 + s1 + (s2 + s3)
}
