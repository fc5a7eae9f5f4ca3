/**
 * Learns groups one after the other: `LearnGroups` in ../kernels.ts, with the same bits whatever the build. So nothing is
 * fused here, and no sum is split.
 */

import {
  GROUP_ALONE, GROUP_COUNT, GROUP_FROM, GROUP_INPUT, GROUP_JUDGED, GROUP_OWN, GROUP_TO, GROUP_TRAIL, GROUP_USER, GROUP_WEIGHT,
  GROUP_WORDS, ROW_HEAD, ROW_LIFT, ROW_SIZE, ROW_STEP, SCORERS,
} from "../layout";
import { expAll, groupLoss, sigmoid, softplus } from "./exact";
import { difference, fromBrain } from "./packed";
import { first, last } from "./share";
import { mask, sumLanes } from "./vector";

/** t stays within this: no bias is left out for good. */
const MIX_MOST: f32 = 4;

/** Where the operation's blocks are. */
let rows: usize, chances: usize, features: usize, fusion: usize, decay: usize, lift: usize, constants: usize;
let x: usize, dx: usize, z: usize, e: usize;
/** Errors with the slow and with the quick bias of each item alone, and m. */
let slow: usize, quick: usize, m: f32;
/** z with numbers of a vector left off, the vector with fewer bits, and the parts of its rungs in z. */
let other: usize, cut: usize, parts: usize;
/** How many rungs there are; their sizes, and then their bits. */
let rungs: i32, ladder: usize;
/** Numbers of x, and the same rounded up to whole blocks. */
let width: i32, padded: i32;

@inline
function blocks(size: i32): i32 {
  return (size + 15) & ~15;
}

@inline
function sizeOf(row: usize): i32 {
  return load<i32>(row + ROW_SIZE * 4);
}

/** The row of latest item a of a group, or 0. */
@inline
function latestOf(group: usize, a: i32): usize {
  return <usize>load<u32>(<usize>(load<i32>(group + GROUP_TRAIL * 4) - a) << 2) << 2;
}

@inline
function itemOf(row: i32): usize {
  return <usize>load<u32>(rows + (<usize>row << 2)) << 2;
}

@inline
function constant(k: usize): f32 {
  return load<f32>(constants + (k << 2));
}

export function learnGroups(p: usize): void {
  const groups: usize = load<u32>(p);
  rows = load<u32>(p, 4);
  chances = load<u32>(p, 8);
  features = load<u32>(p, 12);
  fusion = load<u32>(p, 16);
  decay = load<u32>(p, 20);
  lift = load<u32>(p, 24);
  const work: usize = load<u32>(p, 28);
  const losses: usize = load<u32>(p, 32);
  const from = load<i32>(p, 36);
  const to = load<i32>(p, 40);
  const pass = load<i32>(p, 44);
  const passes = load<i32>(p, 48);
  const widest = load<i32>(p, 52);
  const longest = load<i32>(p, 56);
  const latest = load<i32>(p, 60);
  rungs = load<i32>(p, 64);
  ladder = load<u32>(p, 68);
  constants = p + 72;
  x = work;
  dx = x + widest * 4;
  z = dx + widest * 4;
  e = z + longest * 4;
  other = e + longest * 4;
  cut = other + longest * 4;
  parts = cut + widest * 4;
  slow = parts + rungs * longest * 4;
  quick = slow + longest * 4;
  for (let g = from; g < to; g++) {
    const group = groups + g * GROUP_WORDS * 4;
    const first = load<i32>(group + GROUP_FROM * 4);
    const negatives = load<i32>(group + GROUP_TO * 4) - first;
    const low = first + negatives * pass / passes;
    const high = first + negatives * (pass + 1) / passes;
    const weights = decay + load<i32>(group + GROUP_COUNT * 4) * latest * 4;
    combine(group, weights);
    m = <f32>sigmoid(load<f32>(fusion + 2 * SCORERS * 4));
    const loss = weigh(group, low, high, pass == 0);
    if (pass == 0) {
      store<f32>(losses + g * 4, loss);
      const out: usize = <usize>load<u32>(group + GROUP_JUDGED * 4) << 2;
      if (out) judge(out, group, weights, low, high - low);
    }
    step(group, weights, low, high, pass == 0);
  }
}

export function scoreRows(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  rows = load<u32>(p, 4);
  x = load<u32>(p, 8);
  lift = load<u32>(p, 12);
  const count = load<i32>(p, 16);
  padded = blocks(load<i32>(p, 20));
  const end = last(count, part, parts);
  for (let i = first(count, part, parts); i < end; i++) store<f32>(out + i * 4, score(itemOf(i)));
}

/** x = p + Σ ω·y, zeros up to a whole block. */
function combine(group: usize, weights: usize): void {
  const user: usize = <usize>load<u32>(group + GROUP_USER * 4) << 2;
  const count = load<i32>(group + GROUP_COUNT * 4);
  const held = sizeOf(user);
  width = held;
  for (let a = 0; a < count; a++) {
    const row = latestOf(group, a);
    if (row) width = max(width, sizeOf(row));
  }
  padded = blocks(width);
  const own = blocks(held);
  for (let k = 0; k < padded; k += 16) {
    let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
    if (k < own) {
      const at = user + ROW_HEAD * 4 + k * 4;
      s0 = v128.load(at);
      s1 = v128.load(at, 16);
      s2 = v128.load(at, 32);
      s3 = v128.load(at, 48);
    }
    for (let a = 0; a < count; a++) {
      const row = latestOf(group, a);
      if (!row) continue;
      const size = blocks(sizeOf(row));
      if (k >= size) continue;
      const w = v128.load32_splat(weights + a * 4);
      const at = row + ROW_HEAD * 4 + (size + k) * 4;
      s0 = f32x4.add(s0, f32x4.mul(w, v128.load(at)));
      s1 = f32x4.add(s1, f32x4.mul(w, v128.load(at, 16)));
      s2 = f32x4.add(s2, f32x4.mul(w, v128.load(at, 32)));
      s3 = f32x4.add(s3, f32x4.mul(w, v128.load(at, 48)));
    }
    const to = x + k * 4;
    v128.store(to, s0);
    v128.store(to, s1, 16);
    v128.store(to, s2, 32);
    v128.store(to, s3, 48);
  }
}

/** b + ⟨x, q̂⟩ of an item's row. */
function score(row: usize): f32 {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  const held = min(blocks(sizeOf(row)), padded);
  let a = x, b = row + ROW_HEAD * 4;
  let k = 0;
  for (let end = held; ; end = padded) {
    for (; k < end; k += 16) {
      s0 = f32x4.add(s0, f32x4.mul(v128.load(a), v128.load(b)));
      s1 = f32x4.add(s1, f32x4.mul(v128.load(a, 16), v128.load(b, 16)));
      s2 = f32x4.add(s2, f32x4.mul(v128.load(a, 32), v128.load(b, 32)));
      s3 = f32x4.add(s3, f32x4.mul(v128.load(a, 48), v128.load(b, 48)));
      a += 64;
      b += 64;
    }
    if (k >= padded) break;
    b = lift + (load<i32>(row + ROW_LIFT * 4) + k) * 4;
  }
  return load<f32>(row) + sumLanes(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
}

/** z − log Q of row r of the batch. */
@inline
function logit(r: i32): f32 {
  let sum = score(itemOf(r));
  if (features) {
    sum += sumLanes(f32x4.mul(v128.load(fusion), v128.load(features + r * 16)));
  }
  return sum - load<f32>(chances + r * 4);
}

/** Scores a group; returns its loss. */
function weigh(group: usize, low: i32, high: i32, wantsLoss: bool): f32 {
  const length = 1 + high - low;
  const own = logit(load<i32>(group + GROUP_OWN * 4));
  const weight: f64 = load<f32>(group + GROUP_WEIGHT * 4);
  store<f32>(z, own);
  if (load<i32>(group + GROUP_ALONE * 4)) {
    store<f32>(e, <f32>(weight * sigmoid(own)));
    const gap = gapOf(load<i32>(group + GROUP_OWN * 4));
    store<f32>(slow, <f32>(weight * sigmoid(own - m * gap)));
    store<f32>(quick, <f32>(weight * sigmoid(own + (<f32>1 - m) * gap)));
    return <f32>softplus(own);
  }
  for (let r = low; r < high; r++) store<f32>(z + (1 + r - low) * 4, logit(r));
  errors(e, z, length, <f32>weight);
  errorsWith(slow, -m, group, low, length, <f32>weight);
  errorsWith(quick, <f32>1 - m, group, low, length, <f32>weight);
  return wantsLoss ? groupLoss(z, length, false) : 0;
}

/** r − s of row r of the batch. */
@inline
function gapOf(r: i32): f32 {
  return load<f32>(itemOf(r), 4);
}

/** weight·(softmax(z) − [the first]) */
function errors(out: usize, z: usize, length: i32, weight: f32): void {
  const scale = weight / expAll(out, z, length);
  for (let j = 0; j < length; j++) store<f32>(out + j * 4, load<f32>(out + j * 4) * scale);
  store<f32>(out, load<f32>(out) - weight);
}

/** The same with share·(r − s) more on every item. */
function errorsWith(out: usize, share: f32, group: usize, low: i32, length: i32, weight: f32): void {
  store<f32>(other, load<f32>(z) + share * gapOf(load<i32>(group + GROUP_OWN * 4)));
  for (let j = 1; j < length; j++) store<f32>(other + j * 4, load<f32>(z + j * 4) + share * gapOf(low + j - 1));
  errors(out, other, length, weight);
}

/** Σ of the squares of the first numbers. */
function squares(from: usize, count: i32): f32 {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let at = from;
  let left = count;
  for (; left >= 16; left -= 16) {
    const v0 = v128.load(at), v1 = v128.load(at, 16), v2 = v128.load(at, 32), v3 = v128.load(at, 48);
    s0 = f32x4.add(s0, f32x4.mul(v0, v0));
    s1 = f32x4.add(s1, f32x4.mul(v1, v1));
    s2 = f32x4.add(s2, f32x4.mul(v2, v2));
    s3 = f32x4.add(s3, f32x4.mul(v3, v3));
    at += 64;
  }
  for (; left > 0; left -= 4) {
    const v = v128.and(v128.load(at), mask(left));
    s0 = f32x4.add(s0, f32x4.mul(v, v));
    at += 16;
  }
  return sumLanes(f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3)));
}

/** Adds to the accumulator; returns what it slows the step down by. */
@inline
function slowed(at: usize, more: f32): f32 {
  const sum = load<f32>(at) + more;
  store<f32>(at, sum);
  return <f32>1 / sqrt<f32>(min(sum, constant(7)));
}

/** v ← keep·v − rate·d, the first numbers of v. */
function move(v: usize, d: usize, count: i32, keep: f32, rate: f32): void {
  const k = f32x4.splat(keep), r = f32x4.splat(rate);
  let left = count;
  for (; left >= 8; left -= 8) {
    const a = f32x4.sub(f32x4.mul(k, v128.load(v)), f32x4.mul(r, v128.load(d)));
    const b = f32x4.sub(f32x4.mul(k, v128.load(v, 16)), f32x4.mul(r, v128.load(d, 16)));
    v128.store(v, a);
    v128.store(v, b, 16);
    v += 32;
    d += 32;
  }
  for (; left > 0; left -= 4) {
    const old = v128.load(v);
    const moved = f32x4.sub(f32x4.mul(k, old), f32x4.mul(r, v128.load(d)));
    v128.store(v, v128.bitselect(moved, old, mask(left)));
    v += 16;
    d += 16;
  }
}

/** The last count whose squares were asked for, of x. */
let squaresOf: i32 = -1;
let squaresSum: f32 = 0;

@inline
function squaresOfX(count: i32): f32 {
  if (count != squaresOf) {
    squaresOf = count;
    squaresSum = squares(x, count);
  }
  return squaresSum;
}

/** dx += e·q̂ of an item's row, and its step. */
function stepItem(row: usize, error: f32, less: f32, more: f32): void {
  const size = sizeOf(row);
  const shared = min(size, width);
  const moved = -constant(0) * less;
  const further = -constant(10) * more - moved;
  store<f32>(row, load<f32>(row) + moved + m * further);
  store<f32>(row, load<f32>(row, 4) + further, 4);
  const rate = constant(1) * slowed(row + 8, error * error * squaresOfX(shared));
  const keep = f32x4.splat(<f32>1 - rate * constant(4)), r = f32x4.splat(rate * error), s = f32x4.splat(error);
  let q = row + ROW_HEAD * 4, a = x, d = dx;
  let k = 0;
  for (; k + 8 <= shared; k += 8) {
    const q0 = v128.load(q), q1 = v128.load(q, 16);
    v128.store(d, f32x4.add(v128.load(d), f32x4.mul(s, q0)));
    v128.store(d, f32x4.add(v128.load(d, 16), f32x4.mul(s, q1)), 16);
    v128.store(q, f32x4.sub(f32x4.mul(keep, q0), f32x4.mul(r, v128.load(a))));
    v128.store(q, f32x4.sub(f32x4.mul(keep, q1), f32x4.mul(r, v128.load(a, 16))), 16);
    q += 32;
    a += 32;
    d += 32;
  }
  const held = min(blocks(size), padded);
  for (; k < held; k += 4) {
    const old = v128.load(q);
    v128.store(d, f32x4.add(v128.load(d), f32x4.mul(s, old)));
    const moved = f32x4.sub(f32x4.mul(keep, old), f32x4.mul(r, v128.load(a)));
    v128.store(q, v128.bitselect(moved, old, mask(shared - k)));
    q += 16;
    a += 16;
    d += 16;
  }
  let noise = lift + (load<i32>(row + ROW_LIFT * 4) + k) * 4;
  for (; k < padded; k += 4) {
    v128.store(d, f32x4.add(v128.load(d), f32x4.mul(s, v128.load(noise))));
    noise += 16;
    d += 16;
  }
}

function step(group: usize, weights: usize, low: i32, high: i32, isFirst: bool): void {
  const own = load<i32>(group + GROUP_OWN * 4);
  const alone = load<i32>(group + GROUP_ALONE * 4) != 0;
  if (features && isFirst && !alone) stepFusion(own, low, high);
  if (isFirst && !alone) stepMix(own, low, high);
  for (let k = 0; k < padded; k += 4) v128.store(dx + k * 4, f32x4.splat(0));
  squaresOf = -1;
  stepItem(itemOf(own), load<f32>(e), load<f32>(slow), load<f32>(quick));
  if (!alone)
    for (let r = low; r < high; r++) {
      const at = (1 + r - low) * 4;
      stepItem(itemOf(r), load<f32>(e + at), load<f32>(slow + at), load<f32>(quick + at));
    }
  const user: usize = <usize>load<u32>(group + GROUP_USER * 4) << 2;
  const held = sizeOf(user);
  const rate = constant(2) * slowed(user, squares(dx, held));
  move(user + ROW_HEAD * 4, dx, held, <f32>1 - rate * constant(5), rate);
  const count = load<i32>(group + GROUP_COUNT * 4);
  let known = -1;
  let sum: f32 = 0;
  for (let a = 0; a < count; a++) {
    const row = latestOf(group, a);
    if (!row) continue;
    const weight = load<f32>(weights + a * 4);
    const size = sizeOf(row);
    if (size != known) {
      known = size;
      sum = squares(dx, size);
    }
    const rate = constant(3) * weight * slowed(row + 12, weight * weight * sum);
    move(row + ROW_HEAD * 4 + blocks(size) * 4, dx, size, <f32>1 - rate * constant(6), rate);
  }
}

/** Steps t on the errors of the group. */
function stepMix(own: i32, low: i32, high: i32): void {
  let g = load<f32>(e) * gapOf(own);
  for (let r = low; r < high; r++) g += load<f32>(e + (1 + r - low) * 4) * gapOf(r);
  g *= m * (<f32>1 - m);
  const at = fusion + 2 * SCORERS * 4;
  const sum = load<f32>(at, 4) + g * g;
  store<f32>(at, sum, 4);
  const t = load<f32>(at) - constant(11) * g / sqrt<f32>(min(sum, constant(9)));
  store<f32>(at, max<f32>(-MIX_MOST, min<f32>(MIX_MOST, t)));
}

/** Steps the weights of the features on the errors of the group. */
function stepFusion(own: i32, low: i32, high: i32): void {
  let g = f32x4.mul(v128.load32_splat(e), v128.load(features + own * 16));
  for (let r = low; r < high; r++) {
    const error = v128.load32_splat(e + (1 + r - low) * 4);
    g = f32x4.add(g, f32x4.mul(error, v128.load(features + r * 16)));
  }
  const sum = f32x4.add(v128.load(fusion, 16), f32x4.mul(g, g));
  const slowed = f32x4.sqrt(f32x4.min(sum, f32x4.splat(constant(9))));
  const step = f32x4.div(f32x4.mul(f32x4.splat(constant(8)), g), slowed);
  v128.store(fusion, sum, 16);
  v128.store(fusion, f32x4.max(f32x4.splat(0), f32x4.sub(v128.load(fusion), step)));
}

@inline
function sizeAt(rung: i32): i32 {
  return load<i32>(ladder + rung * 4);
}

@inline
function bitsAt(rung: i32): i32 {
  return load<i32>(ladder + (rungs + rung) * 4);
}

/**
 * What the group would have cost with its user's p, its own item's q, and the y of one of its latest items cut to each rung
 * up to their own.
 */
function judge(out: usize, group: usize, weights: usize, low: i32, negatives: i32): void {
  const own = load<i32>(group + GROUP_OWN * 4);
  const alone = load<i32>(group + GROUP_ALONE * 4) != 0;
  const length = alone ? 1 : 1 + negatives;
  const loss = groupLoss(z, length, alone);
  const user: usize = <usize>load<u32>(group + GROUP_USER * 4) << 2;
  const positive = itemOf(own);
  store<f32>(out + load<i32>(user + ROW_STEP * 4) * 4, loss);
  store<f32>(out + (rungs + load<i32>(positive + ROW_STEP * 4)) * 4, loss);
  judgeVector(out, user + ROW_HEAD * 4, load<i32>(user + ROW_STEP * 4), 1, own, low, length, alone);
  judgeItem(out + rungs * 4, positive, length, alone);
  const a = load<i32>(group + GROUP_INPUT * 4);
  if (a < 0) return;
  const row = latestOf(group, a);
  const y = row + (ROW_HEAD + blocks(sizeOf(row))) * 4;
  store<f32>(out + (2 * rungs + load<i32>(row + ROW_STEP * 4)) * 4, loss);
  judgeVector(out + rungs * 8, y, load<i32>(row + ROW_STEP * 4), load<f32>(weights + a * 4), own, low, length, alone);
}

/** The losses of the rungs below `held` of a vector of x, p or y, that counts `weight` there. */
function judgeVector(
  out: usize, vector: usize, held: i32, weight: f32, own: i32, low: i32, length: i32, alone: bool,
): void {
  if (held == 0) return;
  takeParts(vector, held, 0, own, low, length);
  // Rungs of fewer bits: the row cut to them.
  for (let high = held - 1; high >= 0; high--) {
    if (bitsAt(high) == bitsAt(high + 1)) continue;
    cutTo(vector, 0, sizeAt(high), bitsAt(high));
    takeParts(cut, high, 0, own, low, length);
  }
  for (let rung = 0; rung < held; rung++) {
    for (let j = 0; j < length; j++) {
      const part = parts + j * rungs * 4;
      const lost = load<f32>(part + held * 4) - load<f32>(part + rung * 4);
      store<f32>(other + j * 4, load<f32>(z + j * 4) - weight * lost);
    }
    store<f32>(out + rung * 4, groupLoss(other, length, alone));
  }
}

/** Writes what the first numbers of a vector, as many as each of the rungs `from` … `to` has, make of every item's z. */
function takeParts(vector: usize, to: i32, from: i32, own: i32, low: i32, length: i32): void {
  for (let j = 0; j < length; j++) {
    const row = itemOf(j == 0 ? own : low + j - 1);
    const held = blocks(sizeOf(row));
    const q = row + ROW_HEAD * 4, noise = lift + load<i32>(row + ROW_LIFT * 4) * 4;
    let sum = f32x4.splat(0);
    let k = 0;
    for (let rung = 0; rung <= to; rung++) {
      const end = sizeAt(rung);
      for (; k + 4 <= end; k += 4)
        sum = f32x4.add(sum, f32x4.mul(v128.load(vector + k * 4), v128.load((k < held ? q : noise) + k * 4)));
      if (rung < from) continue;
      let all = sum;
      if (k < end) {
        const product = f32x4.mul(v128.load(vector + k * 4), v128.load((k < held ? q : noise) + k * 4));
        all = f32x4.add(sum, v128.and(product, mask(end - k)));
      }
      store<f32>(parts + (j * rungs + rung) * 4, sumLanes(all));
    }
  }
}

/** The losses of the rungs of the group's own item: its q against ε in its place. */
function judgeItem(out: usize, row: usize, length: i32, alone: bool): void {
  const held = load<i32>(row + ROW_STEP * 4);
  if (held == 0) return;
  const q = row + ROW_HEAD * 4, noise = lift + load<i32>(row + ROW_LIFT * 4) * 4;
  const whole = against(q, noise, sizeAt(held));
  for (let j = 1; j < length; j++) store<f32>(other + j * 4, load<f32>(z + j * 4));
  let v = q;
  for (let rung = held - 1; rung >= 0; rung--) {
    if (bitsAt(rung) != bitsAt(rung + 1)) {
      cutTo(q, noise, sizeAt(rung), bitsAt(rung));
      v = cut;
    }
    store<f32>(other, load<f32>(z) - (whole - against(v, noise, sizeAt(rung))));
    store<f32>(out + rung * 4, groupLoss(other, length, alone));
  }
}

/** Σ x·(q − ε) over the first numbers. */
function against(q: usize, noise: usize, size: i32): f32 {
  let sum = f32x4.splat(0);
  const end = min(size, padded);
  for (let k = 0; k < end; k += 4) {
    const d = f32x4.sub(v128.load(q + k * 4), v128.load(noise + k * 4));
    sum = f32x4.add(sum, v128.and(f32x4.mul(v128.load(x + k * 4), d), mask(end - k)));
  }
  return sumLanes(sum);
}

/** Writes a vector's first numbers as they would be in fewer bits, rounded to the nearest. */
function cutTo(from: usize, noise: usize, size: i32, bits: i32): void {
  let tops = f64x2.splat(0);
  for (let k = 0; k < size; k += 2) {
    let d = f64x2.abs(difference(from + k * 4, noise ? noise + k * 4 : 0));
    if (k + 1 == size) d = f64x2.replace_lane(d, 1, 0);
    tops = f64x2.pmax(tops, d);
  }
  let most = Math.max(f64x2.extract_lane(tops, 0), f64x2.extract_lane(tops, 1));
  if (most < 1e-30) most = 0;
  const end: f64 = bits == 16 ? 32767 : 127;
  const size32 = reinterpret<u32>(<f32>(most / end));
  const brain: u32 = most == 0 ? 0 : bits == 16 ? ((size32 + 0x7fffff) >> 23) << 7 : (size32 + 0x7fff + ((size32 >> 16) & 1)) >> 16;
  const scale = fromBrain(brain);
  const steps = f64x2.splat(most == 0 ? 0 : 1 / <f64>scale);
  const half = f64x2.splat(0.5), high = f64x2.splat(end), low = f64x2.splat(-end), s = f64x2.splat(scale);
  for (let k = 0; k < size; k += 2) {
    const d = difference(from + k * 4, noise ? noise + k * 4 : 0);
    const code = f64x2.max(low, f64x2.min(high, f64x2.floor(f64x2.add(f64x2.mul(d, steps), half))));
    let v = f64x2.mul(code, s);
    if (noise) v = f64x2.add(v, f64x2.promote_low_f32x4(v128.load64_zero(noise + k * 4)));
    v128.store64_lane(cut + k * 4, f32x4.demote_f64x2_zero(v), 0);
  }
}
