/** Products of whole numbers: a vector against many, whose numbers have 8 or 16 bits. */

import { firstColumn, lastColumn } from "./share";
import { putStrip } from "./vector";

/** Sixteen vectors at a time; a word of four vectors is one load. */
export function multiplyCodes(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const codes: usize = load<u32>(p, 4);
  const x: usize = load<u32>(p, 8);
  const words = load<i32>(p, 12);
  const count = load<i32>(p, 16);
  const stride: usize = load<i32>(p, 20) * 4;
  const bits = load<i32>(p, 24);
  const factor = f32x4.splat(load<f32>(p, 28));
  const end = lastColumn(count, part, parts);
  for (let t = firstColumn(count, part, parts); t < end; t += 16) {
    const at = codes + t * 4;
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    if (bits == 8) {
      s0 = ofBytes(at + stride, x, words, stride);
      s1 = ofBytes(at + stride + 16, x, words, stride);
      s2 = ofBytes(at + stride + 32, x, words, stride);
      s3 = ofBytes(at + stride + 48, x, words, stride);
    } else {
      let from = at + stride;
      for (let w = 0; w < words; w++) {
        const both = v128.load32_splat(x + w * 4);
        // Two products of 30 bits have room in 32; more have not.
        s0 = f32x4.add(s0, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from), both)));
        s1 = f32x4.add(s1, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 16), both)));
        s2 = f32x4.add(s2, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 32), both)));
        s3 = f32x4.add(s3, f32x4.convert_i32x4_s(i32x4.dot_i16x8_s(v128.load(from, 48), both)));
        from += stride;
      }
    }
    s0 = f32x4.mul(f32x4.mul(s0, factor), v128.load(at));
    s1 = f32x4.mul(f32x4.mul(s1, factor), v128.load(at, 16));
    s2 = f32x4.mul(f32x4.mul(s2, factor), v128.load(at, 32));
    s3 = f32x4.mul(f32x4.mul(s3, factor), v128.load(at, 48));
    putStrip(out + t * 4, s0, s1, s2, s3, end - t);
  }
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

/** Where an item's lift starts. */
@inline
function liftPlace(id: i32): usize {
  return <u32>((id + 1) * <i32>0x9e3779b1) >> 18;
}

/** Σ of x and the numbers an item is lifted with. */
@inline
function ofLift(x: usize, noise: usize, columns: i32): f32 {
  let even = i32x4.splat(0), odd = even;
  let k: usize = 0;
  const end: usize = columns * 2;
  for (; k + 16 < end; k += 32) {
    even = i32x4.add(even, i32x4.dot_i16x8_s(v128.load(x + k), v128.load(noise + k)));
    odd = i32x4.add(odd, i32x4.dot_i16x8_s(v128.load(x + k, 16), v128.load(noise + k, 16)));
  }
  if (k < end) even = i32x4.add(even, i32x4.dot_i16x8_s(v128.load(x + k), v128.load(noise + k)));
  // The halves of x have room for one another, four lanes may not.
  const s = i32x4.add(even, odd);
  return <f32>(<i64>i32x4.extract_lane(s, 0) + <i64>i32x4.extract_lane(s, 1) +
    <i64>i32x4.extract_lane(s, 2) + <i64>i32x4.extract_lane(s, 3));
}

export function placeScores(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const ids: usize = load<u32>(p, 4);
  const bias: usize = load<u32>(p, 8);
  const products: usize = load<u32>(p, 12);
  const sums: usize = load<u32>(p, 16);
  const x: usize = load<u32>(p, 20);
  const noise: usize = load<u32>(p, 24);
  const count = load<i32>(p, 28);
  const columns = load<i32>(p, 32);
  const base: f64 = load<f32>(p, 36);
  const factor = load<f32>(p, 40);
  const end = lastColumn(count, part, parts);
  for (let t = firstColumn(count, part, parts); t < end; t++) {
    const at: usize = t * 4;
    const id = load<i32>(ids + at);
    const place = liftPlace(id);
    const lift = sums ? load<f32>(sums + place * 4) : factor * ofLift(x, noise + place * 2, columns);
    const sum = <f64>load<f32>(products + at) + <f64>lift;
    store<f32>(out + (<usize>id << 2), <f32>(base + <f64>load<f32>(bias + at) + sum));
  }
}
