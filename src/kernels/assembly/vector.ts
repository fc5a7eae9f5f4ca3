/** Four floats at a time: partial vectors, sums over lanes, tanh, exp, log. NaN goes through everywhere. */

/** a·b + c, fused where the build may. */
@inline
export function fma(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/** c − a·b, fused where the build may. */
@inline
export function fnma(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_nmadd(a, b, c);
  return f32x4.sub(c, f32x4.mul(a, b));
}

@inline
export function splat(p: usize): v128 {
  return v128.load_splat<f32>(p);
}

/** Stores the first 1 to 3 lanes. */
export function putPart(p: usize, v: v128, lanes: i32): void {
  if (lanes & 2) {
    v128.store_lane<u64>(p, v, 0);
    if (lanes & 1) v128.store_lane<u32>(p, v, 2, 8);
  } else v128.store_lane<u32>(p, v, 0);
}

/** Stores the first min(lanes, 4) lanes. Loads need no such care: what lies past the end is read and not used. */
@inline
export function put(p: usize, v: v128, lanes: i32): void {
  if (lanes >= 4) v128.store(p, v);
  else putPart(p, v, lanes);
}

/** Stores the first min(count, 16) of sixteen floats. */
@inline
export function putStrip(p: usize, v0: v128, v1: v128, v2: v128, v3: v128, count: i32): void {
  if (count >= 16) {
    v128.store(p, v0);
    v128.store(p, v1, 16);
    v128.store(p, v2, 32);
    v128.store(p, v3, 48);
  } else putStripPart(p, v0, v1, v2, v3, count);
}

function putStripPart(p: usize, v0: v128, v1: v128, v2: v128, v3: v128, count: i32): void {
  put(p, v0, count);
  if (count > 4) put(p + 16, v1, count - 4);
  if (count > 8) put(p + 32, v2, count - 8);
  if (count > 12) put(p + 48, v3, count - 12);
}

/** All ones in the first `lanes` lanes. */
@inline
export function mask(lanes: i32): v128 {
  return i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(lanes));
}

@inline
export function sumLanes(v: v128): f32 {
  const pairs = f32x4.add(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** Σ a[i]·b[i], always in the same order. */
export function dot(a: usize, b: usize, count: i32): f32 {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let left = count;
  for (; left >= 16; left -= 16) {
    s0 = fma(v128.load(a), v128.load(b), s0);
    s1 = fma(v128.load(a, 16), v128.load(b, 16), s1);
    s2 = fma(v128.load(a, 32), v128.load(b, 32), s2);
    s3 = fma(v128.load(a, 48), v128.load(b, 48), s3);
    a += 64;
    b += 64;
  }
  for (; left >= 4; left -= 4) {
    s0 = fma(v128.load(a), v128.load(b), s0);
    a += 16;
    b += 16;
  }
  if (left > 0) {
    const m = mask(left);
    s1 = fma(v128.and(v128.load(a), m), v128.and(v128.load(b), m), s1);
  }
  return sumLanes(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
}

/** Σ (a[i] − b[i])², always in the same order. */
export function squaredDistance(a: usize, b: usize, count: i32): f32 {
  let s0 = f32x4.splat(0), s1 = s0;
  let left = count;
  for (; left >= 8; left -= 8) {
    const d0 = f32x4.sub(v128.load(a), v128.load(b));
    const d1 = f32x4.sub(v128.load(a, 16), v128.load(b, 16));
    s0 = fma(d0, d0, s0);
    s1 = fma(d1, d1, s1);
    a += 32;
    b += 32;
  }
  for (; left > 0; left -= 4) {
    const d = v128.and(f32x4.sub(v128.load(a), v128.load(b)), mask(left));
    s0 = fma(d, d, s0);
    a += 16;
    b += 16;
  }
  return sumLanes(f32x4.add(s0, s1));
}

/**
 * tanh x = x·P(x²)/Q(x²), fitted for least largest relative error on |x| ≤ 9: 2·10⁻⁸, with the roundings 4·10⁻⁷. Past
 * that it would grow beyond 1, and is cut off. Odd to the bit. The coefficients are loaded from memory because V8 makes
 * every vector constant again, with three instructions.
 */
const TANH: usize = memory.data<f32>([
  1.33542249e-08, 1.33542249e-08, 1.33542249e-08, 1.33542249e-08, // P4
  2.06087597e-05, 2.06087597e-05, 2.06087597e-05, 2.06087597e-05, // P3
  0.00349556845, 0.00349556845, 0.00349556845, 0.00349556845, // P2
  0.133810091, 0.133810091, 0.133810091, 0.133810091, // P1
  0.999999979, 0.999999979, 0.999999979, 0.999999979, // P0
  7.77637699e-07, 7.77637699e-07, 7.77637699e-07, 7.77637699e-07, // Q4
  0.000328560263, 0.000328560263, 0.000328560263, 0.000328560263, // Q3
  0.0258769075, 0.0258769075, 0.0258769075, 0.0258769075, // Q2
  0.467143247, 0.467143247, 0.467143247, 0.467143247, // Q1
  1, 1, 1, 1, // 1
  -1, -1, -1, -1, // −1
  10, 10, 10, 10, // the limit
  -10, -10, -10, -10,
]);

@inline
export function tanh(x: v128): v128 {
  // pmin(a, b) is b < a ? b : a, so a NaN in the first place stays.
  const c = f32x4.pmax(f32x4.pmin(x, v128.load(TANH, 176)), v128.load(TANH, 192));
  const z = f32x4.mul(c, c);
  let p = fma(z, v128.load(TANH), v128.load(TANH, 16));
  let q = fma(z, v128.load(TANH, 80), v128.load(TANH, 96));
  p = fma(z, p, v128.load(TANH, 32));
  q = fma(z, q, v128.load(TANH, 112));
  p = fma(z, p, v128.load(TANH, 48));
  q = fma(z, q, v128.load(TANH, 128));
  p = fma(z, p, v128.load(TANH, 64));
  q = fma(z, q, v128.load(TANH, 144));
  const y = f32x4.div(f32x4.mul(c, p), q);
  return f32x4.pmax(f32x4.pmin(y, v128.load(TANH, 144)), v128.load(TANH, 160));
}

/** out = tanh of `count` numbers, two vectors at a time. May work in place. */
@inline
export function takeTanh(out: usize, from: usize, count: i32): void {
  let left = count;
  for (; left >= 8; left -= 8) {
    const t0 = tanh(v128.load(from)), t1 = tanh(v128.load(from, 16));
    v128.store(out, t0);
    v128.store(out, t1, 16);
    from += 32;
    out += 32;
  }
  for (; left > 0; left -= 4) {
    put(out, tanh(v128.load(from)), left);
    from += 16;
    out += 16;
  }
}

/** e^x for x ≤ 88; below −87 it is 0. e^x = 2^n·e^r with |r| ≤ ln 2 / 2. */
export function exp(x: v128): v128 {
  const c = f32x4.pmax(x, f32x4.splat(-88));
  // Adding 1.5·2²³ rounds to a whole number and leaves it in the low bits.
  const shifted = fma(c, f32x4.splat(1.44269504089), f32x4.splat(12582912));
  const n = f32x4.sub(shifted, f32x4.splat(12582912));
  const r = fma(n, f32x4.splat(-1.42860677e-6), fma(n, f32x4.splat(-0.693145751953125), c));
  let p = fma(r, f32x4.splat(0.00139517186), f32x4.splat(0.00836959828));
  p = fma(r, p, f32x4.splat(0.0416661873));
  p = fma(r, p, f32x4.splat(0.166665129));
  p = fma(r, p, f32x4.splat(0.50000001));
  p = fma(f32x4.mul(r, r), p, r);
  const power = i32x4.shl(i32x4.add(shifted, i32x4.splat(127)), 23);
  const y = f32x4.mul(f32x4.add(p, f32x4.splat(1)), power);
  return v128.andnot(y, f32x4.lt(x, f32x4.splat(-87)));
}

/** ln(1 + x) for x ≥ 0 without losing a small x. */
export function logOnePlus(x: v128): v128 {
  const u = f32x4.add(x, f32x4.splat(1));
  // u = 2^k·m with m in [√½, √2); ln m = 2·atanh((m − 1)/(m + 1)).
  const shifted = i32x4.sub(u, i32x4.splat(0x3f3504f3));
  const k = f32x4.convert_i32x4_s(i32x4.shr_s(shifted, 23));
  const m = i32x4.add(v128.and(shifted, i32x4.splat(0x007fffff)), i32x4.splat(0x3f3504f3));
  const f = f32x4.sub(m, f32x4.splat(1));
  const s = f32x4.div(f, f32x4.add(m, f32x4.splat(1)));
  const z = f32x4.mul(s, s);
  let p = fma(z, f32x4.splat(0.18181818), f32x4.splat(0.22222222));
  p = fma(z, p, f32x4.splat(0.2857142857));
  p = fma(z, p, f32x4.splat(0.4));
  p = fma(z, p, f32x4.splat(0.6666666667));
  p = fma(f32x4.mul(z, s), p, f32x4.add(s, s));
  const log = fma(k, f32x4.splat(0.693145751953125), fma(k, f32x4.splat(1.42860677e-6), p));
  // Kahan: ln(u)·x/(u − 1) undoes the rounding of u; where u is 1, x itself is the answer.
  const rounded = f32x4.sub(u, f32x4.splat(1));
  const y = f32x4.mul(log, f32x4.div(x, rounded));
  const finite = v128.bitselect(x, y, f32x4.eq(rounded, f32x4.splat(0)));
  return v128.bitselect(finite, x, f32x4.lt(x, f32x4.splat(Infinity)));
}
