/** Small dense least squares in double precision. */

/**
 * argmin_x ‖A x − b‖ for A [rows×columns] row-major, by Cholesky on AᵀA with a trace of ridge for maps that lost rank.
 * Returns the solution and the distance ‖A x − b‖.
 */
export function leastSquares(
  a: ArrayLike<number>,
  b: Float64Array,
  columns: number,
): { solution: Float64Array; distance: number } {
  const rows = b.length
  const gram = new Float64Array(columns * columns)
  const solution = new Float64Array(columns)
  let trace = 0
  for (let i = 0; i < columns; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0
      for (let r = 0; r < rows; r++) sum += a[r * columns + i] * a[r * columns + j]
      gram[i * columns + j] = sum
    }
    trace += gram[i * columns + i]
    for (let r = 0; r < rows; r++) solution[i] += a[r * columns + i] * b[r]
  }
  const ridge = 1e-10 * (trace / Math.max(1, columns)) + 1e-30
  // L Lᵀ = AᵀA + ridge·I, then L y = Aᵀb, Lᵀ x = y
  for (let i = 0; i < columns; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = gram[i * columns + j] + (i === j ? ridge : 0)
      for (let k = 0; k < j; k++) sum -= gram[i * columns + k] * gram[j * columns + k]
      gram[i * columns + j] = i === j ? Math.sqrt(sum) : sum / gram[j * columns + j]
    }
  }
  for (let i = 0; i < columns; i++) {
    for (let k = 0; k < i; k++) solution[i] -= gram[i * columns + k] * solution[k]
    solution[i] /= gram[i * columns + i]
  }
  for (let i = columns - 1; i >= 0; i--) {
    for (let k = i + 1; k < columns; k++) solution[i] -= gram[k * columns + i] * solution[k]
    solution[i] /= gram[i * columns + i]
  }
  let squares = 0
  for (let r = 0; r < rows; r++) {
    let d = -b[r]
    for (let c = 0; c < columns; c++) d += a[r * columns + c] * solution[c]
    squares += d * d
  }
  return { solution, distance: Math.sqrt(squares) }
}
