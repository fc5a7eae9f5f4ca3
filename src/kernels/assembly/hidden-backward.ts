/** The way back through the hidden layer in training: from the logits to users, items and norm. */

import { throughTanh } from "./norm";
import { firstColumn, lastColumn, LINE } from "./share";
import { CONSTANTS, ROOM_BACKWARD, ROWS_AT, SOME, STRIP, TANH_AT, together, UNUSED } from "./strips";
import { fma, put, putStrip, splat } from "./vector";

/** rows = (dy, h − center) of pairs [from, to), one strip; dy = (dLogits·weight) ∘ (1 − out²). Adds Σdy and Σdy·(h − center) to `sums`. */
function gatherBackward(rows: usize, p: usize, at: usize, shifts: usize, sums: usize, from: i32, to: i32): void {
  const weight = load<u32>(p, 28) + at;
  const outputs = load<i32>(p, 32);
  const pair = p + 48;
  const stride: usize = load<i32>(pair, 20) * 4;
  const user = load<u32>(pair) + at, item = load<u32>(pair, 4) + at;
  let u: usize = load<u32>(pair, 8) + from * 4, i: usize = load<u32>(pair, 12) + from * 4;
  const end = u + (to - from) * 4;
  let active = load<u32>(p) + from * stride + at;
  let dLogits = load<u32>(p, 24) + from * outputs * 4;
  let b0 = v128.load(sums), b1 = v128.load(sums, 16), b2 = v128.load(sums, 32), b3 = v128.load(sums, 48);
  let g0 = v128.load(sums, 64), g1 = v128.load(sums, 80), g2 = v128.load(sums, 96), g3 = v128.load(sums, 112);
  while (u < end) {
    const d = splat(dLogits);
    let d0 = f32x4.mul(d, v128.load(weight)), d1 = f32x4.mul(d, v128.load(weight, 16));
    let d2 = f32x4.mul(d, v128.load(weight, 32)), d3 = f32x4.mul(d, v128.load(weight, 48));
    for (let o = 1; o < outputs; o++) {
      const e = splat(dLogits + o * 4);
      const x = weight + o * stride;
      d0 = fma(e, v128.load(x), d0);
      d1 = fma(e, v128.load(x, 16), d1);
      d2 = fma(e, v128.load(x, 32), d2);
      d3 = fma(e, v128.load(x, 48), d3);
    }
    const a = user + load<u32>(u) * stride, b = item + load<u32>(i) * stride;
    d0 = throughTanh(d0, v128.load(active));
    v128.store(rows, d0);
    b0 = f32x4.add(b0, d0);
    let h = f32x4.add(f32x4.add(v128.load(a), v128.load(b)), v128.load(shifts));
    v128.store(rows, h, 64);
    g0 = fma(d0, h, g0);
    d1 = throughTanh(d1, v128.load(active, 16));
    v128.store(rows, d1, 16);
    b1 = f32x4.add(b1, d1);
    h = f32x4.add(f32x4.add(v128.load(a, 16), v128.load(b, 16)), v128.load(shifts, 16));
    v128.store(rows, h, 80);
    g1 = fma(d1, h, g1);
    d2 = throughTanh(d2, v128.load(active, 32));
    v128.store(rows, d2, 32);
    b2 = f32x4.add(b2, d2);
    h = f32x4.add(f32x4.add(v128.load(a, 32), v128.load(b, 32)), v128.load(shifts, 32));
    v128.store(rows, h, 96);
    g2 = fma(d2, h, g2);
    d3 = throughTanh(d3, v128.load(active, 48));
    v128.store(rows, d3, 48);
    b3 = f32x4.add(b3, d3);
    h = f32x4.add(f32x4.add(v128.load(a, 48), v128.load(b, 48)), v128.load(shifts, 48));
    v128.store(rows, h, 112);
    g3 = fma(d3, h, g3);
    rows += 2 * STRIP;
    u += 4;
    i += 4;
    active += stride;
    dLogits += outputs * 4;
  }
  putStrip(sums, b0, b1, b2, b3, LINE);
  putStrip(sums + 64, g0, g1, g2, g3, LINE);
}

/** Clears some columns of a matrix. */
function clear(p: usize, rows: i32, stride: usize, width: i32): void {
  for (let r = 0; r < rows; r++) {
    memory.fill(p, 0, width * 4);
    p += stride;
  }
}

/** Adds four vectors to one strip. */
@inline
function addStrip(p: usize, d0: v128, d1: v128, d2: v128, d3: v128, width: i32): void {
  const e0 = f32x4.add(v128.load(p), d0), e1 = f32x4.add(v128.load(p, 16), d1);
  const e2 = f32x4.add(v128.load(p, 32), d2), e3 = f32x4.add(v128.load(p, 48), d3);
  putStrip(p, e0, e1, e2, e3, width);
}

/** dh = factor·dy + offset + (h − center)·slope, added to the strips of its user and item. */
function scatter(rows: usize, p: usize, at: usize, width: i32, constants: usize, from: i32, to: i32): void {
  const pair = p + 48;
  const stride: usize = load<i32>(pair, 20) * 4;
  const dUser = load<u32>(p, 8) + at, dItem = load<u32>(p, 12) + at;
  let u: usize = load<u32>(pair, 8) + from * 4, i: usize = load<u32>(pair, 12) + from * 4;
  const end = u + (to - from) * 4;
  const k0 = v128.load(constants, 192), k1 = v128.load(constants, 208), k2 = v128.load(constants, 224), k3 = v128.load(constants, 240);
  const b0 = v128.load(constants, 64), b1 = v128.load(constants, 80), b2 = v128.load(constants, 96), b3 = v128.load(constants, 112);
  const g0 = v128.load(constants, 128), g1 = v128.load(constants, 144), g2 = v128.load(constants, 160), g3 = v128.load(constants, 176);
  if (width >= LINE) {
    while (u < end) {
      const user = dUser + load<u32>(u) * stride, item = dItem + load<u32>(i) * stride;
      let d = fma(v128.load(rows, 64), g0, fma(v128.load(rows), k0, b0));
      v128.store(user, f32x4.add(v128.load(user), d));
      v128.store(item, f32x4.add(v128.load(item), d));
      d = fma(v128.load(rows, 80), g1, fma(v128.load(rows, 16), k1, b1));
      v128.store(user, f32x4.add(v128.load(user, 16), d), 16);
      v128.store(item, f32x4.add(v128.load(item, 16), d), 16);
      d = fma(v128.load(rows, 96), g2, fma(v128.load(rows, 32), k2, b2));
      v128.store(user, f32x4.add(v128.load(user, 32), d), 32);
      v128.store(item, f32x4.add(v128.load(item, 32), d), 32);
      d = fma(v128.load(rows, 112), g3, fma(v128.load(rows, 48), k3, b3));
      v128.store(user, f32x4.add(v128.load(user, 48), d), 48);
      v128.store(item, f32x4.add(v128.load(item, 48), d), 48);
      rows += 2 * STRIP;
      u += 4;
      i += 4;
    }
  } else {
    while (u < end) {
      const d0 = fma(v128.load(rows, 64), g0, fma(v128.load(rows), k0, b0));
      const d1 = fma(v128.load(rows, 80), g1, fma(v128.load(rows, 16), k1, b1));
      const d2 = fma(v128.load(rows, 96), g2, fma(v128.load(rows, 32), k2, b2));
      const d3 = fma(v128.load(rows, 112), g3, fma(v128.load(rows, 48), k3, b3));
      addStrip(dUser + load<u32>(u) * stride, d0, d1, d2, d3, width);
      addStrip(dItem + load<u32>(i) * stride, d0, d1, d2, d3, width);
      rows += 2 * STRIP;
      u += 4;
      i += 4;
    }
  }
}

/** (dy, h − center) of pairs [from, to) for some strips, and their sums at byte `sums` of each strip's constants. */
function gatherBackwardStrips(scratch: usize, block: usize, strips: i32, p: usize, at: usize, sums: usize, from: i32, to: i32): void {
  for (let r = from; r < to; r += SOME) {
    for (let s = 0; s < strips; s++) {
      const rows = scratch + ROWS_AT + s * block + (r - from) * 2 * STRIP;
      const constants = scratch + s * CONSTANTS;
      gatherBackward(rows, p, at + s * STRIP, constants, constants + sums, r, min(to, r + SOME));
    }
  }
}

/** From the sums of a strip: dβ = Σdy and dγ = Σdy·x̂; then factor, offset and slope of dh. */
function finishSums(constants: usize, p: usize, at: usize, width: i32): void {
  const norm = p + 72;
  const count = splat(p + 44);
  const gamma = load<u32>(norm) + at, scale = load<u32>(norm, 20) + at;
  const dGamma = load<u32>(p, 16) + at, dBeta = load<u32>(p, 20) + at;
  for (let j = 0; j < min(width, LINE); j += 4) {
    const o: usize = j * 4;
    const x = v128.load(scale + o);
    const sum = v128.load(constants + o, 64), product = f32x4.mul(v128.load(constants + o, 128), x);
    put(dBeta + o, sum, width - j);
    put(dGamma + o, product, width - j);
    // dh = γ·scale·(dy − (Σdy + (h − center)·scale·Σdy·x̂)/pairs) = factor·dy + offset + (h − center)·slope
    const factor = f32x4.mul(v128.load(gamma + o), x);
    const minus = f32x4.neg(f32x4.div(factor, count));
    v128.store(constants + o, f32x4.mul(minus, sum), 64);
    v128.store(constants + o, f32x4.mul(f32x4.mul(minus, product), x), 128);
    v128.store(constants + o, factor, 192);
  }
}

export function hiddenTrainBackward(p: usize, part: i32, parts: i32, scratch: usize): void {
  const bias: usize = load<u32>(p, 4);
  const users = load<i32>(p, 36);
  const items = load<i32>(p, 40);
  const pair = p + 48;
  const norm = p + 72;
  const pairs = load<i32>(pair, 16);
  const columns = load<i32>(pair, 20);
  const stride: usize = columns * 4;
  const step = together(pairs, ROOM_BACKWARD) * LINE;
  const block = min(pairs, ROOM_BACKWARD) * 2 * STRIP;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += step) {
    const width = min(step, end - c);
    const strips = (width + LINE - 1) / LINE;
    const at: usize = c * 4;
    memory.fill(scratch, 0, TANH_AT);
    // A strip's constants: bias − center, Σdy and then the offset, Σdy·(h − center) and then the slope, the factor.
    for (let s = 0; s < strips; s++) {
      const shifts = scratch + s * CONSTANTS, o = at + s * STRIP;
      const center = load<u32>(norm, 16) + o;
      for (let j: usize = 0; j < 64; j += 16) v128.store(shifts + j, f32x4.sub(v128.load(bias + o + j), v128.load(center + j)));
    }
    for (let from = 0; from < pairs; from += ROOM_BACKWARD)
      gatherBackwardStrips(scratch, block, strips, p, at, 64, from, min(pairs, from + ROOM_BACKWARD));
    for (let s = 0; s < strips; s++) finishSums(scratch + s * CONSTANTS, p, at + s * STRIP, width - s * LINE);
    const dUser = load<u32>(p, 8) + at, dItem = load<u32>(p, 12) + at;
    clear(dUser, users, stride, width);
    clear(dItem, items, stride, width);
    for (let from = 0; from < pairs; from += ROOM_BACKWARD) {
      const to = min(pairs, from + ROOM_BACKWARD);
      if (ROOM_BACKWARD < pairs) gatherBackwardStrips(scratch, block, strips, p, at, UNUSED, from, to);
      for (let r = from; r < to; r += SOME) {
        for (let s = 0; s < strips; s++) {
          const rows = scratch + ROWS_AT + s * block + (r - from) * 2 * STRIP;
          scatter(rows, p, at + s * STRIP, width - s * LINE, scratch + s * CONSTANTS, r, min(to, r + SOME));
        }
      }
    }
  }
}
