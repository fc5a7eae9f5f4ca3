/**
 * The hidden layer in training: h = user[u] + item[i] + bias over pairs of rows, normalised with the statistics of these
 * pairs, tanh. Pairs on the tape are: user, item, userIndex, itemIndex, pairs, columns.
 */

import { applyRow, setFactors, useBatch } from "./norm";
import { firstColumn, lastColumn, LINE } from "./share";
import { CONSTANTS, ROOM, ROWS_AT, SOME, STRIP, STRIPS, TANH_AT, together, UNUSED } from "./strips";
import { fma, putStrip, splat } from "./vector";

/** rows = h of pairs [from, to), one strip, `span` bytes apart; adds them to `sums`. */
function gather(rows: usize, span: usize, p: usize, bias: usize, at: usize, from: i32, to: i32, sums: usize): void {
  const user = load<u32>(p) + at, item = load<u32>(p, 4) + at;
  const stride: usize = load<i32>(p, 20) * 4;
  let u: usize = load<u32>(p, 8) + from * 4, i: usize = load<u32>(p, 12) + from * 4;
  const end = u + (to - from) * 4;
  const b0 = v128.load(bias), b1 = v128.load(bias, 16), b2 = v128.load(bias, 32), b3 = v128.load(bias, 48);
  let s0 = v128.load(sums), s1 = v128.load(sums, 16), s2 = v128.load(sums, 32), s3 = v128.load(sums, 48);
  while (u < end) {
    const a = user + load<u32>(u) * stride, b = item + load<u32>(i) * stride;
    let h = f32x4.add(f32x4.add(v128.load(a), v128.load(b)), b0);
    v128.store(rows, h);
    s0 = f32x4.add(s0, h);
    h = f32x4.add(f32x4.add(v128.load(a, 16), v128.load(b, 16)), b1);
    v128.store(rows, h, 16);
    s1 = f32x4.add(s1, h);
    h = f32x4.add(f32x4.add(v128.load(a, 32), v128.load(b, 32)), b2);
    v128.store(rows, h, 32);
    s2 = f32x4.add(s2, h);
    h = f32x4.add(f32x4.add(v128.load(a, 48), v128.load(b, 48)), b3);
    v128.store(rows, h, 48);
    s3 = f32x4.add(s3, h);
    rows += span;
    u += 4;
    i += 4;
  }
  putStrip(sums, s0, s1, s2, s3, LINE);
}

/** Adds Σ (h − mean)² of some rows to `sums`. */
function addSquares(rows: usize, span: usize, count: i32, means: usize, sums: usize): void {
  const m0 = v128.load(means), m1 = v128.load(means, 16), m2 = v128.load(means, 32), m3 = v128.load(means, 48);
  let q0 = v128.load(sums), q1 = v128.load(sums, 16), q2 = v128.load(sums, 32), q3 = v128.load(sums, 48);
  for (let r = 0; r < count; r++) {
    let d = f32x4.sub(v128.load(rows), m0);
    q0 = fma(d, d, q0);
    d = f32x4.sub(v128.load(rows, 16), m1);
    q1 = fma(d, d, q1);
    d = f32x4.sub(v128.load(rows, 32), m2);
    q2 = fma(d, d, q2);
    d = f32x4.sub(v128.load(rows, 48), m3);
    q3 = fma(d, d, q3);
    rows += span;
  }
  putStrip(sums, q0, q1, q2, q3, LINE);
}

/** h of pairs [from, to) and its sums for some strips, the sums at byte `sums` of each strip's constants. */
function gatherStrips(scratch: usize, span: usize, strips: i32, pair: usize, bias: usize, c: i32, from: i32, to: i32, sums: usize): void {
  for (let r = from; r < to; r += SOME) {
    for (let s = 0; s < strips; s++) {
      const at: usize = (c + s * LINE) * 4;
      const rows = scratch + ROWS_AT + (r - from) * span + s * STRIP;
      gather(rows, span, pair, bias + at, at, r, min(to, r + SOME), scratch + s * CONSTANTS + sums);
    }
  }
}

export function hiddenTrain(p: usize, part: i32, parts: i32, scratch: usize): void {
  const out: usize = load<u32>(p);
  const bias: usize = load<u32>(p, 4);
  const count = splat(p + 8);
  const unbias = splat(p + 12);
  const pair = p + 16;
  const norm = p + 40;
  const pairs = load<i32>(pair, 16);
  const columns = load<i32>(pair, 20);
  const stride: usize = columns * 4;
  const step = together(pairs, ROOM) * LINE;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += step) {
    const width = min(step, end - c);
    const strips = (width + LINE - 1) / LINE;
    const span = strips * STRIP;
    memory.fill(scratch, 0, TANH_AT);
    for (let from = 0; from < pairs; from += ROOM)
      gatherStrips(scratch, span, strips, pair, bias, c, from, min(pairs, from + ROOM), 0);
    for (let s = 0; s < strips; s++) {
      const means = scratch + s * CONSTANTS;
      for (let j: usize = 0; j < 64; j += 16) v128.store(means + j, f32x4.div(v128.load(means + j), count));
    }
    for (let from = 0; from < pairs; from += ROOM) {
      const to = min(pairs, from + ROOM);
      if (ROOM < pairs) gatherStrips(scratch, span, strips, pair, bias, c, from, to, UNUSED);
      for (let s = 0; s < strips; s++) {
        const means = scratch + s * CONSTANTS;
        addSquares(scratch + ROWS_AT + s * STRIP, span, to - from, means, means + 64);
      }
    }
    for (let s = 0; s < strips; s++) {
      const left = width - s * LINE;
      for (let j = 0; j < min(left, LINE); j += 4) {
        const mean = scratch + s * CONSTANTS + j * 4;
        useBatch(norm, c + s * LINE + j, v128.load(mean), f32x4.div(v128.load(mean, 64), count), unbias, left - j);
      }
    }
    const at: usize = c * 4;
    const center = load<u32>(norm, 16) + at, beta = load<u32>(norm, 4) + at;
    const factors = scratch + TANH_AT, spare = factors + STRIPS * STRIP;
    setFactors(factors, norm, at, width);
    for (let from = 0; from < pairs; from += ROOM) {
      const to = min(pairs, from + ROOM);
      if (ROOM < pairs) gatherStrips(scratch, span, strips, pair, bias, c, from, to, UNUSED);
      for (let r = from; r < to; r++)
        applyRow(out + r * stride + at, scratch + ROWS_AT + (r - from) * span, center, factors, beta, width, true, spare);
    }
  }
}
