/** e^x and ln x with the same bits whatever the build: of doubles as in ../math.ts, and of four floats. */

import { SCORERS } from "../layout";
import { firstColumn, lastColumn } from "./share";
import { mask, put, sumLanes } from "./vector";

@inline
function powerOfTwo(n: i32): f64 {
  return reinterpret<f64>(<u64>(n + 1023) << 52);
}

/** e^x for x ≤ 0 and not far above. */
export function exp(x: f64): f64 {
  if (x != x) return x;
  if (x < -708) return 0;
  let k = 0;
  let high = x, low: f64 = 0;
  if (x > 0.34657359027997264 || x < -0.34657359027997264) {
    const n = Math.floor(1.4426950408889634 * x + 0.5);
    k = <i32>n;
    high = x - n * 6.9314718036912381649e-1;
    low = n * 1.90821492927058770002e-10;
  }
  const r = high - low;
  const t = r * r;
  const c =
    r - t * (1.66666666666666019037e-1 + t * (-2.77777777770155933842e-3 +
      t * (6.61375632143793436117e-5 + t * (-1.6533902205465251539e-6 + t * 4.13813679705723846039e-8))));
  const y = 1 - (low - (r * c) / (2 - c) - high);
  return k == 0 ? y : y * powerOfTwo(k);
}

/** ln x of a normal x above 0. */
export function log(x: f64): f64 {
  if (!(x > 0)) return NaN;
  if (x == Infinity) return x;
  const bits = reinterpret<u64>(x);
  let k = <i32>(bits >> 52) - 1023;
  let f = reinterpret<f64>((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  if (f > 1.4142135623730951) {
    f *= 0.5;
    k += 1;
  }
  f -= 1;
  const s = f / (2 + f);
  const z = s * s;
  const w = z * z;
  const even = w * (3.999999999940941908e-1 + w * (2.222219843214978396e-1 + w * 1.531383769920937332e-1));
  const odd = z * (6.66666666666673513e-1 +
    w * (2.857142874366239149e-1 + w * (1.818357216161805012e-1 + w * 1.479819860511658591e-1)));
  const half = 0.5 * f * f;
  return <f64>k * 6.9314718036912381649e-1 - (half - (s * (half + even + odd) + <f64>k * 1.90821492927058770002e-10) - f);
}

/** ln(1 + e^x) */
export function softplus(x: f64): f64 {
  const small = exp(-Math.abs(x));
  return Math.max(x, 0) + log(1 + small);
}

/** 1 / (1 + e^−x) */
export function sigmoid(x: f64): f64 {
  const small = exp(-Math.abs(x));
  return (x < 0 ? small : 1) / (1 + small);
}

/** e^x of four x ≤ 0; below −87 it is 0. As in vector.ts, and nothing is fused. */
@inline
export function expOfFour(x: v128): v128 {
  const c = f32x4.pmax(x, f32x4.splat(-88));
  const shifted = f32x4.add(f32x4.mul(c, f32x4.splat(1.44269504089)), f32x4.splat(12582912));
  const n = f32x4.sub(shifted, f32x4.splat(12582912));
  const r = f32x4.sub(f32x4.sub(c, f32x4.mul(n, f32x4.splat(0.693145751953125))), f32x4.mul(n, f32x4.splat(1.42860677e-6)));
  let p = f32x4.add(f32x4.mul(r, f32x4.splat(0.00139517186)), f32x4.splat(0.00836959828));
  p = f32x4.add(f32x4.mul(r, p), f32x4.splat(0.0416661873));
  p = f32x4.add(f32x4.mul(r, p), f32x4.splat(0.166665129));
  p = f32x4.add(f32x4.mul(r, p), f32x4.splat(0.50000001));
  p = f32x4.add(f32x4.mul(f32x4.mul(r, r), p), r);
  const power = i32x4.shl(i32x4.add(shifted, i32x4.splat(127)), 23);
  const y = f32x4.mul(f32x4.add(p, f32x4.splat(1)), power);
  return v128.andnot(y, f32x4.lt(x, f32x4.splat(-87)));
}

/** The largest of `length` numbers. */
function largest(z: usize, length: i32): f32 {
  let top = load<f32>(z);
  for (let j = 1; j < length; j++) top = max(top, load<f32>(z + j * 4));
  return top;
}

/** Writes e^(z − the largest z), unless `out` is 0; returns their sum. What lies past the end is overwritten up to a whole vector. */
export function expAll(out: usize, z: usize, length: i32): f32 {
  const top = f32x4.splat(largest(z, length));
  let sum = f32x4.splat(0);
  for (let j = 0; j < length; j += 4) {
    const share = v128.and(expOfFour(f32x4.sub(v128.load(z + j * 4), top)), mask(length - j));
    if (out) v128.store(out + j * 4, share);
    sum = f32x4.add(sum, share);
  }
  return sumLanes(sum);
}

/** −log softmax(z)_0, or of one alone −log(1 − σ(z_0)). */
export function groupLoss(z: usize, length: i32, alone: bool): f32 {
  if (alone) return <f32>softplus(load<f32>(z));
  const sum = expAll(0, z, length);
  return <f32>(log(sum) + <f64>largest(z, length) - <f64>load<f32>(z));
}

/** ln(1 + x) of four x ≥ 0. As in vector.ts, and nothing is fused. */
@inline
function logOnePlusOfFour(x: v128): v128 {
  const u = f32x4.add(x, f32x4.splat(1));
  const shifted = i32x4.sub(u, i32x4.splat(0x3f3504f3));
  const k = f32x4.convert_i32x4_s(i32x4.shr_s(shifted, 23));
  const m = i32x4.add(v128.and(shifted, i32x4.splat(0x007fffff)), i32x4.splat(0x3f3504f3));
  const s = f32x4.div(f32x4.sub(m, f32x4.splat(1)), f32x4.add(m, f32x4.splat(1)));
  const z = f32x4.mul(s, s);
  let p = f32x4.add(f32x4.mul(z, f32x4.splat(0.18181818)), f32x4.splat(0.22222222));
  p = f32x4.add(f32x4.mul(z, p), f32x4.splat(0.2857142857));
  p = f32x4.add(f32x4.mul(z, p), f32x4.splat(0.4));
  p = f32x4.add(f32x4.mul(z, p), f32x4.splat(0.6666666667));
  p = f32x4.add(f32x4.mul(f32x4.mul(z, s), p), f32x4.add(s, s));
  p = f32x4.add(f32x4.mul(k, f32x4.splat(1.42860677e-6)), p);
  const log = f32x4.add(f32x4.mul(k, f32x4.splat(0.693145751953125)), p);
  const rounded = f32x4.sub(u, f32x4.splat(1));
  const y = f32x4.mul(log, f32x4.div(x, rounded));
  return v128.bitselect(x, y, f32x4.eq(rounded, f32x4.splat(0)));
}

/** The place of what a row of words says of an item is found by its slot. Without branches, which nobody could foretell. */
export function sumWords(p: usize): void {
  const out: usize = load<u32>(p);
  const values: usize = load<u32>(p, 4);
  const slots: usize = load<u32>(p, 8);
  const items: usize = load<u32>(p, 12);
  const sums: usize = load<u32>(p, 16);
  const roots: usize = load<u32>(p, 20);
  const limit = load<u32>(p, 24);
  const rows = load<i32>(p, 28);
  let count = 0;
  for (let r = 0; r < rows; r++) {
    const row = p + r * 16;
    const own = i32x4.eq(i32x4(0, 1, 2, 3), i32x4.splat(load<i32>(row, 40)));
    const factor = load<f32>(row, 44);
    let at: usize = load<u32>(row, 32);
    const end = at + load<u32>(row, 36) * 4;
    for (; at < end; at += 4) {
      const word = load<u32>(at);
      const number = word & 0xffffff;
      // What is none, or beyond the limit, is written to the next place, which stays free.
      const isThere = <i32>(number - 1 < limit);
      const item: usize = number & -isThere;
      const slot = load<i32>(slots + item * 4);
      const isNew = <i32>(slot == 0);
      const place = select<i32>(count, slot - 1, isNew != 0);
      const to = sums + place * SCORERS * 4;
      const before = v128.and(v128.load(to), i32x4.splat(isNew - 1));
      const more = f32x4.splat(factor * load<f32>(values + ((word >>> 24) << 2)));
      v128.store(to, f32x4.add(before, v128.and(more, own)));
      store<u32>(items + count * 4, <u32>item - 1);
      store<i32>(slots + item * 4, (place + 1) & -isThere);
      count += isNew & isThere;
    }
  }
  let unknown = 0;
  for (let t = 0; t < count; t++) {
    const root = load<f32>(roots + <usize>load<u32>(items + t * 4) * 8);
    unknown += <i32>(root != root);
  }
  store<i32>(out, count);
  store<i32>(out, unknown, 4);
}

/** The numbers `scorer` of four items. */
@inline
function ofFour(sums: usize, scorer: usize): v128 {
  let v = v128.load32_splat(sums + scorer * 4);
  v = v128.load_lane<u32>(sums + (SCORERS + scorer) * 4, v, 1);
  v = v128.load_lane<u32>(sums + (2 * SCORERS + scorer) * 4, v, 2);
  return v128.load_lane<u32>(sums + (3 * SCORERS + scorer) * 4, v, 3);
}

/** A root of the item at t; of one past the end that of the last. */
@inline
function rootAt(roots: usize, items: usize, t: i32, count: i32): usize {
  return roots + <usize>load<u32>(items + min(t, count - 1) * 4) * 8;
}

export function fuseLogs(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const sums: usize = load<u32>(p, 4);
  const items: usize = load<u32>(p, 8);
  const roots: usize = load<u32>(p, 12);
  const to: usize = load<u32>(p, 16);
  const slots: usize = load<u32>(p, 20);
  const count = load<i32>(p, 24);
  const end = lastColumn(count, part, parts);
  for (let t = firstColumn(count, part, parts); t < end; t += 4) {
    const at = sums + t * SCORERS * 4;
    const r0 = rootAt(roots, items, t, count), r1 = rootAt(roots, items, t + 1, count);
    const r2 = rootAt(roots, items, t + 2, count), r3 = rootAt(roots, items, t + 3, count);
    let soon = v128.load32_splat(r0), right = v128.load32_splat(r0, 4);
    soon = v128.load_lane<u32>(r1, soon, 1), right = v128.load_lane<u32>(r1, right, 1, 4);
    soon = v128.load_lane<u32>(r2, soon, 2), right = v128.load_lane<u32>(r2, right, 2, 4);
    soon = v128.load_lane<u32>(r3, soon, 3), right = v128.load_lane<u32>(r3, right, 3, 4);
    let sum = f32x4.mul(v128.load32_splat(p, 28), logOnePlusOfFour(f32x4.div(ofFour(at, 0), soon)));
    for (let k = 1; k < SCORERS; k++) {
      const own = ofFour(at, k);
      // Most items came right after none of them.
      if (!v128.any_true(own)) continue;
      const log = logOnePlusOfFour(f32x4.div(own, right));
      sum = f32x4.add(sum, f32x4.mul(v128.load32_splat(p + <usize>k * 4, 28), log));
    }
    put(out + t * 4, sum, end - t);
    if (!to) continue;
    for (let n = t; n < min(t + 4, end); n++) {
      const item: usize = <usize>load<u32>(items + n * 4) << 2;
      store<f32>(to + item, load<f32>(to + item) + load<f32>(out + n * 4));
      store<i32>(slots + item, 0, 4);
    }
  }
}

/** e^(z − top) of four z; 0 of what is no number. */
@inline
function powersBelow(at: usize, tops: v128): v128 {
  const z = v128.load(at);
  return v128.and(expOfFour(f32x4.sub(z, tops)), f32x4.gt(z, f32x4.splat(-Infinity)));
}

/**
 * Sixteen at a time; sums of doubles, always in the same order. What is less than a part in 10^13 of the largest does not
 * count: of a billion such it would be a part in 10^4.
 */
export function sumPowers(p: usize): void {
  const out: usize = load<u32>(p);
  const maxima: usize = load<u32>(p, 4);
  const input: usize = load<u32>(p, 8);
  const count = load<i32>(p, 12);
  const none = f32x4.splat(-Infinity);
  let most: f32 = -Infinity;
  for (let t = 0; t < count; t += 16) {
    const at = input + t * 4;
    let top = none;
    if (t + 16 <= count)
      top = f32x4.pmax(
        f32x4.pmax(f32x4.pmax(none, v128.load(at)), v128.load(at, 16)),
        f32x4.pmax(f32x4.pmax(none, v128.load(at, 32)), v128.load(at, 48)),
      );
    else
      for (let k = 0; k < 16 && t + k < count; k += 4)
        top = f32x4.pmax(top, v128.bitselect(v128.load(at + k * 4), none, mask(count - t - k)));
    const pairs = f32x4.pmax(top, v128.shuffle<f32>(top, top, 2, 3, 0, 1));
    const one = max(f32x4.extract_lane(pairs, 0), f32x4.extract_lane(pairs, 1));
    store<f32>(maxima + (t >> 2), one);
    most = max(most, one);
  }
  const tops = f32x4.splat(most);
  let even = f64x2.splat(0), odd = even;
  for (let t = 0; t < count; t += 16) {
    if (!(load<f32>(maxima + (t >> 2)) > most - 30)) continue;
    const at = input + t * 4;
    let sum = f32x4.splat(0);
    if (t + 16 <= count) {
      sum = f32x4.add(powersBelow(at, tops), powersBelow(at + 16, tops));
      sum = f32x4.add(f32x4.add(sum, powersBelow(at + 32, tops)), powersBelow(at + 48, tops));
    } else
      for (let k = 0; k < 16 && t + k < count; k += 4)
        sum = f32x4.add(sum, v128.and(powersBelow(at + k * 4, tops), mask(count - t - k)));
    even = f64x2.add(even, f64x2.promote_low_f32x4(sum));
    odd = f64x2.add(odd, f64x2.promote_low_f32x4(v128.shuffle<f32>(sum, sum, 2, 3, 2, 3)));
  }
  const sum = f64x2.add(even, odd);
  store<f32>(out, most);
  store<f32>(out, <f32>(f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1)), 4);
}
