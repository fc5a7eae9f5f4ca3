/**
 * The hidden layer over pairs of rows: h = user[u] + item[i] + bias, norm, tanh. Training splits columns and keeps a
 * strip's h (and what backward needs) in scratch, as many pairs as fit; more pairs than that are gathered again.
 */

import { SCRATCH_BYTES } from "../layout";
import { STRIP, throughTanh, useBatch, useRunning } from "./norm";
import { first, firstColumn, last, lastColumn } from "./share";
import { dot, fma, mask, put, splat, sumLanes, tanh } from "./vector";

const STRIP_BYTES: usize = 128;
/** The first few strips of scratch hold sums, the rest rows. */
const ROWS_AT: usize = 1024;

/** Pairs on the tape are: user, item, userIndex, itemIndex, pairs, columns. */
@inline
function userRow(p: usize, pair: i32): usize {
  return load<u32>(p) + load<i32>(load<u32>(p, 8) + pair * 4) * load<i32>(p, 20) * 4;
}

@inline
function itemRow(p: usize, pair: i32): usize {
  return load<u32>(p, 4) + load<i32>(load<u32>(p, 12) + pair * 4) * load<i32>(p, 20) * 4;
}

/** rows = h of pairs [from, to), one strip. */
function gather(rows: usize, p: usize, bias: usize, at: usize, bytes: usize, from: i32, to: i32): void {
  let row = rows;
  for (let r = from; r < to; r++) {
    const user = userRow(p, r) + at;
    const item = itemRow(p, r) + at;
    for (let j: usize = 0; j < bytes; j += 16)
      v128.store(row + j, f32x4.add(f32x4.add(v128.load(user + j), v128.load(item + j)), v128.load(bias + j)));
    row += bytes;
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
  const means = scratch;
  const squares = scratch + STRIP_BYTES;
  const factors = scratch + 2 * STRIP_BYTES;
  const rows = scratch + ROWS_AT;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += STRIP) {
    const width = min(STRIP, end - c);
    const bytes: usize = ((width + 3) & ~3) * 4;
    const at: usize = c * 4;
    const room = <i32>((SCRATCH_BYTES - ROWS_AT) / bytes);
    memory.fill(means, 0, 2 * STRIP_BYTES);
    for (let from = 0; from < pairs; from += room) {
      const to = min(pairs, from + room);
      gather(rows, pair, bias + at, at, bytes, from, to);
      let row = rows;
      for (let r = from; r < to; r++) {
        for (let j: usize = 0; j < bytes; j += 16) v128.store(means + j, f32x4.add(v128.load(means + j), v128.load(row + j)));
        row += bytes;
      }
    }
    for (let j: usize = 0; j < bytes; j += 16) v128.store(means + j, f32x4.div(v128.load(means + j), count));
    for (let from = 0; from < pairs; from += room) {
      const to = min(pairs, from + room);
      if (room < pairs) gather(rows, pair, bias + at, at, bytes, from, to);
      let row = rows;
      for (let r = from; r < to; r++) {
        for (let j: usize = 0; j < bytes; j += 16) {
          const d = f32x4.sub(v128.load(row + j), v128.load(means + j));
          v128.store(squares + j, fma(d, d, v128.load(squares + j)));
        }
        row += bytes;
      }
    }
    for (let j = 0; j < width; j += 4) {
      const o: usize = j * 4;
      useBatch(norm, c + j, v128.load(means + o), f32x4.div(v128.load(squares + o), count), unbias, width - j);
      v128.store(factors + o, f32x4.mul(v128.load(load<u32>(norm, 20) + at + o), v128.load(load<u32>(norm) + at + o)));
    }
    const beta = load<u32>(norm, 4) + at;
    for (let from = 0; from < pairs; from += room) {
      const to = min(pairs, from + room);
      if (room < pairs) gather(rows, pair, bias + at, at, bytes, from, to);
      let row = rows;
      for (let r = from; r < to; r++) {
        const target = out + r * stride + at;
        for (let j = 0; j < width; j += 4) {
          const o: usize = j * 4;
          put(target + o, tanh(fma(f32x4.sub(v128.load(row + o), v128.load(means + o)), v128.load(factors + o), v128.load(beta + o))), width - j);
        }
        row += bytes;
      }
    }
  }
}

/** rows = pairs of (dy, x̂) of pairs [from, to), one strip: dy = (dLogits·weight) ∘ (1 − out²), x̂ = (h − center)·scale. */
function gatherBackward(
  rows: usize, p: usize, at: usize, bytes: usize, from: i32, to: i32,
): void {
  const out: usize = load<u32>(p);
  const bias = load<u32>(p, 4) + at;
  const dLogits: usize = load<u32>(p, 28);
  const weight = load<u32>(p, 32) + at;
  const outputs = load<i32>(p, 36);
  const pair = p + 52;
  const norm = p + 76;
  const center = load<u32>(norm, 16) + at;
  const scale = load<u32>(norm, 20) + at;
  const stride: usize = load<i32>(pair, 20) * 4;
  let row = rows;
  for (let r = from; r < to; r++) {
    const user = userRow(pair, r) + at;
    const item = itemRow(pair, r) + at;
    const active = out + r * stride + at;
    const d0 = dLogits + r * outputs * 4;
    const one = splat(d0);
    for (let j: usize = 0; j < bytes; j += 16) {
      let d = f32x4.mul(one, v128.load(weight + j));
      for (let o = 1; o < outputs; o++) d = fma(splat(d0 + o * 4), v128.load(weight + o * stride + j), d);
      const h = f32x4.add(f32x4.add(v128.load(user + j), v128.load(item + j)), v128.load(bias + j));
      v128.store(row + j, throughTanh(d, v128.load(active + j)));
      v128.store(row + bytes + j, f32x4.mul(f32x4.sub(h, v128.load(center + j)), v128.load(scale + j)));
    }
    row += 2 * bytes;
  }
}

/** Clears one strip of a matrix. */
function clear(p: usize, rows: i32, stride: usize, width: i32): void {
  for (let r = 0; r < rows; r++) {
    memory.fill(p, 0, width * 4);
    p += stride;
  }
}

export function hiddenTrainBackward(p: usize, part: i32, parts: i32, scratch: usize): void {
  const dUser: usize = load<u32>(p, 8);
  const dItem: usize = load<u32>(p, 12);
  const dBias: usize = load<u32>(p, 16);
  const dGamma: usize = load<u32>(p, 20);
  const dBeta: usize = load<u32>(p, 24);
  const users = load<i32>(p, 40);
  const items = load<i32>(p, 44);
  const count = splat(p + 48);
  const pair = p + 52;
  const norm = p + 76;
  const userIndex: usize = load<u32>(pair, 8);
  const itemIndex: usize = load<u32>(pair, 12);
  const pairs = load<i32>(pair, 16);
  const columns = load<i32>(pair, 20);
  const stride: usize = columns * 4;
  const betas = scratch;
  const gammas = scratch + STRIP_BYTES;
  const biases = scratch + 2 * STRIP_BYTES;
  const factors = scratch + 3 * STRIP_BYTES;
  const rows = scratch + ROWS_AT;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += STRIP) {
    const width = min(STRIP, end - c);
    const bytes: usize = ((width + 3) & ~3) * 4;
    const at: usize = c * 4;
    const room = <i32>((SCRATCH_BYTES - ROWS_AT) / (2 * bytes));
    memory.fill(betas, 0, 3 * STRIP_BYTES);
    for (let from = 0; from < pairs; from += room) {
      const to = min(pairs, from + room);
      gatherBackward(rows, p, at, bytes, from, to);
      let row = rows;
      for (let r = from; r < to; r++) {
        for (let j: usize = 0; j < bytes; j += 16) {
          const d = v128.load(row + j);
          v128.store(betas + j, f32x4.add(v128.load(betas + j), d));
          v128.store(gammas + j, fma(d, v128.load(row + bytes + j), v128.load(gammas + j)));
        }
        row += 2 * bytes;
      }
    }
    for (let j = 0; j < width; j += 4) {
      const o: usize = j * 4;
      put(dBeta + at + o, v128.load(betas + o), width - j);
      put(dGamma + at + o, v128.load(gammas + o), width - j);
      v128.store(betas + o, f32x4.div(v128.load(betas + o), count));
      v128.store(gammas + o, f32x4.div(v128.load(gammas + o), count));
      v128.store(factors + o, f32x4.mul(v128.load(load<u32>(norm) + at + o), v128.load(load<u32>(norm, 20) + at + o)));
    }
    clear(dUser + at, users, stride, width);
    clear(dItem + at, items, stride, width);
    // dh = γ·scale·(dy − (Σdy + x̂·Σdy·x̂)/pairs)
    for (let from = 0; from < pairs; from += room) {
      const to = min(pairs, from + room);
      if (room < pairs) gatherBackward(rows, p, at, bytes, from, to);
      let row = rows;
      for (let r = from; r < to; r++) {
        const user = dUser + load<i32>(userIndex + r * 4) * stride + at;
        const item = dItem + load<i32>(itemIndex + r * 4) * stride + at;
        for (let j = 0; j < width; j += 4) {
          const o: usize = j * 4;
          const mean = fma(v128.load(row + bytes + o), v128.load(gammas + o), v128.load(betas + o));
          const d = f32x4.mul(v128.load(factors + o), f32x4.sub(v128.load(row + o), mean));
          put(user + o, f32x4.add(v128.load(user + o), d), width - j);
          put(item + o, f32x4.add(v128.load(item + o), d), width - j);
          v128.store(biases + o, f32x4.add(v128.load(biases + o), d));
        }
        row += 2 * bytes;
      }
    }
    for (let j = 0; j < width; j += 4) put(dBias + at + j * 4, v128.load(biases + j * 4), width - j);
  }
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
  const spare = scratch + 2 * SPAN_BYTES;
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
    const full = width & ~3;
    for (let r = from; r < end; r++) {
      const user = userRow(pair, r) + at;
      const item = itemRow(pair, r) + at;
      const active = activation ? activation + r * stride + at : spare;
      let sum = f32x4.splat(0);
      for (let j = 0; j < full; j += 4) {
        const o: usize = j * 4;
        const h = f32x4.add(f32x4.add(v128.load(user + o), v128.load(item + o)), v128.load(shifts + o));
        const t = tanh(fma(h, v128.load(factors + o), v128.load(beta + o)));
        v128.store(active + o, t);
        sum = fma(t, v128.load(weight + at + o), sum);
      }
      if (full < width) {
        const o: usize = full * 4;
        const m = mask(width - full);
        const h = f32x4.add(f32x4.add(v128.load(user + o), v128.load(item + o)), v128.load(shifts + o));
        const t = tanh(fma(h, v128.load(factors + o), v128.load(beta + o)));
        put(active + o, t, width - full);
        sum = fma(v128.and(t, m), v128.and(v128.load(weight + at + o), m), sum);
      }
      const target = logits + r * outputs * 4;
      store<f32>(target, load<f32>(target) + sumLanes(sum));
      for (let o = 1; o < outputs; o++)
        store<f32>(target + o * 4, load<f32>(target + o * 4) + dot(active, weight + o * stride + at, width));
    }
  }
}

export function hiddenInferGradient(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const dLogits: usize = load<u32>(p, 4);
  const activation: usize = load<u32>(p, 8);
  const rowIndex: usize = load<u32>(p, 12);
  const weight: usize = load<u32>(p, 16);
  const rows = load<i32>(p, 20);
  const columns = load<i32>(p, 24);
  const outputs = load<i32>(p, 28);
  const gamma: usize = load<u32>(p, 32);
  const scale: usize = load<u32>(p, 32 + 20);
  const stride: usize = columns * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const pair = load<i32>(rowIndex + r * 4);
    const active = activation + pair * stride;
    const to = out + r * stride;
    const d0 = dLogits + pair * outputs * 4;
    const one = splat(d0);
    for (let j = 0; j < columns; j += 4) {
      const at: usize = j * 4;
      let d = f32x4.mul(one, v128.load(weight + at));
      for (let o = 1; o < outputs; o++) d = fma(splat(d0 + o * 4), v128.load(weight + o * stride + at), d);
      const factor = f32x4.mul(v128.load(gamma + at), v128.load(scale + at));
      put(to + at, f32x4.mul(throughTanh(d, v128.load(active + at)), factor), columns - j);
    }
  }
}
