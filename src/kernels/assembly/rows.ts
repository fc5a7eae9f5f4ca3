/** Plain passes over rows: column sums, plain steps, Adam, copies, fill. */

import { first, firstColumn, last, lastColumn, LINE } from "./share";
import { fma, put, putPart, splat } from "./vector";

export function columnSums(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const input: usize = load<u32>(p, 4);
  const rows = load<i32>(p, 8);
  const columns = load<i32>(p, 12);
  const stride: usize = columns * 4;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += LINE) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    let row = input + c * 4;
    for (let r = 0; r < rows; r++) {
      s0 = f32x4.add(s0, v128.load(row));
      s1 = f32x4.add(s1, v128.load(row, 16));
      s2 = f32x4.add(s2, v128.load(row, 32));
      s3 = f32x4.add(s3, v128.load(row, 48));
      row += stride;
    }
    const to = out + c * 4;
    put(to, s0, end - c);
    if (end - c > 4) put(to + 16, s1, end - c - 4);
    if (end - c > 8) put(to + 32, s2, end - c - 8);
    if (end - c > 12) put(to + 48, s3, end - c - 12);
  }
}

export function moveRows(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const base: usize = load<u32>(p, 4);
  const index: usize = load<u32>(p, 8);
  const delta: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const rate = f32x4.neg(splat(p + 24));
  const stride: usize = columns * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const from = base + load<i32>(index + r * 4) * stride;
    const step = delta + r * stride;
    const to = out + r * stride;
    const full: usize = (columns & ~3) * 4;
    for (let o: usize = 0; o < full; o += 16) v128.store(to + o, fma(rate, v128.load(step + o), v128.load(from + o)));
    if (full < stride) put(to + full, fma(rate, v128.load(step + full), v128.load(from + full)), columns & 3);
  }
}

/**
 * Adam on up to four elements: w −= rate·(m·c₁)/(√(v·c₂) + ε). On the tape: value, gradient, first, second, corrections,
 * rows, columns, stride of the moments, rate, β₁, 1−β₁, β₂, 1−β₂, ε, l2.
 */
@inline
function adamFour(p: usize, value: usize, gradient: usize, firsts: usize, seconds: usize, rate: v128, correction: v128, lanes: i32): void {
  const w = v128.load(value);
  const g = fma(splat(p + 56), w, v128.load(gradient));
  const m = fma(splat(p + 36), v128.load(firsts), f32x4.mul(splat(p + 40), g));
  const v = fma(splat(p + 44), v128.load(seconds), f32x4.mul(f32x4.mul(splat(p + 48), g), g));
  const root = f32x4.sqrt(f32x4.mul(v, correction));
  const step = f32x4.div(f32x4.mul(rate, m), f32x4.add(root, splat(p + 52)));
  put(firsts, m, lanes);
  put(seconds, v, lanes);
  put(value, f32x4.sub(w, step), lanes);
}

/** Adam on elements [from, to) of a row. */
function adamRow(p: usize, row: i32, from: i32, to: i32): void {
  const corrections = load<u32>(p, 16) + row * 8;
  const rate = f32x4.mul(splat(p + 32), splat(corrections));
  const correction = splat(corrections + 4);
  const at: usize = (<usize>row * load<i32>(p, 24) + from) * 4;
  const spread: usize = (<usize>row * load<i32>(p, 28) + from) * 4;
  let gradient = load<u32>(p, 4) + at, value = load<u32>(p) + at;
  let firsts = load<u32>(p, 8) + spread, seconds = load<u32>(p, 12) + spread;
  for (let left = to - from; left > 0; left -= 4) {
    adamFour(p, value, gradient, firsts, seconds, rate, correction, left);
    value += 16;
    gradient += 16;
    firsts += 16;
    seconds += 16;
  }
}

export function adam(p: usize, part: i32, parts: i32): void {
  const rows = load<i32>(p, 20);
  const columns = load<i32>(p, 24);
  if (rows == 1) {
    const from = firstColumn(columns, part, parts);
    const to = lastColumn(columns, part, parts);
    if (from < to) adamRow(p, 0, from, to);
    return;
  }
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) adamRow(p, r, 0, columns);
}

export function copyRows(p: usize, part: i32, parts: i32): void {
  const rows = load<i32>(p, 8);
  const columns = load<i32>(p, 12);
  const outStride: usize = load<i32>(p, 16) * 4, inputStride: usize = load<i32>(p, 20) * 4;
  const full: usize = (columns & ~3) * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const to = load<u32>(p) + r * outStride, from = load<u32>(p, 4) + r * inputStride;
    for (let o: usize = 0; o < full; o += 16) v128.store(to + o, v128.load(from + o));
    if (columns & 3) putPart(to + full, v128.load(from + full), columns & 3);
  }
}

export function fill(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const count = load<i32>(p, 4);
  const value = splat(p + 8);
  const from = firstColumn(count, part, parts), end = lastColumn(count, part, parts);
  const full = out + (end & ~3) * 4;
  for (let to = out + from * 4; to < full; to += 16) v128.store(to, value);
  if (from < end && end & 3) put(full, value, end & 3);
}
