/**
 * The hidden layer for one user and many items, from powers: tanh(a + b) = 1 − 2/(1 + e^{2a}·e^{2b}), so with e^{2b} at
 * hand for every item a pair and column cost one product, and half a division: w/d + v/e = (w·e + v·d)/(d·e).
 */

import { first, last } from "./share";
import { dot, exp, fma, mask, put, splat, sumLanes } from "./vector";

/** Columns whose constants a thread keeps at hand. */
const SPAN: i32 = 1024;
const SPAN_BYTES: usize = 4096;

/** out = e^{2y}, y cut off at ±10: there tanh is 1 to the last bit, and products of four powers stay finite. */
export function hiddenPower(p: usize, part: i32, parts: i32, scratch: usize): void {
  const out: usize = load<u32>(p);
  const input: usize = load<u32>(p, 4);
  const bias: usize = load<u32>(p, 8);
  const rows = load<i32>(p, 12);
  const columns = load<i32>(p, 16);
  const norm = p + 20;
  const stride: usize = columns * 4;
  const shifts = scratch;
  const factors = scratch + SPAN_BYTES;
  const from = first(rows, part, parts);
  const end = last(rows, part, parts);
  for (let c = 0; c < columns; c += SPAN) {
    const width = min(SPAN, columns - c);
    const at: usize = c * 4;
    // 2y = (input + (bias − mean))·2γ·scale + 2β, or for an item its part of it, input·2γ·scale.
    for (let j = 0; j < width; j += 4) {
      const o: usize = j * 4;
      const variance = v128.load(load<u32>(norm, 12) + at + o);
      const deviation = f32x4.sqrt(f32x4.add(variance, splat(norm + 24)));
      const factor = f32x4.div(f32x4.mul(f32x4.splat(2), v128.load(load<u32>(norm) + at + o)), deviation);
      v128.store(factors + o, factor);
      let shift = f32x4.splat(0);
      if (bias) {
        const beta = v128.load(load<u32>(norm, 4) + at + o);
        shift = f32x4.sub(v128.load(bias + at + o), v128.load(load<u32>(norm, 8) + at + o));
        shift = fma(shift, factor, f32x4.add(beta, beta));
      }
      v128.store(shifts + o, shift);
    }
    for (let r = from; r < end; r++)
      for (let j = 0; j < width; j += 4) {
        const o: usize = j * 4;
        const y = fma(v128.load(input + r * stride + at + o), v128.load(factors + o), v128.load(shifts + o));
        const cut = f32x4.pmax(f32x4.pmin(y, f32x4.splat(20)), f32x4.splat(-20));
        put(out + r * stride + at + o, exp(cut), width - j);
      }
  }
}

/** Σ of `count` numbers. */
function sum(from: usize, count: i32): f32 {
  let total = f32x4.splat(0);
  for (let left = count; left > 0; left -= 4, from += 16) total = f32x4.add(total, v128.and(v128.load(from), mask(left)));
  return sumLanes(total);
}

/** Σ w/(1 + user·item), always in the same order. */
@inline
function rankOne(user: usize, item: usize, weight: usize, columns: i32): f32 {
  const one = f32x4.splat(1);
  let s0 = f32x4.splat(0), s1 = s0;
  let left = columns;
  for (; left >= 16; left -= 16) {
    const d0 = fma(v128.load(user), v128.load(item), one), d1 = fma(v128.load(user, 16), v128.load(item, 16), one);
    const d2 = fma(v128.load(user, 32), v128.load(item, 32), one), d3 = fma(v128.load(user, 48), v128.load(item, 48), one);
    const n0 = fma(v128.load(weight), d1, f32x4.mul(v128.load(weight, 16), d0));
    const n1 = fma(v128.load(weight, 32), d3, f32x4.mul(v128.load(weight, 48), d2));
    s0 = f32x4.add(s0, f32x4.div(n0, f32x4.mul(d0, d1)));
    s1 = f32x4.add(s1, f32x4.div(n1, f32x4.mul(d2, d3)));
    user += 64;
    item += 64;
    weight += 64;
  }
  for (; left > 0; left -= 4) {
    const d = fma(v128.load(user), v128.load(item), one);
    s0 = f32x4.add(s0, v128.and(f32x4.div(v128.load(weight), d), mask(left)));
    user += 16;
    item += 16;
    weight += 16;
  }
  return sumLanes(f32x4.add(s0, s1));
}

export function hiddenRank(p: usize, part: i32, parts: i32, scratch: usize): void {
  const logits: usize = load<u32>(p);
  const user: usize = load<u32>(p, 4);
  const item: usize = load<u32>(p, 8);
  const itemIndex: usize = load<u32>(p, 12);
  const weight: usize = load<u32>(p, 16);
  const outputBias: usize = load<u32>(p, 20);
  const pairs = load<i32>(p, 24);
  const columns = load<i32>(p, 28);
  const outputs = load<i32>(p, 32);
  const stride: usize = columns * 4;
  const from = first(pairs, part, parts);
  const end = last(pairs, part, parts);
  const one = f32x4.splat(1);
  for (let r = from; r < end; r++) {
    const row = item + load<i32>(itemIndex + r * 4) * stride;
    if (outputs == 1) {
      store<f32>(logits + r * 4, rankOne(user, row, weight, columns));
      continue;
    }
    for (let j = 0; j < columns; j += 4) {
      const o: usize = j * 4;
      v128.store(scratch + o, f32x4.div(one, fma(v128.load(user + o), v128.load(row + o), one)));
    }
    for (let o = 0; o < outputs; o++)
      store<f32>(logits + (r * outputs + o) * 4, dot(scratch, weight + o * stride, columns));
  }
  // Σ w·(1 − 2y) + b
  for (let o = 0; o < outputs; o++) {
    const most = load<f32>(outputBias + o * 4) + sum(weight + o * stride, columns);
    for (let r = from; r < end; r++) {
      const at = logits + (r * outputs + o) * 4;
      store<f32>(at, most - 2 * load<f32>(at));
    }
  }
}
