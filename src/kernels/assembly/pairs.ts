/** Learns pairs one after the other: `LearnPairs` in ../kernels.ts, with the same bits whatever the build. So nothing is fused. */

import { ROW_HEAD, ROW_LIFT, ROW_SIZE, ROW_STEP } from "../layout";
import { sigmoid } from "./exact";
import { mask, sumLanes } from "./vector";

let lift: usize, global: usize, ladder: usize, constants: usize;
let rungs: i32;
/** ⟨p, q⟩, ‖p‖² and ‖q‖² of what was summed last. */
let product: f32, ofUser: f32, ofItem: f32;

@inline
function constant(k: usize): f64 {
  return load<f32>(constants + (k << 2));
}

@inline
function sizeOf(row: usize): i32 {
  return load<i32>(row + ROW_SIZE * 4);
}

/** Takes the sums over the first numbers of two vectors. */
function sum(p: usize, q: usize, count: i32): void {
  let x0 = f32x4.splat(0), x1 = x0, y0 = x0, y1 = x0, z0 = x0, z1 = x0;
  let left = count;
  for (; left >= 8; left -= 8) {
    const p0 = v128.load(p), p1 = v128.load(p, 16), q0 = v128.load(q), q1 = v128.load(q, 16);
    x0 = f32x4.add(x0, f32x4.mul(p0, q0));
    x1 = f32x4.add(x1, f32x4.mul(p1, q1));
    y0 = f32x4.add(y0, f32x4.mul(p0, p0));
    y1 = f32x4.add(y1, f32x4.mul(p1, p1));
    z0 = f32x4.add(z0, f32x4.mul(q0, q0));
    z1 = f32x4.add(z1, f32x4.mul(q1, q1));
    p += 32;
    q += 32;
  }
  for (; left > 0; left -= 4) {
    const p0 = v128.and(v128.load(p), mask(left)), q0 = v128.and(v128.load(q), mask(left));
    x0 = f32x4.add(x0, f32x4.mul(p0, q0));
    y0 = f32x4.add(y0, f32x4.mul(p0, p0));
    z0 = f32x4.add(z0, f32x4.mul(q0, q0));
    p += 16;
    q += 16;
  }
  product = sumLanes(f32x4.add(x0, x1));
  ofUser = sumLanes(f32x4.add(y0, y1));
  ofItem = sumLanes(f32x4.add(z0, z1));
}

/** ε of an item from number k on. */
@inline
function noiseOf(item: usize, k: i32): usize {
  return lift + ((load<i32>(item + ROW_LIFT * 4) + k) << 2);
}

export function learnPairs(p: usize): void {
  const pairs: usize = load<u32>(p);
  const labels: usize = load<u32>(p, 4);
  const weights: usize = load<u32>(p, 8);
  const losses: usize = load<u32>(p, 12);
  const judged: usize = load<u32>(p, 16);
  const logits: usize = load<u32>(p, 20);
  lift = load<u32>(p, 24);
  global = load<u32>(p, 28);
  ladder = load<u32>(p, 32);
  const rows = load<i32>(p, 36);
  const passes = load<i32>(p, 40);
  rungs = load<i32>(p, 44);
  constants = p + 48;
  if (logits) {
    for (let r = 0; r < rows; r++) {
      const user: usize = <usize>load<u32>(pairs + (r << 3)) << 2;
      const item: usize = <usize>load<u32>(pairs + (r << 3), 4) << 2;
      const product = between(user + ROW_HEAD * 4, item + ROW_HEAD * 4, item, 0, sizeOf(user), sizeOf(item));
      store<f32>(logits + (r << 2), <f32>(baseOf(user, item) + product));
    }
    return;
  }
  for (let pass = 0; pass < passes; pass++)
    for (let r = 0; r < rows; r++) {
      const user: usize = <usize>load<u32>(pairs + (r << 3)) << 2;
      const item: usize = <usize>load<u32>(pairs + (r << 3), 4) << 2;
      const weight: f64 = weights ? load<f32>(weights + (r << 2)) : 1;
      const out: usize = judged && pass == 0 ? <usize>load<u32>(judged + (r << 2)) << 2 : 0;
      const error = learn(user, item, load<f32>(labels + (r << 2)), weight, out);
      if (pass == 0) store<f32>(losses + (r << 2), <f32>(error * error));
    }
}

/** g and both biases. */
@inline
function baseOf(user: usize, item: usize): f64 {
  return <f64>load<f32>(global) + <f64>load<f32>(user) + <f64>load<f32>(item);
}

/** Scores a pair, judges it where `out` is given, and steps on its error, which is returned. */
function learn(user: usize, item: usize, label: f64, w: f64, out: usize): f64 {
  const size = sizeOf(user);
  const shared = min(size, sizeOf(item));
  const p = user + ROW_HEAD * 4, q = item + ROW_HEAD * 4;
  sum(p, q, shared);
  const product0: f64 = product, user0: f64 = ofUser, item0: f64 = ofItem;
  let whole = product0, wholeUser = user0, wholeItem = item0;
  if (shared < size) {
    sum(p + (shared << 2), noiseOf(item, shared), size - shared);
    whole += product;
    wholeUser += ofUser;
    wholeItem += ofItem;
  }
  const base = baseOf(user, item);
  const error = sigmoid(base + whole) - label;
  if (out) judge(out, user, item, base, whole, label);
  if (w == 0) return error;
  store<f32>(global, <f32>(<f64>load<f32>(global) - w * constant(0) * error));
  stepBias(user, error, w);
  stepBias(item, error, w);
  if (size == 0) return error;
  const l2User = constant(6), l2Item = constant(7);
  const squares = error * error * wholeItem + 2 * error * l2User * whole + l2User * l2User * wholeUser;
  const rate = w * constant(3) * slowed(user + 8, w * squares / sqrt<f64>(size));
  const keep = f32x4.splat(<f32>(1 - rate * l2User)), step = f32x4.splat(<f32>(rate * error));
  if (shared < size) moveBeyond(p + (shared << 2), noiseOf(item, shared), size - shared, keep, step);
  if (shared == 0) return error;
  const itemSquares = error * error * user0 + 2 * error * l2Item * product0 + l2Item * l2Item * item0;
  const itemRate = w * constant(4) * slowed(item + 8, w * itemSquares / sqrt<f64>(shared));
  movePair(p, q, shared, keep, step, f32x4.splat(<f32>(1 - itemRate * l2Item)), f32x4.splat(<f32>(itemRate * error)));
  return error;
}

/** One Adagrad step of the bias a row starts with, its accumulator behind it. */
@inline
function stepBias(row: usize, error: f64, w: f64): void {
  const bias: f64 = load<f32>(row);
  const gradient = error + constant(2) * bias;
  const squares = <f64>load<f32>(row, 4) + w * gradient * gradient;
  store<f32>(row, <f32>squares, 4);
  store<f32>(row, <f32>(bias - w * constant(1) / sqrt<f64>(squares) * gradient));
}

/** Adds to a vector's accumulator; returns what it slows a step down by. */
@inline
function slowed(at: usize, more: f64): f64 {
  const squares = <f32>(<f64>load<f32>(at) + more);
  store<f32>(at, squares);
  return 1 / sqrt<f64>(min<f64>(squares, constant(5)));
}

function movePair(p: usize, q: usize, count: i32, keep: v128, step: v128, itemKeep: v128, itemStep: v128): void {
  let left = count;
  for (; left >= 4; left -= 4) {
    const p0 = v128.load(p), q0 = v128.load(q);
    v128.store(p, f32x4.sub(f32x4.mul(keep, p0), f32x4.mul(step, q0)));
    v128.store(q, f32x4.sub(f32x4.mul(itemKeep, q0), f32x4.mul(itemStep, p0)));
    p += 16;
    q += 16;
  }
  if (left == 0) return;
  const p0 = v128.load(p), q0 = v128.load(q);
  v128.store(p, v128.bitselect(f32x4.sub(f32x4.mul(keep, p0), f32x4.mul(step, q0)), p0, mask(left)));
  v128.store(q, v128.bitselect(f32x4.sub(f32x4.mul(itemKeep, q0), f32x4.mul(itemStep, p0)), q0, mask(left)));
}

/** The same of numbers only the user holds. */
function moveBeyond(p: usize, noise: usize, count: i32, keep: v128, step: v128): void {
  for (let left = count; left > 0; left -= 4) {
    const p0 = v128.load(p);
    v128.store(p, v128.bitselect(f32x4.sub(f32x4.mul(keep, p0), f32x4.mul(step, v128.load(noise))), p0, mask(left)));
    p += 16;
    noise += 16;
  }
}

@inline
function sizeAt(rung: i32): i32 {
  return load<i32>(ladder + (rung << 2));
}

@inline
function lossOf(z: f64, label: f64): f32 {
  const error = sigmoid(z) - label;
  return <f32>(error * error);
}

/** What the pair would have cost with its user, and its item, cut to each rung up to the one held. */
function judge(out: usize, user: usize, item: usize, base: f64, whole: f64, label: f64): void {
  const size = sizeOf(user), held = sizeOf(item);
  const p = user + ROW_HEAD * 4, q = item + ROW_HEAD * 4;
  const top = load<i32>(user + ROW_STEP * 4);
  let part: f64 = 0;
  for (let rung = 0; rung < top; rung++) {
    const from = rung == 0 ? 0 : sizeAt(rung - 1);
    part += between(p, q, item, from, sizeAt(rung), held);
    store<f32>(out + (rung << 2), lossOf(base + part, label));
  }
  store<f32>(out + (top << 2), lossOf(base + whole, label));
  out += rungs << 2;
  const step = load<i32>(item + ROW_STEP * 4);
  part = 0;
  store<f32>(out + (step << 2), lossOf(base + whole, label));
  for (let rung = step - 1; rung >= 0; rung--) {
    const from = sizeAt(rung), to = min(sizeAt(rung + 1), size);
    if (from < to) part += beyondLift(p + (from << 2), q + (from << 2), noiseOf(item, from), to - from);
    store<f32>(out + (rung << 2), lossOf(base + whole - part, label));
  }
}

/** Σ p·q̂ from a number to another. */
function between(p: usize, q: usize, item: usize, from: i32, to: i32, held: i32): f64 {
  let part: f64 = 0;
  const end = min(to, held);
  if (from < end) part += dotOf(p + (from << 2), q + (from << 2), end - from);
  const start = max(from, held);
  if (start < to) part += dotOf(p + (start << 2), noiseOf(item, start), to - start);
  return part;
}

function dotOf(p: usize, q: usize, count: i32): f64 {
  let x = f32x4.splat(0);
  for (let left = count; left > 0; left -= 4) {
    x = f32x4.add(x, v128.and(f32x4.mul(v128.load(p), v128.load(q)), mask(left)));
    p += 16;
    q += 16;
  }
  return sumLanes(x);
}

/** Σ p·(q − ε) */
function beyondLift(p: usize, q: usize, noise: usize, count: i32): f64 {
  let x = f32x4.splat(0);
  for (let left = count; left > 0; left -= 4) {
    const d = f32x4.sub(v128.load(q), v128.load(noise));
    x = f32x4.add(x, v128.and(f32x4.mul(v128.load(p), d), mask(left)));
    p += 16;
    q += 16;
    noise += 16;
  }
  return sumLanes(x);
}
