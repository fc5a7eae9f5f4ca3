/** What many items score against one vector: their numbers are floats or whole numbers of 8 or 16 bits, in chunks. */

import { firstColumn, lastColumn } from "./share";
import { fma, splat } from "./vector";

/** Where an item's lift starts. */
@inline
function liftPlace(id: i32): usize {
  return <u32>((id + 1) * <i32>0x9e3779b1) >> 18;
}

/** Sixteen items at a time; a word of four items is one load. */
export function scoreChunks(p: usize, part: i32, parts: i32): void {
  const chunks: usize = load<u32>(p, 4);
  const slots = load<i32>(p, 24);
  const count = load<i32>(p, 28);
  const bits = load<i32>(p, 32);
  const stride: usize = slots * 4;
  const end = lastColumn(count, part, parts);
  for (let i = firstColumn(count, part, parts); i < end; i += 16) {
    // Slots come in sixteens.
    const t: usize = (i % slots) * 4;
    const at = (<usize>load<u32>(chunks + (i / slots) * 4) << 2) + t;
    if (bits == 8) scoreBytes(p, at, stride, end - i);
    else if (bits == 16) scoreHalves(p, at, stride, end - i);
    else scoreFloats(p, at, stride, end - i);
  }
}

@inline
function scoreBytes(p: usize, at: usize, stride: usize, left: i32): void {
  const from = at + 3 * stride, x: usize = load<u32>(p, 8), words = (load<i32>(p, 36) + 3) >> 2;
  const factor = f32x4.splat(load<f32>(p, 44));
  const scales = at + 2 * stride;
  for (let four = 0; four < 64 && (four >> 2) < left; four += 16)
    place(p, at + four, stride, f32x4.mul(f32x4.mul(ofBytes(from + four, x, words, stride), factor), v128.load(scales + four)), left - (four >> 2));
}

/** Σ of four vectors' products; each has two halves, of words' first and last two codes. */
@inline
function ofBytes(from: usize, x: usize, words: i32, stride: usize): v128 {
  let low = i32x4.splat(0), high = low;
  for (let w = 0; w < words; w++) {
    const four = v128.load64_splat(x + w * 8);
    const word = v128.load(from);
    low = i32x4.add(low, i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(word), four));
    high = i32x4.add(high, i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(word), four));
    from += stride;
  }
  const even = v128.shuffle<i32>(low, high, 0, 2, 4, 6);
  const odd = v128.shuffle<i32>(low, high, 1, 3, 5, 7);
  return f32x4.convert_i32x4_s(i32x4.add(even, odd));
}

@inline
function scoreHalves(p: usize, at: usize, stride: usize, left: i32): void {
  const x: usize = load<u32>(p, 8), words = (load<i32>(p, 36) + 1) >> 1;
  const factor = f32x4.splat(load<f32>(p, 44));
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let from = at + 3 * stride;
  for (let w = 0; w < words; w++) {
    const both = v128.load32_splat(x + w * 4);
    // Two products of 30 bits have room in 32; more have not.
    s0 = f32x4.add(s0, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from), both)));
    s1 = f32x4.add(s1, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 16), both)));
    s2 = f32x4.add(s2, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 32), both)));
    s3 = f32x4.add(s3, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 48), both)));
    from += stride;
  }
  const scales = at + 2 * stride;
  place(p, at, stride, f32x4.mul(f32x4.mul(s0, factor), v128.load(scales)), left);
  place(p, at + 16, stride, f32x4.mul(f32x4.mul(s1, factor), v128.load(scales, 16)), left - 4);
  place(p, at + 32, stride, f32x4.mul(f32x4.mul(s2, factor), v128.load(scales, 32)), left - 8);
  place(p, at + 48, stride, f32x4.mul(f32x4.mul(s3, factor), v128.load(scales, 48)), left - 12);
}

@inline
function scoreFloats(p: usize, at: usize, stride: usize, left: i32): void {
  const x: usize = load<u32>(p, 8), columns = load<i32>(p, 36);
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let from = at + 2 * stride;
  for (let k = 0; k < columns; k++) {
    const w = splat(x + k * 4);
    s0 = fma(w, v128.load(from), s0);
    s1 = fma(w, v128.load(from, 16), s1);
    s2 = fma(w, v128.load(from, 32), s2);
    s3 = fma(w, v128.load(from, 48), s3);
    from += stride;
  }
  place(p, at, stride, s0, left);
  place(p, at + 16, stride, s1, left - 4);
  place(p, at + 32, stride, s2, left - 8);
  place(p, at + 48, stride, s3, left - 12);
}

/** Writes what up to four items score, given their products. */
@inline
function place(p: usize, at: usize, stride: usize, products: v128, left: i32): void {
  if (left > 3) {
    placeFour(p, at, stride, products);
    return;
  }
  if (left > 0) placeOne(p, at, stride, f32x4.extract_lane(products, 0));
  if (left > 1) placeOne(p, at + 4, stride, f32x4.extract_lane(products, 1));
  if (left > 2) placeOne(p, at + 8, stride, f32x4.extract_lane(products, 2));
}

/** As `placeOne`, of four items to the same bits. */
function placeFour(p: usize, at: usize, stride: usize, products: v128): void {
  const out: usize = load<u32>(p);
  const sums: usize = load<u32>(p, 12);
  const id0 = load<i32>(at), id1 = load<i32>(at, 4), id2 = load<i32>(at, 8), id3 = load<i32>(at, 12);
  const p0 = liftPlace(id0), p1 = liftPlace(id1), p2 = liftPlace(id2), p3 = liftPlace(id3);
  let lifted: v128;
  if (sums) {
    lifted = v128.load32_splat(sums + p0 * 4);
    lifted = v128.load_lane<f32>(sums + p1 * 4, lifted, 1);
    lifted = v128.load_lane<f32>(sums + p2 * 4, lifted, 2);
    lifted = v128.load_lane<f32>(sums + p3 * 4, lifted, 3);
  } else lifted = f32x4.mul(v128.load32_splat(p, 52), ofLifts(p, p0, p1, p2, p3));
  const base = f64x2.promote_low_f32x4(v128.load32_splat(p, 48));
  const bias = v128.load(at + stride);
  const low = f64x2.add(
    f64x2.add(base, f64x2.promote_low_f32x4(bias)),
    f64x2.add(f64x2.promote_low_f32x4(products), f64x2.promote_low_f32x4(lifted)),
  );
  const high = f64x2.add(
    f64x2.add(base, f64x2.promote_low_f32x4(upper(bias))),
    f64x2.add(f64x2.promote_low_f32x4(upper(products)), f64x2.promote_low_f32x4(upper(lifted))),
  );
  const first = f32x4.demote_f64x2_zero(low), second = f32x4.demote_f64x2_zero(high);
  v128.store_lane<f32>(out + (<usize>id0 << 2), first, 0);
  v128.store_lane<f32>(out + (<usize>id1 << 2), first, 1);
  v128.store_lane<f32>(out + (<usize>id2 << 2), second, 0);
  v128.store_lane<f32>(out + (<usize>id3 << 2), second, 1);
}

/** The last two lanes as the first. */
@inline
function upper(v: v128): v128 {
  return v128.shuffle<i32>(v, v, 2, 3, 2, 3);
}

function placeOne(p: usize, at: usize, stride: usize, product: f32): void {
  const sums: usize = load<u32>(p, 12);
  const id = load<i32>(at);
  const place = liftPlace(id);
  const lifted = sums ? load<f32>(sums + place * 4) : load<f32>(p, 52) * ofLift(p, place);
  const sum = <f64>load<f32>(p, 48) + <f64>load<f32>(at + stride) + (<f64>product + <f64>lifted);
  store<f32>(<usize>load<u32>(p) + (<usize>id << 2), <f32>sum);
}

/** Σ of x and the numbers an item is lifted with. */
@inline
function ofLift(p: usize, place: usize): f32 {
  const x: usize = load<u32>(p, 16);
  const noise: usize = <usize>load<u32>(p, 20) + place * 2;
  const end: usize = load<i32>(p, 40) * 2;
  let even = i32x4.splat(0), odd = even;
  for (let k: usize = 0; k < end; k += 32) {
    even = i32x4.add(even, i32x4.dot_i16x8_s(v128.load(x + k), v128.load(noise + k)));
    odd = i32x4.add(odd, i32x4.dot_i16x8_s(v128.load(x + k, 16), v128.load(noise + k, 16)));
  }
  // A lane has room for its share of the products, not for those of all four.
  const s = i32x4.add(even, odd);
  return <f32>(<i64>i32x4.extract_lane(s, 0) + <i64>i32x4.extract_lane(s, 1) +
    <i64>i32x4.extract_lane(s, 2) + <i64>i32x4.extract_lane(s, 3));
}

/** `ofLift` of four items: x is read once for all. */
@inline
function ofLifts(p: usize, p0: usize, p1: usize, p2: usize, p3: usize): v128 {
  let x: usize = load<u32>(p, 16);
  const noise: usize = load<u32>(p, 20);
  let n0 = noise + p0 * 2, n1 = noise + p1 * 2, n2 = noise + p2 * 2, n3 = noise + p3 * 2;
  const end = x + load<i32>(p, 40) * 2;
  let a0 = i32x4.splat(0), a1 = a0, a2 = a0, a3 = a0;
  for (; x < end; x += 32) {
    const first = v128.load(x), second = v128.load(x, 16);
    a0 = i32x4.add(i32x4.add(a0, i32x4.dot_i16x8_s(first, v128.load(n0))), i32x4.dot_i16x8_s(second, v128.load(n0, 16)));
    a1 = i32x4.add(i32x4.add(a1, i32x4.dot_i16x8_s(first, v128.load(n1))), i32x4.dot_i16x8_s(second, v128.load(n1, 16)));
    a2 = i32x4.add(i32x4.add(a2, i32x4.dot_i16x8_s(first, v128.load(n2))), i32x4.dot_i16x8_s(second, v128.load(n2, 16)));
    a3 = i32x4.add(i32x4.add(a3, i32x4.dot_i16x8_s(first, v128.load(n3))), i32x4.dot_i16x8_s(second, v128.load(n3, 16)));
    n0 += 32;
    n1 += 32;
    n2 += 32;
    n3 += 32;
  }
  // Lanes of an item are added as doubles: they have no room in 32 bits together.
  const t0 = v128.shuffle<i32>(a0, a1, 0, 4, 1, 5), t1 = v128.shuffle<i32>(a2, a3, 0, 4, 1, 5);
  const t2 = v128.shuffle<i32>(a0, a1, 2, 6, 3, 7), t3 = v128.shuffle<i32>(a2, a3, 2, 6, 3, 7);
  const low = f64x2.add(
    f64x2.add(f64x2.convert_low_i32x4_s(t0), f64x2.convert_low_i32x4_s(upper(t0))),
    f64x2.add(f64x2.convert_low_i32x4_s(t2), f64x2.convert_low_i32x4_s(upper(t2))),
  );
  const high = f64x2.add(
    f64x2.add(f64x2.convert_low_i32x4_s(t1), f64x2.convert_low_i32x4_s(upper(t1))),
    f64x2.add(f64x2.convert_low_i32x4_s(t3), f64x2.convert_low_i32x4_s(upper(t3))),
  );
  return v128.shuffle<i32>(f32x4.demote_f64x2_zero(low), f32x4.demote_f64x2_zero(high), 0, 1, 4, 5);
}
