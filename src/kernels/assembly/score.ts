/** From rows to logits and losses: projections, pair scores with their gradients, the three losses. */

import { DOT, LOGISTIC, SQUARED } from "../layout";
import { first, firstColumn, last, lastColumn } from "./share";
import { dot, exp, fma, fnma, logOnePlus, put, putStrip, splat, squaredDistance } from "./vector";

export function project(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const input: usize = load<u32>(p, 4);
  const weight: usize = load<u32>(p, 8);
  const bias: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const outputs = load<i32>(p, 24);
  const stride: usize = columns * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++)
    for (let o = 0; o < outputs; o++)
      store<f32>(out + (r * outputs + o) * 4, load<f32>(bias + o * 4) + dot(input + r * stride, weight + o * stride, columns));
}

/** Sixteen outputs at a time; the sum runs over k. */
export function correlate(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const input: usize = load<u32>(p, 4);
  const weight: usize = load<u32>(p, 8);
  const count = load<i32>(p, 12);
  const columns = load<i32>(p, 16);
  const end = lastColumn(count, part, parts);
  for (let t = firstColumn(count, part, parts); t < end; t += 16) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    let at = input + t * 4;
    for (let k = 0; k < columns; k++) {
      const w = splat(weight + k * 4);
      s0 = fma(w, v128.load(at), s0);
      s1 = fma(w, v128.load(at, 16), s1);
      s2 = fma(w, v128.load(at, 32), s2);
      s3 = fma(w, v128.load(at, 48), s3);
      at += 4;
    }
    putStrip(out + t * 4, s0, s1, s2, s3, end - t);
  }
}

/** Column `column` of four rows of a rows×outputs matrix; rows past the last repeat it. */
@inline
function gatherFour(p: usize, row: i32, rows: i32, outputs: i32, column: i32): v128 {
  const at = p + column * 4;
  if (outputs == 1) return v128.load(at + row * 4);
  let v = splat(at + row * outputs * 4);
  v = v128.load_lane<u32>(at + min(row + 1, rows - 1) * outputs * 4, v, 1);
  v = v128.load_lane<u32>(at + min(row + 2, rows - 1) * outputs * 4, v, 2);
  return v128.load_lane<u32>(at + min(row + 3, rows - 1) * outputs * 4, v, 3);
}

function scatterFour(p: usize, row: i32, rows: i32, outputs: i32, column: i32, v: v128): void {
  const at = p + (row * outputs + column) * 4;
  const stride: usize = outputs * 4;
  v128.store_lane<u32>(at, v, 0);
  if (row + 1 < rows) v128.store_lane<u32>(at + stride, v, 1);
  if (row + 2 < rows) v128.store_lane<u32>(at + 2 * stride, v, 2);
  if (row + 3 < rows) v128.store_lane<u32>(at + 3 * stride, v, 3);
}

/** Cross-entropy of four rows. The largest logit is kept out of the sum, so that a sure answer keeps its small loss. */
function softmaxFour(losses: usize, dLogits: usize, logits: usize, labels: usize, row: i32, rows: i32, outputs: i32): void {
  const label = v128.load(labels + row * 4);
  let max = f32x4.splat(-Infinity);
  let own = f32x4.splat(NaN);
  for (let o = 0; o < outputs; o++) {
    const z = gatherFour(logits, row, rows, outputs, o);
    max = f32x4.pmax(max, z);
    own = v128.bitselect(z, own, f32x4.eq(label, f32x4.splat(<f32>o)));
  }
  let rest = f32x4.splat(0);
  let found = f32x4.splat(0);
  for (let o = 0; o < outputs; o++) {
    const z = gatherFour(logits, row, rows, outputs, o);
    const top = v128.andnot(f32x4.eq(z, max), found);
    found = v128.or(found, top);
    rest = f32x4.add(rest, v128.andnot(exp(f32x4.sub(z, max)), top));
  }
  put(losses + row * 4, f32x4.add(logOnePlus(rest), f32x4.sub(max, own)), rows - row);
  if (!dLogits) return;
  const sum = f32x4.add(rest, f32x4.splat(1));
  found = f32x4.splat(0);
  for (let o = 0; o < outputs; o++) {
    const z = gatherFour(logits, row, rows, outputs, o);
    const top = v128.andnot(f32x4.eq(z, max), found);
    found = v128.or(found, top);
    const isLabel = f32x4.eq(label, f32x4.splat(<f32>o));
    // p − 1 of the largest is −rest/sum, without cancellation.
    const both = v128.and(top, isLabel);
    const share = f32x4.div(v128.bitselect(f32x4.neg(rest), exp(f32x4.sub(z, max)), both), sum);
    const one = v128.and(v128.andnot(isLabel, both), f32x4.splat(1));
    scatterFour(dLogits, row, rows, outputs, o, f32x4.sub(share, one));
  }
}

export function loss(p: usize, part: i32, parts: i32): void {
  const losses: usize = load<u32>(p);
  const dLogits: usize = load<u32>(p, 4);
  const logits: usize = load<u32>(p, 8);
  const labels: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const outputs = load<i32>(p, 20);
  const kind = load<i32>(p, 24);
  const units = (rows + 3) / 4;
  const end = min(rows, last(units, part, parts) * 4);
  for (let r = first(units, part, parts) * 4; r < end; r += 4) {
    if (kind != SQUARED && kind != LOGISTIC) {
      softmaxFour(losses, dLogits, logits, labels, r, rows, outputs);
      continue;
    }
    const z = gatherFour(logits, r, rows, outputs, 0);
    const y = v128.load(labels + r * 4);
    // With e = e^−|z| and s = e/(1 + e): σ(z) is 1 − s for z ≥ 0, s for z < 0. σ − y so keeps a small difference.
    const e = exp(f32x4.neg(f32x4.abs(z)));
    const share = f32x4.div(e, f32x4.add(e, f32x4.splat(1)));
    const positive = f32x4.ge(z, f32x4.splat(0));
    const one = v128.and(positive, f32x4.splat(1));
    const signed = v128.bitselect(f32x4.neg(share), share, positive);
    const difference = f32x4.add(f32x4.sub(one, y), signed);
    if (kind == SQUARED) {
      put(losses + r * 4, f32x4.mul(difference, difference), rows - r);
      if (dLogits) {
        const slope = f32x4.mul(share, f32x4.sub(f32x4.splat(1), share));
        put(dLogits + r * 4, f32x4.mul(f32x4.mul(f32x4.splat(2), difference), slope), rows - r);
      }
    } else {
      // softplus(z) − y·z; max(z, 0) − y·z is exact for labels 0 and 1.
      const straight = f32x4.sub(f32x4.pmax(z, f32x4.splat(0)), f32x4.mul(y, z));
      put(losses + r * 4, f32x4.add(straight, logOnePlus(e)), rows - r);
      if (dLogits) put(dLogits + r * 4, difference, rows - r);
    }
  }
}

export function pairScore(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const metric = load<i32>(p, 4);
  const factor = load<f32>(p, 8);
  const user: usize = load<u32>(p, 12);
  const item: usize = load<u32>(p, 16);
  const userIndex: usize = load<u32>(p, 20);
  const itemIndex: usize = load<u32>(p, 24);
  const pairs = load<i32>(p, 28);
  const columns = load<i32>(p, 32);
  const stride: usize = columns * 4;
  const end = last(pairs, part, parts);
  for (let r = first(pairs, part, parts); r < end; r++) {
    const u = user + load<i32>(userIndex + r * 4) * stride;
    const i = item + load<i32>(itemIndex + r * 4) * stride;
    const score = metric == DOT ? dot(u, i, columns) : -squaredDistance(u, i, columns);
    store<f32>(out + r * 4, score * factor);
  }
}

/** Up to four columns of a pair's gradients, added to its user's and its item's. */
@inline
function addPairFour(dUser: usize, dItem: usize, user: usize, item: usize, d: v128, metric: i32, lanes: i32): void {
  const a = v128.load(user), b = v128.load(item);
  const oldUser = v128.load(dUser), oldItem = v128.load(dItem);
  const difference = f32x4.sub(a, b);
  put(dUser, metric == DOT ? fma(d, b, oldUser) : fnma(d, difference, oldUser), lanes);
  put(dItem, metric == DOT ? fma(d, a, oldItem) : fma(d, difference, oldItem), lanes);
}

export function pairScoreBackward(p: usize, part: i32, parts: i32): void {
  const dScores: usize = load<u32>(p, 8);
  const metric = load<i32>(p, 12);
  const factor = load<f32>(p, 16);
  const users = load<i32>(p, 20);
  const items = load<i32>(p, 24);
  const userIndex: usize = load<u32>(p, 36);
  const itemIndex: usize = load<u32>(p, 40);
  const pairs = load<i32>(p, 44);
  const columns = load<i32>(p, 48);
  const stride: usize = columns * 4;
  const from = firstColumn(columns, part, parts), end = lastColumn(columns, part, parts);
  if (from >= end) return;
  const at: usize = from * 4, bytes: usize = (end - from) * 4;
  const full: usize = ((end - from) & ~3) * 4;
  const dUser = load<u32>(p) + at, dItem = load<u32>(p, 4) + at;
  const user = load<u32>(p, 28) + at, item = load<u32>(p, 32) + at;
  for (let r = 0; r < users; r++) memory.fill(dUser + r * stride, 0, bytes);
  for (let r = 0; r < items; r++) memory.fill(dItem + r * stride, 0, bytes);
  for (let r = 0; r < pairs; r++) {
    const u: usize = load<i32>(userIndex + r * 4) * stride, i: usize = load<i32>(itemIndex + r * 4) * stride;
    const score = load<f32>(dScores + r * 4) * factor;
    const d = f32x4.splat(metric == DOT ? score : 2 * score);
    for (let o: usize = 0; o < full; o += 16)
      addPairFour(dUser + u + o, dItem + i + o, user + u + o, item + i + o, d, metric, 4);
    if (full < bytes)
      addPairFour(dUser + u + full, dItem + i + full, user + u + full, item + i + full, d, metric, (end - from) & 3);
  }
}

/** Up to four columns of a pair's gradient on one side. */
@inline
function pairFour(out: usize, own: usize, other: usize, d: v128, metric: i32, lanes: i32): void {
  put(out, f32x4.mul(d, metric == DOT ? v128.load(other) : f32x4.sub(v128.load(own), v128.load(other))), lanes);
}

export function pairScoreGradient(p: usize, part: i32, parts: i32): void {
  const dScores: usize = load<u32>(p, 4);
  const rowIndex: usize = load<u32>(p, 8);
  const rows = load<i32>(p, 12);
  const metric = load<i32>(p, 16);
  const factor = load<f32>(p, 20);
  const own: usize = load<u32>(p, 24);
  const other: usize = load<u32>(p, 28);
  const ownIndex: usize = load<u32>(p, 32);
  const otherIndex: usize = load<u32>(p, 36);
  const columns = load<i32>(p, 40);
  const stride: usize = columns * 4;
  const full: usize = (columns & ~3) * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const pair: usize = load<i32>(rowIndex + r * 4) * 4;
    const out = load<u32>(p) + r * stride;
    const a = own + load<i32>(ownIndex + pair) * stride;
    const b = other + load<i32>(otherIndex + pair) * stride;
    const score = load<f32>(dScores + pair) * factor;
    const d = f32x4.splat(metric == DOT ? score : -2 * score);
    for (let o: usize = 0; o < full; o += 16) pairFour(out + o, a + o, b + o, d, metric, 4);
    if (full < stride) pairFour(out + full, a + full, b + full, d, metric, columns & 3);
  }
}
