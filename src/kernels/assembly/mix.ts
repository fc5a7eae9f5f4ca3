/** The soft sum of several matrices, row by row, and its way back. */

import { first, last } from "./share";
import { dot, exp, fma, put } from "./vector";

export function mix(p: usize, part: i32, parts: i32): void {
  const out: usize = load<u32>(p);
  const shares: usize = load<u32>(p, 4);
  const logits: usize = load<u32>(p, 8);
  const matrices: usize = load<u32>(p, 12);
  const count = load<i32>(p, 16);
  const rows = load<i32>(p, 20);
  const columns = load<i32>(p, 24);
  const stride: usize = columns * 4;
  const size: usize = stride * rows;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const from = logits + <usize>r * count * 4;
    const share = shares + <usize>r * count * 4;
    let max: f32 = -Infinity;
    for (let i = 0; i < count; i++) {
      const z = load<f32>(from + i * 4);
      max = z > max || z != z ? z : max;
    }
    let sum: f32 = 0;
    for (let i = 0; i < count; i++) {
      const e = f32x4.extract_lane(exp(f32x4.splat(load<f32>(from + i * 4) - max)), 0);
      store<f32>(share + i * 4, e);
      sum += e;
    }
    for (let i = 0; i < count; i++) store<f32>(share + i * 4, load<f32>(share + i * 4) / sum);
    const row = matrices + <usize>r * stride;
    const to = out + <usize>r * stride;
    for (let j = 0; j < columns; j += 4) {
      const o: usize = j * 4;
      let mixed = f32x4.splat(0);
      for (let i = 0; i < count; i++) mixed = fma(v128.load_splat<f32>(share + i * 4), v128.load(row + i * size + o), mixed);
      put(to + o, mixed, columns - j);
    }
  }
}

export function mixBackward(p: usize, part: i32, parts: i32): void {
  const dMatrices: usize = load<u32>(p);
  const dLogits: usize = load<u32>(p, 4);
  const dOut: usize = load<u32>(p, 8);
  const shares: usize = load<u32>(p, 12);
  const matrices: usize = load<u32>(p, 16);
  const count = load<i32>(p, 20);
  const rows = load<i32>(p, 24);
  const columns = load<i32>(p, 28);
  const stride: usize = columns * 4;
  const size: usize = stride * rows;
  const end = last(rows, part, parts);
  for (let r = first(rows, part, parts); r < end; r++) {
    const share = shares + <usize>r * count * 4;
    const d = dLogits + <usize>r * count * 4;
    const from = dOut + <usize>r * stride;
    let mean: f32 = 0;
    for (let i = 0; i < count; i++) {
      const at: usize = i * size + <usize>r * stride;
      const slope = dot(from, matrices + at, columns);
      store<f32>(d + i * 4, slope);
      mean += load<f32>(share + i * 4) * slope;
      const weight = v128.load_splat<f32>(share + i * 4);
      for (let j = 0; j < columns; j += 4) {
        const o: usize = j * 4;
        put(dMatrices + at + o, f32x4.mul(weight, v128.load(from + o)), columns - j);
      }
    }
    for (let i = 0; i < count; i++) store<f32>(d + i * 4, load<f32>(share + i * 4) * (load<f32>(d + i * 4) - mean));
  }
}
