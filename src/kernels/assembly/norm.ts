/**
 * Batch norm. Columns are worked on in strips of 16, a cache line, whose sums live in four registers. The last strip
 * may be narrower: its vectors are loaded whole all the same, and only what belongs to it is stored.
 * A norm on the tape is: γ, β, mean, variance, center, scale, ε, momentum.
 */

import { TANH, TRAINING } from "../layout";
import { first, firstColumn, last, lastColumn, LINE } from "./share";
import { fma, fnma, put, putStrip, splat, takeTanh } from "./vector";

/** Sets center and scale of up to four columns to these statistics. */
@inline
function use(norm: usize, at: usize, mean: v128, variance: v128, lanes: i32): void {
  put(load<u32>(norm, 16) + at, mean, lanes);
  const deviation = f32x4.sqrt(f32x4.add(variance, splat(norm + 24)));
  put(load<u32>(norm, 20) + at, f32x4.div(f32x4.splat(1), deviation), lanes);
}

/** Moves the running statistics of up to four columns towards those of the batch, and uses the latter. */
export function useBatch(norm: usize, column: i32, mean: v128, variance: v128, unbias: v128, lanes: i32): void {
  const at: usize = column * 4;
  const momentum = splat(norm + 28);
  const runningMean = load<u32>(norm, 8) + at;
  const runningVariance = load<u32>(norm, 12) + at;
  const oldMean = v128.load(runningMean);
  const oldVariance = v128.load(runningVariance);
  put(runningMean, fma(momentum, f32x4.sub(mean, oldMean), oldMean), lanes);
  put(runningVariance, fma(momentum, f32x4.sub(f32x4.mul(variance, unbias), oldVariance), oldVariance), lanes);
  use(norm, at, mean, variance, lanes);
}

/** Uses the running statistics of up to four columns. */
export function useRunning(norm: usize, column: i32, lanes: i32): void {
  const at: usize = column * 4;
  use(norm, at, v128.load(load<u32>(norm, 8) + at), v128.load(load<u32>(norm, 12) + at), lanes);
}

/** Sets the statistics of a strip from its mean and its sum of squared differences. */
export function useStrip(
  norm: usize, column: i32, width: i32, total: v128, unbias: v128,
  m0: v128, m1: v128, m2: v128, m3: v128, q0: v128, q1: v128, q2: v128, q3: v128,
): void {
  useBatch(norm, column, m0, f32x4.div(q0, total), unbias, width);
  if (width > 4) useBatch(norm, column + 4, m1, f32x4.div(q1, total), unbias, width - 4);
  if (width > 8) useBatch(norm, column + 8, m2, f32x4.div(q2, total), unbias, width - 8);
  if (width > 12) useBatch(norm, column + 12, m3, f32x4.div(q3, total), unbias, width - 12);
}

/** factors = γ·scale for some columns. */
export function setFactors(factors: usize, norm: usize, at: usize, width: i32): void {
  const gamma = load<u32>(norm) + at, scale = load<u32>(norm, 20) + at;
  for (let j = 0; j < width; j += 4)
    v128.store(factors + j * 4, f32x4.mul(v128.load(scale + j * 4), v128.load(gamma + j * 4)));
}

/**
 * out = (x − center)·factor + β for some columns of a row, then tanh if asked. Two passes, because in one the long chain
 * of operations from x to tanh would leave the processor waiting. `spare` has room for the columns.
 */
export function applyRow(
  out: usize, input: usize, center: usize, factors: usize, beta: usize, width: i32, withTanh: bool, spare: usize,
): void {
  const to = withTanh ? spare : out;
  const full = width & ~7;
  for (let j = 0; j < full; j += 8) {
    const o: usize = j * 4;
    const d0 = f32x4.sub(v128.load(input + o), v128.load(center + o));
    const d1 = f32x4.sub(v128.load(input + o, 16), v128.load(center + o, 16));
    v128.store(to + o, fma(d0, v128.load(factors + o), v128.load(beta + o)));
    v128.store(to + o, fma(d1, v128.load(factors + o, 16), v128.load(beta + o, 16)), 16);
  }
  for (let j = full; j < width; j += 4) {
    const o: usize = j * 4;
    const d = f32x4.sub(v128.load(input + o), v128.load(center + o));
    put(to + o, fma(d, v128.load(factors + o), v128.load(beta + o)), width - j);
  }
  if (withTanh) takeTanh(out, spare, width);
}

/** Columns of a row that `normalize` finishes in one go. */
const SPAN: i32 = 1024;

export function normalize(p: usize, part: i32, parts: i32, scratch: usize): void {
  const out: usize = load<u32>(p);
  const input: usize = load<u32>(p, 4);
  const weights: usize = load<u32>(p, 8);
  const rows = load<i32>(p, 12);
  const columns = load<i32>(p, 16);
  const flags = load<i32>(p, 20);
  const total = splat(p + 24);
  const unbias = splat(p + 28);
  const norm = p + 32;
  const stride: usize = columns * 4;
  const start = firstColumn(columns, part, parts);
  const end = lastColumn(columns, part, parts);
  for (let c = start; c < end; c += LINE) {
    const width = min(LINE, end - c);
    const at: usize = c * 4;
    if (flags & TRAINING) {
      let m0 = f32x4.splat(0), m1 = m0, m2 = m0, m3 = m0;
      let q0 = m0, q1 = m0, q2 = m0, q3 = m0;
      let row = input + at;
      for (let r = 0; r < rows; r++) {
        const w = splat(weights + r * 4);
        m0 = fma(w, v128.load(row), m0);
        m1 = fma(w, v128.load(row, 16), m1);
        m2 = fma(w, v128.load(row, 32), m2);
        m3 = fma(w, v128.load(row, 48), m3);
        row += stride;
      }
      m0 = f32x4.div(m0, total);
      m1 = f32x4.div(m1, total);
      m2 = f32x4.div(m2, total);
      m3 = f32x4.div(m3, total);
      row = input + at;
      for (let r = 0; r < rows; r++) {
        const w = splat(weights + r * 4);
        const d0 = f32x4.sub(v128.load(row), m0), d1 = f32x4.sub(v128.load(row, 16), m1);
        const d2 = f32x4.sub(v128.load(row, 32), m2), d3 = f32x4.sub(v128.load(row, 48), m3);
        q0 = fma(f32x4.mul(w, d0), d0, q0);
        q1 = fma(f32x4.mul(w, d1), d1, q1);
        q2 = fma(f32x4.mul(w, d2), d2, q2);
        q3 = fma(f32x4.mul(w, d3), d3, q3);
        row += stride;
      }
      useStrip(norm, c, width, total, unbias, m0, m1, m2, m3, q0, q1, q2, q3);
    } else for (let j = 0; j < width; j += 4) useRunning(norm, c + j, width - j);
  }
  for (let c = start; c < end; c += SPAN) {
    const width = min(SPAN, end - c);
    const at: usize = c * 4;
    const center = load<u32>(norm, 16) + at, beta = load<u32>(norm, 4) + at;
    setFactors(scratch, norm, at, width);
    for (let r = 0; r < rows; r++) {
      const row = r * stride + at;
      applyRow(out + row, input + row, center, scratch, beta, width, (flags & TANH) != 0, scratch + SPAN * 4);
    }
  }
}

/** d·(1 − t²) */
@inline
export function throughTanh(d: v128, t: v128): v128 {
  return fnma(f32x4.mul(d, t), t, d);
}

export function normalizeBackward(p: usize, part: i32, parts: i32): void {
  const dInput: usize = load<u32>(p);
  const dGamma: usize = load<u32>(p, 4);
  const dBeta: usize = load<u32>(p, 8);
  const dOut: usize = load<u32>(p, 12);
  const input: usize = load<u32>(p, 16);
  const output: usize = load<u32>(p, 20);
  const weights: usize = load<u32>(p, 24);
  const rows = load<i32>(p, 28);
  const columns = load<i32>(p, 32);
  const hasTanh = (load<i32>(p, 36) & TANH) != 0;
  const total = splat(p + 40);
  const norm = p + 44;
  const stride: usize = columns * 4;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += LINE) {
    const width = min(LINE, end - c);
    const at: usize = c * 4;
    const gamma = load<u32>(norm) + at, center = load<u32>(norm, 16) + at, scale = load<u32>(norm, 20) + at;
    const m0 = v128.load(center), m1 = v128.load(center, 16), m2 = v128.load(center, 32), m3 = v128.load(center, 48);
    const s0 = v128.load(scale), s1 = v128.load(scale, 16), s2 = v128.load(scale, 32), s3 = v128.load(scale, 48);
    let b0 = f32x4.splat(0), b1 = b0, b2 = b0, b3 = b0;
    let g0 = b0, g1 = b0, g2 = b0, g3 = b0;
    let row = at;
    for (let r = 0; r < rows; r++) {
      let d0 = v128.load(dOut + row), d1 = v128.load(dOut + row, 16);
      let d2 = v128.load(dOut + row, 32), d3 = v128.load(dOut + row, 48);
      if (hasTanh) {
        d0 = throughTanh(d0, v128.load(output + row));
        d1 = throughTanh(d1, v128.load(output + row, 16));
        d2 = throughTanh(d2, v128.load(output + row, 32));
        d3 = throughTanh(d3, v128.load(output + row, 48));
      }
      b0 = f32x4.add(b0, d0);
      b1 = f32x4.add(b1, d1);
      b2 = f32x4.add(b2, d2);
      b3 = f32x4.add(b3, d3);
      g0 = fma(d0, f32x4.sub(v128.load(input + row), m0), g0);
      g1 = fma(d1, f32x4.sub(v128.load(input + row, 16), m1), g1);
      g2 = fma(d2, f32x4.sub(v128.load(input + row, 32), m2), g2);
      g3 = fma(d3, f32x4.sub(v128.load(input + row, 48), m3), g3);
      row += stride;
    }
    g0 = f32x4.mul(g0, s0);
    g1 = f32x4.mul(g1, s1);
    g2 = f32x4.mul(g2, s2);
    g3 = f32x4.mul(g3, s3);
    putStrip(dBeta + at, b0, b1, b2, b3, width);
    putStrip(dGamma + at, g0, g1, g2, g3, width);
    // dx = γ·scale·(dy − w·(Σdy + (x − center)·scale·Σdy·x̂)/total)
    b0 = f32x4.div(b0, total);
    b1 = f32x4.div(b1, total);
    b2 = f32x4.div(b2, total);
    b3 = f32x4.div(b3, total);
    g0 = f32x4.mul(f32x4.div(g0, total), s0);
    g1 = f32x4.mul(f32x4.div(g1, total), s1);
    g2 = f32x4.mul(f32x4.div(g2, total), s2);
    g3 = f32x4.mul(f32x4.div(g3, total), s3);
    const k0 = f32x4.mul(v128.load(gamma), s0), k1 = f32x4.mul(v128.load(gamma, 16), s1);
    const k2 = f32x4.mul(v128.load(gamma, 32), s2), k3 = f32x4.mul(v128.load(gamma, 48), s3);
    row = at;
    for (let r = 0; r < rows; r++) {
      const w = splat(weights + r * 4);
      let d0 = v128.load(dOut + row), d1 = v128.load(dOut + row, 16);
      let d2 = v128.load(dOut + row, 32), d3 = v128.load(dOut + row, 48);
      if (hasTanh) {
        d0 = throughTanh(d0, v128.load(output + row));
        d1 = throughTanh(d1, v128.load(output + row, 16));
        d2 = throughTanh(d2, v128.load(output + row, 32));
        d3 = throughTanh(d3, v128.load(output + row, 48));
      }
      const e0 = fma(f32x4.sub(v128.load(input + row), m0), g0, b0);
      const e1 = fma(f32x4.sub(v128.load(input + row, 16), m1), g1, b1);
      const e2 = fma(f32x4.sub(v128.load(input + row, 32), m2), g2, b2);
      const e3 = fma(f32x4.sub(v128.load(input + row, 48), m3), g3, b3);
      d0 = f32x4.mul(k0, fnma(w, e0, d0));
      d1 = f32x4.mul(k1, fnma(w, e1, d1));
      d2 = f32x4.mul(k2, fnma(w, e2, d2));
      d3 = f32x4.mul(k3, fnma(w, e3, d3));
      putStrip(dInput + row, d0, d1, d2, d3, width);
      row += stride;
    }
  }
}

/** Up to four columns of `normalizeGradient`. */
@inline
function gradientFour(out: usize, dOut: usize, active: usize, gamma: usize, scale: usize, lanes: i32): void {
  let d = v128.load(dOut);
  if (active) d = throughTanh(d, v128.load(active));
  put(out, f32x4.mul(d, f32x4.mul(v128.load(gamma), v128.load(scale))), lanes);
}

export function normalizeGradient(p: usize, part: i32, parts: i32): void {
  const activation: usize = load<u32>(p, 8);
  const index: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const gamma: usize = load<u32>(p, 24);
  const scale: usize = load<u32>(p, 24 + 20);
  const stride: usize = columns * 4;
  const full: usize = (columns & ~3) * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const out = load<u32>(p) + r * stride, dOut = load<u32>(p, 4) + r * stride;
    const active = activation ? activation + (index ? load<i32>(index + r * 4) : r) * stride : 0;
    for (let o: usize = 0; o < full; o += 16) gradientFour(out + o, dOut + o, active ? active + o : 0, gamma + o, scale + o, 4);
    if (full < stride) gradientFour(out + full, dOut + full, active ? active + full : 0, gamma + full, scale + full, columns & 3);
  }
}
