/**
 * Batch norm. Columns are worked on in strips that stay in cache; the running sums of a strip lie in scratch.
 * A norm on the tape is: γ, β, mean, variance, center, scale, ε, momentum.
 */

import { TANH, TRAINING } from "../layout";
import { first, firstColumn, last, lastColumn } from "./share";
import { fma, put, splat, tanh } from "./vector";

/** Columns worked on together: two cache lines of every row. */
export const STRIP: i32 = 32;
const STRIP_BYTES: usize = 128;

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
  const sums = scratch;
  const means = scratch + STRIP_BYTES;
  const factors = scratch + 2 * STRIP_BYTES;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += STRIP) {
    const width = min(STRIP, end - c);
    const bytes: usize = ((width + 3) & ~3) * 4;
    const at: usize = c * 4;
    if (flags & TRAINING) {
      memory.fill(sums, 0, 2 * STRIP_BYTES);
      for (let r = 0; r < rows; r++) {
        const row = input + r * stride + at;
        const w = splat(weights + r * 4);
        for (let j: usize = 0; j < bytes; j += 16) v128.store(means + j, fma(w, v128.load(row + j), v128.load(means + j)));
      }
      for (let j: usize = 0; j < bytes; j += 16) v128.store(means + j, f32x4.div(v128.load(means + j), total));
      for (let r = 0; r < rows; r++) {
        const row = input + r * stride + at;
        const w = splat(weights + r * 4);
        for (let j: usize = 0; j < bytes; j += 16) {
          const d = f32x4.sub(v128.load(row + j), v128.load(means + j));
          v128.store(sums + j, fma(f32x4.mul(w, d), d, v128.load(sums + j)));
        }
      }
      for (let j = 0; j < width; j += 4)
        useBatch(norm, c + j, v128.load(means + j * 4), f32x4.div(v128.load(sums + j * 4), total), unbias, width - j);
    } else for (let j = 0; j < width; j += 4) useRunning(norm, c + j, width - j);

    const center = load<u32>(norm, 16) + at;
    const beta = load<u32>(norm, 4) + at;
    for (let j: usize = 0; j < bytes; j += 16)
      v128.store(factors + j, f32x4.mul(v128.load(load<u32>(norm, 20) + at + j), v128.load(load<u32>(norm) + at + j)));
    for (let r = 0; r < rows; r++) {
      const from = input + r * stride + at;
      const to = out + r * stride + at;
      if (flags & TANH) {
        for (let j = 0; j < width; j += 4) {
          const o: usize = j * 4;
          put(to + o, tanh(fma(f32x4.sub(v128.load(from + o), v128.load(center + o)), v128.load(factors + o), v128.load(beta + o))), width - j);
        }
      } else {
        for (let j = 0; j < width; j += 4) {
          const o: usize = j * 4;
          put(to + o, fma(f32x4.sub(v128.load(from + o), v128.load(center + o)), v128.load(factors + o), v128.load(beta + o)), width - j);
        }
      }
    }
  }
}

/** d · (1 − t²) */
@inline
export function throughTanh(d: v128, t: v128): v128 {
  return f32x4.mul(d, f32x4.sub(f32x4.splat(1), f32x4.mul(t, t)));
}

export function normalizeBackward(p: usize, part: i32, parts: i32, scratch: usize): void {
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
  const betas = scratch;
  const gammas = scratch + STRIP_BYTES;
  const factors = scratch + 2 * STRIP_BYTES;
  const end = lastColumn(columns, part, parts);
  for (let c = firstColumn(columns, part, parts); c < end; c += STRIP) {
    const width = min(STRIP, end - c);
    const bytes: usize = ((width + 3) & ~3) * 4;
    const at: usize = c * 4;
    const center = load<u32>(norm, 16) + at;
    const scale = load<u32>(norm, 20) + at;
    memory.fill(betas, 0, 2 * STRIP_BYTES);
    for (let r = 0; r < rows; r++) {
      const row = r * stride + at;
      for (let j: usize = 0; j < bytes; j += 16) {
        let d = v128.load(dOut + row + j);
        if (hasTanh) d = throughTanh(d, v128.load(output + row + j));
        const hat = f32x4.mul(f32x4.sub(v128.load(input + row + j), v128.load(center + j)), v128.load(scale + j));
        v128.store(betas + j, f32x4.add(v128.load(betas + j), d));
        v128.store(gammas + j, fma(d, hat, v128.load(gammas + j)));
      }
    }
    for (let j = 0; j < width; j += 4) {
      const o: usize = j * 4;
      put(dBeta + at + o, v128.load(betas + o), width - j);
      put(dGamma + at + o, v128.load(gammas + o), width - j);
      v128.store(betas + o, f32x4.div(v128.load(betas + o), total));
      v128.store(gammas + o, f32x4.div(v128.load(gammas + o), total));
      v128.store(factors + o, f32x4.mul(v128.load(load<u32>(norm) + at + o), v128.load(scale + o)));
    }
    // dx = γ·scale·(dy − w·(Σdy + x̂·Σdy·x̂)/total)
    for (let r = 0; r < rows; r++) {
      const row = r * stride + at;
      const w = splat(weights + r * 4);
      for (let j = 0; j < width; j += 4) {
        const o: usize = j * 4;
        let d = v128.load(dOut + row + o);
        if (hasTanh) d = throughTanh(d, v128.load(output + row + o));
        const hat = f32x4.mul(f32x4.sub(v128.load(input + row + o), v128.load(center + o)), v128.load(scale + o));
        const mean = f32x4.mul(w, fma(hat, v128.load(gammas + o), v128.load(betas + o)));
        put(dInput + row + o, f32x4.mul(v128.load(factors + o), f32x4.sub(d, mean)), width - j);
      }
    }
  }
}

export function normalizeGradient(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const dOut: usize = load<u32>(p, 4);
  const activation: usize = load<u32>(p, 8);
  const index: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const gamma: usize = load<u32>(p, 24);
  const scale: usize = load<u32>(p, 24 + 20);
  const stride: usize = columns * 4;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const row = r * stride;
    const active = activation + (index ? load<i32>(index + r * 4) : r) * stride;
    for (let j = 0; j < columns; j += 4) {
      const o: usize = j * 4;
      let d = v128.load(dOut + row + o);
      if (activation) d = throughTanh(d, v128.load(active + o));
      put(out + row + o, f32x4.mul(d, f32x4.mul(v128.load(gamma + o), v128.load(scale + o))), columns - j);
    }
  }
}
