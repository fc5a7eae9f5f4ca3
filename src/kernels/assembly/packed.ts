/** Rows in 8 and 16 bits a number, unpacked and packed: models/row-packing.ts to the bit, several numbers at a time. */

import {
  PACKED_AT, PACKED_BITS, PACKED_ID, PACKED_LIFT, PACKED_ROW, PACKED_SIZE, PACKED_STEP, PACKED_WORDS,
  ROW_HEAD, ROW_LIFT, ROW_SIZE, ROW_STEP,
} from "../layout";

/** 2^112: from the exponents of a half float to those of a float. */
const UP: f64 = 5192296858534827628530496329220096.0;
const DOWN: f64 = 1.0 / UP;

@inline
function fromHalf(half: u32): f32 {
  const size = <f64>reinterpret<f32>((half & 0x7fff) << 13) * UP;
  return <f32>(half & 0x8000 ? -size : size);
}

@inline
function toHalf(number: f32, chance: i32): u32 {
  const bits = reinterpret<i32>(<f32>(Math.min(Math.abs(<f64>number), 65504) * DOWN));
  const half = (bits + (chance < 0 ? 0xfff + ((bits >> 13) & 1) : chance)) >> 13;
  return number < 0 ? half | 0x8000 : half;
}

@inline
export function fromBrain(brain: u32): f32 {
  return reinterpret<f32>(brain << 16);
}

@inline
function next(state: i32): i32 {
  return state * <i32>0x915f77f5 + 0x6d2b79f5;
}

@inline
function mix(state: i32): i32 {
  let h = (state ^ <i32>(<u32>state >> 16)) * <i32>0x85ebca6b;
  h = (h ^ <i32>(<u32>h >> 13)) * <i32>0xc2b2ae35;
  return h ^ <i32>(<u32>h >> 16);
}

@inline
function blocks(size: i32): i32 {
  return (size + 15) & ~15;
}

export function unpackRows(p: usize): void {
  const records: usize = load<u32>(p);
  const lift: usize = load<u32>(p, 4);
  const count = load<i32>(p, 8);
  const whole = load<i32>(p, 12);
  const head = load<i32>(p, 16);
  const vectors = load<i32>(p, 20);
  for (let i = 0; i < count; i++) {
    const record = records + i * PACKED_WORDS * 4;
    const bits = load<i32>(record + PACKED_BITS * 4);
    const size = load<i32>(record + PACKED_SIZE * 4);
    const tail = load<i32>(record + PACKED_LIFT * 4);
    const row: usize = <usize>load<u32>(record + PACKED_ROW * 4) << 2;
    let from: usize = <usize>load<u32>(record + PACKED_AT * 4) << 2;
    store<i32>(row + ROW_SIZE * 4, size);
    store<i32>(row + ROW_LIFT * 4, tail);
    store<i32>(row + ROW_STEP * 4, load<i32>(record + PACKED_STEP * 4));
    const ends = blocks(size);
    const to = row + ROW_HEAD * 4;
    if (bits == 32) {
      from += whole * 4;
      for (let k = 0; k < head; k++) store<f32>(row + k * 4, load<f32>(from + k * 4));
      from += head * 4;
      for (let v = 0; v < vectors; v++) memory.copy(to + v * ends * 4, from + v * size * 4, size * 4);
    } else {
      for (let k = 0; k < head; k++) store<f32>(row + k * 4, fromHalf(load<u16>(from + k * 2)));
      from += head * 2;
      for (let v = 0; v < vectors && size > 0; v++) {
        const scale = fromBrain(load<u16>(from + v * 2));
        const noise: usize = v == 0 && lift ? lift + tail * 4 : 0;
        unpackVector(to + v * ends * 4, from + vectors * 2 + v * size * (bits >> 3), noise, size, bits, scale);
      }
    }
    for (let v = 0; v < vectors; v++)
      for (let k = size; k < ends; k++)
        store<f32>(to + (v * ends + k) * 4, v == 0 && lift ? load<f32>(lift + (tail + k) * 4) : 0);
  }
}

/** Writes whole vectors: what lies past the end of a row is put right by the caller. */
function unpackVector(to: usize, codes: usize, noise: usize, size: i32, bits: i32, scale: f32): void {
  const s = f32x4.splat(scale);
  for (let k = 0; k < size; k += 4) {
    const whole = bits == 16
      ? v128.load16x4_s(codes + k * 2)
      : i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(v128.load32_zero(codes + k)));
    let v = f32x4.mul(s, f32x4.convert_i32x4_s(whole));
    if (noise) v = f32x4.add(v, v128.load(noise + k * 4));
    v128.store(to + k * 4, v);
  }
}

/** Rounds by chance. */
export function packRows(p: usize, scratch: usize): void {
  const records: usize = load<u32>(p);
  const lift: usize = load<u32>(p, 4);
  const count = load<i32>(p, 8);
  const whole = load<i32>(p, 12);
  const head = load<i32>(p, 16);
  const vectors = load<i32>(p, 20);
  const seed = load<i32>(p, 24);
  for (let i = 0; i < count; i++) {
    const record = records + i * PACKED_WORDS * 4;
    const bits = load<i32>(record + PACKED_BITS * 4);
    const size = load<i32>(record + PACKED_SIZE * 4);
    const row: usize = <usize>load<u32>(record + PACKED_ROW * 4) << 2;
    let to: usize = <usize>load<u32>(record + PACKED_AT * 4) << 2;
    const ends = blocks(size);
    const from = row + ROW_HEAD * 4;
    if (bits == 32) {
      to += whole * 4;
      for (let k = 0; k < head; k++) store<f32>(to + k * 4, load<f32>(row + k * 4));
      to += head * 4;
      for (let v = 0; v < vectors; v++) memory.copy(to + v * size * 4, from + v * ends * 4, size * 4);
      continue;
    }
    let state = mix(load<i32>(record + PACKED_ID * 4) ^ ((seed + 1) * <i32>0x9e3779b1));
    for (let k = 0; k < head; k++) state = mix(state ^ load<i32>(row + k * 4));
    for (let k = 0; k < head; k++) {
      state = next(state);
      store<u16>(to + k * 2, toHalf(load<f32>(row + k * 4), <i32>(<u32>state >> 19)));
    }
    to += head * 2;
    for (let v = 0; v < vectors && size > 0; v++) {
      const noise: usize = v == 0 && lift ? lift + load<i32>(record + PACKED_LIFT * 4) * 4 : 0;
      const codes = to + vectors * 2 + v * size * (bits >> 3);
      state = packVector(codes, to + v * 2, from + v * ends * 4, noise, size, bits, next(state), scratch);
    }
  }
}

/** Two numbers as they are kept, as doubles. */
@inline
export function difference(from: usize, noise: usize): v128 {
  const d = f64x2.promote_low_f32x4(v128.load64_zero(from));
  return noise ? f64x2.sub(d, f64x2.promote_low_f32x4(v128.load64_zero(noise))) : d;
}

/** Packs a vector; returns the state of its chance. `work` takes its numbers as doubles, two more than there are. */
function packVector(
  to: usize, scaleAt: usize, from: usize, noise: usize, size: i32, bits: i32, first: i32, work: usize,
): i32 {
  let state = first;
  let most: f64 = 0;
  let tops = f64x2.splat(0);
  let k = 0;
  for (; k + 2 <= size; k += 2) {
    const d = difference(from + k * 4, noise ? noise + k * 4 : 0);
    v128.store(work + k * 8, d);
    tops = f64x2.pmax(tops, f64x2.abs(d));
  }
  most = Math.max(f64x2.extract_lane(tops, 0), f64x2.extract_lane(tops, 1));
  if (k < size) {
    const d = <f64>load<f32>(from + k * 4) - (noise ? <f64>load<f32>(noise + k * 4) : 0);
    store<f64>(work + k * 8, d);
    most = Math.max(most, Math.abs(d));
  }
  if (most < 1e-30) most = 0;
  let brain: u32 = 0;
  if (most > 0) {
    if (bits == 16) brain = ((reinterpret<u32>(<f32>(most / 32767)) + 0x7fffff) >> 23) << 7;
    else brain = (reinterpret<u32>(<f32>(most / 127)) + (<u32>state >> 16)) >> 16;
  }
  store<u16>(scaleAt, brain);
  const steps: f64 = most == 0 ? 0 : 1 / <f64>fromBrain(brain);
  const spread: f64 = 1.0 / 16777216.0;
  const base: f64 = bits == 16 ? 32768 : 128;
  const end = bits == 16 ? 32768 : 127;
  k = 0;
  // Four steps of the chance at once: s ← a⁴·s + c·(a³ + a² + a + 1).
  const s1 = next(state), s2 = next(s1), s3 = next(s2), s4 = next(s3);
  let states = i32x4(s1, s2, s3, s4);
  const jump = i32x4.splat(A4), add = i32x4.splat(C4);
  const scale = f64x2.splat(steps), fine = f64x2.splat(spread), offset = f64x2.splat(base);
  const low = i32x4.splat(bits == 16 ? -32768 : -127), high = i32x4.splat(end), back = i32x4.splat(<i32>base);
  for (; k + 4 <= size; k += 4) {
    const chance = i32x4.shr_u(states, 8);
    const upper = v128.shuffle<i32>(chance, chance, 2, 3, 0, 1);
    const a = f64x2.add(f64x2.add(f64x2.mul(v128.load(work + k * 8), scale), f64x2.mul(f64x2.convert_low_i32x4_s(chance), fine)), offset);
    const b = f64x2.add(f64x2.add(f64x2.mul(v128.load(work + k * 8, 16), scale), f64x2.mul(f64x2.convert_low_i32x4_s(upper), fine)), offset);
    const both = v128.shuffle<i32>(i32x4.trunc_sat_f64x2_s_zero(a), i32x4.trunc_sat_f64x2_s_zero(b), 0, 1, 4, 5);
    const codes = i32x4.sub(both, back);
    if (bits == 16) {
      store<u16>(to + k * 2, i32x4.extract_lane(codes, 0));
      store<u16>(to + k * 2, i32x4.extract_lane(codes, 1), 2);
      store<u16>(to + k * 2, i32x4.extract_lane(codes, 2), 4);
      store<u16>(to + k * 2, i32x4.extract_lane(codes, 3), 6);
    } else {
      const cut = i32x4.min_s(i32x4.max_s(codes, low), high);
      const halves = i16x8.narrow_i32x4_s(cut, cut);
      store<i32>(to + k, i32x4.extract_lane(i8x16.narrow_i16x8_s(halves, halves), 0));
    }
    state = i32x4.extract_lane(states, 3);
    states = i32x4.add(i32x4.mul(states, jump), add);
  }
  for (; k < size; k++) {
    state = next(state);
    const code = <i32>(load<f64>(work + k * 8) * steps + <f64>(<u32>state >> 8) * spread + base) - <i32>base;
    if (bits == 16) store<u16>(to + k * 2, code);
    else store<u8>(to + k, max(-127, min(127, code)));
  }
  if (bits == 8 && most > 0)
    for (k = 0; k < size; k++) {
      const d = load<f64>(work + k * 8);
      if (Math.abs(d) == most) store<u8>(to + k, d > 0 ? 127 : -127);
    }
  return state;
}

const A: i32 = <i32>0x915f77f5;
const A4: i32 = A * A * A * A;
const C4: i32 = <i32>0x6d2b79f5 * (A * A * A + A * A + A + 1);
