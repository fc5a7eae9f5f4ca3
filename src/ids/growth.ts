/** Columns per id grow by doubling. */

type Column = Int32Array | Uint32Array | Uint16Array | Uint8Array | Float32Array | Float64Array

/** The first doubling of `capacity` that holds `needed`. */
export function nextCapacity(capacity: number, needed: number): number {
  let next = Math.max(1, capacity)
  while (next < needed) next *= 2
  return next
}

/** A longer copy of the column, zeros behind. */
export function grown<T extends Column>(column: T, length: number): T {
  const next = new (column.constructor as new (length: number) => T)(length)
  next.set(column)
  return next
}
