/**
 * One user against many items, with running statistics: tanh(y_u + y_i) = 1 − 2/(e^{2y_u}·e^{2y_i} + 1), so that each
 * side's exponential is taken once and a pair costs one division per column, however many the outputs.
 */

import { first, firstColumn, last, lastColumn } from "./share";
import { dot, exp, fma, mask, put, splat, sumLanes } from "./vector";

/** Columns whose constants a thread keeps at hand. */
const SPAN: i32 = 1024;
const SPAN_BYTES: usize = 4096;

/** y = half·factor + offset of some columns: factor = γ·scale, offset = (bias − mean)·factor + β on the side that has it. */
function setConstants(factors: usize, offsets: usize, norm: usize, bias: usize, at: usize, width: i32): void {
  for (let j = 0; j < width; j += 4) {
    const o: usize = at + j * 4;
    const deviation = f32x4.sqrt(f32x4.add(v128.load(load<u32>(norm, 12) + o), splat(norm + 24)));
    const factor = f32x4.mul(f32x4.div(f32x4.splat(1), deviation), v128.load(load<u32>(norm) + o));
    v128.store(factors + j * 4, factor);
    let offset = f32x4.splat(0);
    if (bias) offset = fma(f32x4.sub(v128.load(bias + o), v128.load(load<u32>(norm, 8) + o)), factor, v128.load(load<u32>(norm, 4) + o));
    v128.store(offsets + j * 4, offset);
  }
}

export function hiddenPowers(p: usize, part: i32, parts: i32, scratch: usize): void {
  const out: usize = load<u32>(p);
  const largest: usize = load<u32>(p, 4);
  const half: usize = load<u32>(p, 8);
  const bias: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const limit = splat(p + 24), below = f32x4.neg(limit);
  const norm = p + 28;
  const stride: usize = columns * 4;
  const factors = scratch, offsets = scratch + SPAN_BYTES;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += SPAN) {
    const width = min(SPAN, end - c);
    const at: usize = c * 4;
    setConstants(factors, offsets, norm, bias, at, width);
    memory.fill(largest + at, 0, width * 4);
    for (let r = 0; r < rows; r++) {
      const row: usize = r * stride + at;
      for (let j = 0; j < width; j += 4) {
        const o: usize = j * 4;
        const y = fma(v128.load(half + row + o), v128.load(factors + o), v128.load(offsets + o));
        put(largest + at + o, f32x4.max(v128.load(largest + at + o), f32x4.abs(y)), width - j);
        const cut = f32x4.pmax(f32x4.pmin(y, limit), below);
        put(out + row + o, exp(f32x4.add(cut, cut)), width - j);
      }
    }
  }
}

/** w/(user·item + 1) of four columns. */
@inline
function term(weight: usize, user: usize, item: usize): v128 {
  return f32x4.div(v128.load(weight), fma(v128.load(user), v128.load(item), f32x4.splat(1)));
}

/** Σ weight/(user·item + 1), always in the same order. */
function sumTerms(weight: usize, user: usize, item: usize, columns: i32): f32 {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let left = columns;
  for (; left >= 16; left -= 16) {
    s0 = f32x4.add(s0, term(weight, user, item));
    s1 = f32x4.add(s1, term(weight + 16, user + 16, item + 16));
    s2 = f32x4.add(s2, term(weight + 32, user + 32, item + 32));
    s3 = f32x4.add(s3, term(weight + 48, user + 48, item + 48));
    weight += 64;
    user += 64;
    item += 64;
  }
  for (; left > 0; left -= 4) {
    s0 = f32x4.add(s0, v128.and(term(weight, user, item), mask(left)));
    weight += 16;
    user += 16;
    item += 16;
  }
  return sumLanes(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
}

/** Σ of `count` numbers. */
function sum(from: usize, count: i32): f32 {
  let total: f32 = 0;
  for (let i = 0; i < count; i++) total += load<f32>(from + i * 4);
  return total;
}

export function hiddenScores(p: usize, part: i32, parts: i32, scratch: usize): void {
  const scores: usize = load<u32>(p);
  const user: usize = load<u32>(p, 4);
  const items: usize = load<u32>(p, 8);
  const weight: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 20);
  const columns = load<i32>(p, 24);
  const outputs = load<i32>(p, 28);
  const outputBias: usize = load<u32>(p, 16);
  const stride: usize = columns * 4;
  const from = first(rows, part, parts);
  const end = last(rows, part, parts);
  // Σ w·(1 − 2/(…)) + b = (Σ w + b) − 2·Σ w/(…)
  if (outputs == 1) {
    const base = load<f32>(outputBias) + sum(weight, columns);
    for (let r = from; r < end; r++)
      store<f32>(scores + r * 4, base - 2 * sumTerms(weight, user, items + r * stride, columns));
    return;
  }
  const bases = scratch, inverses = scratch + ((outputs * 4 + 15) & ~15);
  for (let o = 0; o < outputs; o++)
    store<f32>(bases + o * 4, load<f32>(outputBias + o * 4) + sum(weight + o * stride, columns));
  const one = f32x4.splat(1);
  for (let r = from; r < end; r++) {
    const item = items + r * stride;
    for (let at: usize = 0; at < stride; at += 16)
      v128.store(inverses + at, f32x4.div(one, fma(v128.load(user + at), v128.load(item + at), one)));
    for (let o = 0; o < outputs; o++)
      store<f32>(scores + (r * outputs + o) * 4, load<f32>(bases + o * 4) - 2 * dot(inverses, weight + o * stride, columns));
  }
}
