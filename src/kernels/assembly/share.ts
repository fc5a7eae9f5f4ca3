/** Part p of n of some units of work is [first, last); every unit belongs to one part. */

@inline
export function first(units: i32, part: i32, parts: i32): i32 {
  const rest = units % parts;
  return (units / parts) * part + (part < rest ? part : rest);
}

@inline
export function last(units: i32, part: i32, parts: i32): i32 {
  return first(units, part + 1, parts);
}

/** Columns are shared out in cache lines, so that no two parts write to the same one. */
export const LINE: i32 = 16;

@inline
export function firstColumn(columns: i32, part: i32, parts: i32): i32 {
  return min(columns, first((columns + LINE - 1) / LINE, part, parts) * LINE);
}

@inline
export function lastColumn(columns: i32, part: i32, parts: i32): i32 {
  return firstColumn(columns, part + 1, parts);
}
