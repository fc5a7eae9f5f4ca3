/** The hidden layer with running statistics: pairs split, one row at a time, straight to the logits; and its gradient. */

import { throughTanh, useRunning } from "./norm";
import { first, last } from "./share";
import { dot, fma, put, splat, takeTanh } from "./vector";

/** Pairs on the tape are: user, item, userIndex, itemIndex, pairs, columns. */
@inline
function userRow(p: usize, pair: i32): usize {
  return load<u32>(p) + load<i32>(load<u32>(p, 8) + pair * 4) * load<i32>(p, 20) * 4;
}

@inline
function itemRow(p: usize, pair: i32): usize {
  return load<u32>(p, 4) + load<i32>(load<u32>(p, 12) + pair * 4) * load<i32>(p, 20) * 4;
}

/** Columns whose constants a thread keeps at hand. */
const SPAN: i32 = 1024;
const SPAN_BYTES: usize = 4096;

export function hiddenInfer(p: usize, part: i32, parts: i32, scratch: usize): void {
  const logits: usize = load<u32>(p);
  const activation: usize = load<u32>(p, 4);
  const bias: usize = load<u32>(p, 8);
  const weight: usize = load<u32>(p, 12);
  const outputBias: usize = load<u32>(p, 16);
  const outputs = load<i32>(p, 20);
  const pair = p + 24;
  const norm = p + 48;
  const pairs = load<i32>(pair, 16);
  const columns = load<i32>(pair, 20);
  const stride: usize = columns * 4;
  const shifts = scratch;
  const factors = scratch + SPAN_BYTES;
  const sums = scratch + 2 * SPAN_BYTES;
  const from = first(pairs, part, parts);
  const end = last(pairs, part, parts);
  for (let r = from; r < end; r++)
    for (let o = 0; o < outputs; o++) store<f32>(logits + (r * outputs + o) * 4, load<f32>(outputBias + o * 4));
  for (let c = 0; c < columns; c += SPAN) {
    const width = min(SPAN, columns - c);
    const at: usize = c * 4;
    // y = (user + item + (bias − center))·(γ·scale) + β. Everyone works out the constants, one writes the statistics.
    for (let j = 0; j < width; j += 4) {
      const o: usize = j * 4;
      if (part == 0) useRunning(norm, c + j, width - j);
      const variance = v128.load(load<u32>(norm, 12) + at + o);
      const deviation = f32x4.sqrt(f32x4.add(variance, splat(norm + 24)));
      const scale = f32x4.div(f32x4.splat(1), deviation);
      v128.store(factors + o, f32x4.mul(scale, v128.load(load<u32>(norm) + at + o)));
      v128.store(shifts + o, f32x4.sub(v128.load(bias + at + o), v128.load(load<u32>(norm, 8) + at + o)));
    }
    const beta = load<u32>(norm, 4) + at;
    for (let r = from; r < end; r++) {
      const user = userRow(pair, r) + at;
      const item = itemRow(pair, r) + at;
      const active = activation ? activation + r * stride + at : sums;
      for (let j = 0; j < width; j += 8) {
        const o: usize = j * 4;
        const h0 = f32x4.add(f32x4.add(v128.load(user + o), v128.load(item + o)), v128.load(shifts + o));
        const h1 = f32x4.add(f32x4.add(v128.load(user + o, 16), v128.load(item + o, 16)), v128.load(shifts + o, 16));
        v128.store(sums + o, fma(h0, v128.load(factors + o), v128.load(beta + o)));
        v128.store(sums + o, fma(h1, v128.load(factors + o, 16), v128.load(beta + o, 16)), 16);
      }
      takeTanh(active, sums, width);
      const target = logits + r * outputs * 4;
      for (let o = 0; o < outputs; o++)
        store<f32>(target + o * 4, load<f32>(target + o * 4) + dot(active, weight + o * stride + at, width));
    }
  }
}

/** Up to four columns of `hiddenInferGradient`. */
@inline
function inferGradientFour(
  out: usize, dLogits: usize, outputs: i32, weight: usize, stride: usize, active: usize, gamma: usize, scale: usize, lanes: i32,
): void {
  let d = f32x4.mul(splat(dLogits), v128.load(weight));
  for (let o = 1; o < outputs; o++) d = fma(splat(dLogits + o * 4), v128.load(weight + o * stride), d);
  const factor = f32x4.mul(v128.load(gamma), v128.load(scale));
  put(out, f32x4.mul(throughTanh(d, v128.load(active)), factor), lanes);
}

export function hiddenInferGradient(p: usize, part: i32, parts: i32): void {
  const rowIndex: usize = load<u32>(p, 12);
  const weight: usize = load<u32>(p, 16);
  const rows = load<i32>(p, 20);
  const columns = load<i32>(p, 24);
  const outputs = load<i32>(p, 28);
  const gamma: usize = load<u32>(p, 32);
  const scale: usize = load<u32>(p, 32 + 20);
  const stride: usize = columns * 4;
  const full: usize = (columns & ~3) * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const pair = load<i32>(rowIndex + r * 4);
    const out = load<u32>(p) + r * stride;
    const dLogits = load<u32>(p, 4) + pair * outputs * 4;
    const active = load<u32>(p, 8) + pair * stride;
    for (let o: usize = 0; o < full; o += 16)
      inferGradientFour(out + o, dLogits, outputs, weight + o, stride, active + o, gamma + o, scale + o, 4);
    if (full < stride)
      inferGradientFour(out + full, dLogits, outputs, weight + full, stride, active + full, gamma + full, scale + full, columns & 3);
  }
}
