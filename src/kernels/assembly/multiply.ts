/**
 * out = left·right. An output is summed up as one chain of k = 0, 1, 2, … from its starting value, whatever tile it falls
 * in and however many rows there are: a row's result never depends on its neighbours.
 *
 * A tile of 6 (5) rows × 8 columns lives in 12 (10) of the 15 vector registers V8 has to give; the right side is copied
 * into panels of 8 columns, so that a tile reads it in one stream; the left side is read in place, or copied when transposed.
 */

import { ACCUMULATE, SCRATCH_BYTES, TRANSPOSE_LEFT, TRANSPOSE_RIGHT } from "../layout";
import { first, last } from "./share";
import { fma, put, putStrip, splat } from "./vector";

/** Rows of a tile. Without fused multiply-add the product needs a register too. */
const ROWS: i32 = ASC_FEATURE_RELAXED_SIMD ? 6 : 5;
const COLUMNS: i32 = 8;
/** Depth of a panel: 8 KiB, and with the 6 KiB of left rows it stays in L1. */
const DEPTH: i32 = 256;
/** Columns packed at once: 256 KiB at full depth, half of a usual L2. */
const PACKED: i32 = 256;

/** Where a thread keeps things in its scratch space, in bytes. */
const ZEROS: usize = 0;
const EDGE: usize = 64;
const LEFT: usize = 512;
const RIGHT: usize = 8192;

/** One tile: out[ROWS×8] = start + left[ROWS×inner]·right[inner×8]. Rows past `lastRow` repeat it. */
function tile(
  out: usize, outStride: usize, start: usize, startStride: usize,
  left: usize, leftRow: usize, leftStep: usize, lastRow: i32,
  right: usize, rightStep: usize, inner: i32,
): void {
  let p = start;
  let c00 = v128.load(p), c01 = v128.load(p, 16);
  p += startStride;
  let c10 = v128.load(p), c11 = v128.load(p, 16);
  p += startStride;
  let c20 = v128.load(p), c21 = v128.load(p, 16);
  p += startStride;
  let c30 = v128.load(p), c31 = v128.load(p, 16);
  p += startStride;
  let c40 = v128.load(p), c41 = v128.load(p, 16);
  p += startStride;
  let c50 = c40, c51 = c41;
  if (ROWS == 6) {
    c50 = v128.load(p);
    c51 = v128.load(p, 16);
  }
  let a0 = left;
  let a1 = left + min(1, lastRow) * leftRow;
  let a2 = left + min(2, lastRow) * leftRow;
  let a3 = left + min(3, lastRow) * leftRow;
  let a4 = left + min(4, lastRow) * leftRow;
  let a5 = left + min(5, lastRow) * leftRow;
  for (let k = inner; k > 0; k--) {
    const b0 = v128.load(right), b1 = v128.load(right, 16);
    let a = splat(a0);
    c00 = fma(a, b0, c00);
    c01 = fma(a, b1, c01);
    a = splat(a1);
    c10 = fma(a, b0, c10);
    c11 = fma(a, b1, c11);
    a = splat(a2);
    c20 = fma(a, b0, c20);
    c21 = fma(a, b1, c21);
    a = splat(a3);
    c30 = fma(a, b0, c30);
    c31 = fma(a, b1, c31);
    a = splat(a4);
    c40 = fma(a, b0, c40);
    c41 = fma(a, b1, c41);
    if (ROWS == 6) {
      a = splat(a5);
      c50 = fma(a, b0, c50);
      c51 = fma(a, b1, c51);
    }
    a0 += leftStep;
    a1 += leftStep;
    a2 += leftStep;
    a3 += leftStep;
    a4 += leftStep;
    a5 += leftStep;
    right += rightStep;
  }
  p = out;
  v128.store(p, c00);
  v128.store(p, c01, 16);
  p += outStride;
  v128.store(p, c10);
  v128.store(p, c11, 16);
  p += outStride;
  v128.store(p, c20);
  v128.store(p, c21, 16);
  p += outStride;
  v128.store(p, c30);
  v128.store(p, c31, 16);
  p += outStride;
  v128.store(p, c40);
  v128.store(p, c41, 16);
  if (ROWS == 6) {
    p += outStride;
    v128.store(p, c50);
    v128.store(p, c51, 16);
  }
}

/** Copies one panel of 8 columns of an inner×columns matrix. */
function packPanel(to: usize, from: usize, stride: usize, inner: i32): void {
  for (let k = 0; k < inner; k++) {
    v128.store(to, v128.load(from));
    v128.store(to, v128.load(from, 16), 16);
    to += 32;
    from += stride;
  }
}

/** Copies four columns of a panel out of a columns×inner matrix, four steps of k at a time. */
@inline
function packFour(to: usize, r0: usize, r1: usize, r2: usize, r3: usize): void {
  const x0 = v128.load(r0), x1 = v128.load(r1), x2 = v128.load(r2), x3 = v128.load(r3);
  const y0 = v128.shuffle<f32>(x0, x1, 0, 4, 1, 5), y1 = v128.shuffle<f32>(x2, x3, 0, 4, 1, 5);
  const y2 = v128.shuffle<f32>(x0, x1, 2, 6, 3, 7), y3 = v128.shuffle<f32>(x2, x3, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<f32>(y0, y1, 0, 1, 4, 5));
  v128.store(to, v128.shuffle<f32>(y0, y1, 2, 3, 6, 7), 32);
  v128.store(to, v128.shuffle<f32>(y2, y3, 0, 1, 4, 5), 64);
  v128.store(to, v128.shuffle<f32>(y2, y3, 2, 3, 6, 7), 96);
}

/** Copies one panel of 8 columns of a columns×inner matrix; columns past `lastColumn` repeat it. */
function packTransposed(to: usize, from: usize, stride: usize, lastColumn: i32, inner: i32): void {
  for (let half = 0; half < 8; half += 4) {
    let r0 = from + min(half, lastColumn) * stride;
    let r1 = from + min(half + 1, lastColumn) * stride;
    let r2 = from + min(half + 2, lastColumn) * stride;
    let r3 = from + min(half + 3, lastColumn) * stride;
    let p = to + half * 4;
    for (let k = 0; k < inner; k += 4) {
      packFour(p, r0, r1, r2, r3);
      p += 128;
      r0 += 16;
      r1 += 16;
      r2 += 16;
      r3 += 16;
    }
  }
}

/** Copies up to six rows of a transposed left side, [inner×6]. */
function packLeft(to: usize, from: usize, stride: usize, inner: i32): void {
  for (let k = 0; k < inner; k++) {
    v128.store(to, v128.load(from));
    v128.store_lane<u64>(to, v128.load_zero<u64>(from, 16), 0, 16);
    to += 24;
    from += stride;
  }
}

/** A tile that hangs over the edge: worked on in scratch, and only what is inside is copied. */
function edgeTile(
  out: usize, outStride: usize, start: usize, startStride: usize,
  left: usize, leftRow: usize, leftStep: usize, rows: i32,
  right: usize, rightStep: usize, inner: i32, columns: i32, edge: usize,
): void {
  for (let r = 0; r < rows; r++) {
    v128.store(edge + r * 32, v128.load(start + r * startStride));
    v128.store(edge + r * 32, v128.load(start + r * startStride, 16), 16);
  }
  tile(edge, 32, edge, 32, left, leftRow, leftStep, rows - 1, right, rightStep, inner);
  for (let r = 0; r < rows; r++) {
    put(out + r * outStride, v128.load(edge + r * 32), columns);
    if (columns > 4) put(out + r * outStride + 16, v128.load(edge + r * 32, 16), columns - 4);
  }
}

/** Columns of a thin product worked on together: two cache lines of every row on the right. */
const THIN: i32 = 32;

/** One row of out += left·right, columns [from, to), for products of so few rows that a tile would be mostly empty. */
function thinRow(out: usize, left: usize, leftStep: usize, right: usize, rightStep: usize, inner: i32, from: i32, to: i32): void {
  let c = from;
  for (; c + THIN <= to; c += THIN) {
    const at: usize = c * 4;
    const s = out + at;
    let a = left, b = right + at;
    let c0 = v128.load(s), c1 = v128.load(s, 16), c2 = v128.load(s, 32), c3 = v128.load(s, 48);
    let c4 = v128.load(s, 64), c5 = v128.load(s, 80), c6 = v128.load(s, 96), c7 = v128.load(s, 112);
    for (let k = inner; k > 0; k--) {
      const x = splat(a);
      c0 = fma(x, v128.load(b), c0);
      c1 = fma(x, v128.load(b, 16), c1);
      c2 = fma(x, v128.load(b, 32), c2);
      c3 = fma(x, v128.load(b, 48), c3);
      c4 = fma(x, v128.load(b, 64), c4);
      c5 = fma(x, v128.load(b, 80), c5);
      c6 = fma(x, v128.load(b, 96), c6);
      c7 = fma(x, v128.load(b, 112), c7);
      a += leftStep;
      b += rightStep;
    }
    putStrip(s, c0, c1, c2, c3, 16);
    putStrip(s + 64, c4, c5, c6, c7, 16);
  }
  for (; c < to; c += 4) {
    let sum = v128.load(out + c * 4), a = left, b = right + c * 4;
    for (let k = inner; k > 0; k--) {
      sum = fma(splat(a), v128.load(b), sum);
      a += leftStep;
      b += rightStep;
    }
    put(out + c * 4, sum, to - c);
  }
}

/** The product whose whole right side stands packed in this thread's scratch: for the next part of the same one. */
let packed: u32 = 0;

export function multiply(p: usize, part: i32, parts: i32, scratch: usize): void {
  const out: usize = load<u32>(p);
  const left: usize = load<u32>(p, 4);
  const right: usize = load<u32>(p, 8);
  const bias: usize = load<u32>(p, 12);
  const rows = load<i32>(p, 16);
  const columns = load<i32>(p, 20);
  const inner = load<i32>(p, 24);
  const flags = load<i32>(p, 28);
  const transposeLeft = (flags & TRANSPOSE_LEFT) != 0;
  const transposeRight = (flags & TRANSPOSE_RIGHT) != 0;

  // Splitting rows makes every part pack the whole right side, splitting columns the left: share out the longer one.
  const byRows = rows > columns;
  const rowUnits = (rows + ROWS - 1) / ROWS;
  const columnUnits = (columns + COLUMNS - 1) / COLUMNS;
  const firstRow = byRows ? first(rowUnits, part, parts) * ROWS : 0;
  const endRow = byRows ? min(rows, last(rowUnits, part, parts) * ROWS) : rows;
  const firstColumn = byRows ? 0 : first(columnUnits, part, parts) * COLUMNS;
  const endColumn = byRows ? columns : min(columns, last(columnUnits, part, parts) * COLUMNS);
  if (firstRow >= endRow || firstColumn >= endColumn) return;

  const outStride: usize = columns * 4;
  const leftRow: usize = transposeLeft ? 4 : inner * 4;
  const leftStep: usize = transposeLeft ? rows * 4 : 4;
  v128.store(scratch + ZEROS, f32x4.splat(0));
  v128.store(scratch + ZEROS, f32x4.splat(0), 16);

  if (rows <= 2 && !transposeRight) {
    for (let r = firstRow; r < endRow; r++) {
      const row = out + r * outStride;
      if (!(flags & ACCUMULATE)) {
        if (bias) memory.copy(row + firstColumn * 4, bias + firstColumn * 4, (endColumn - firstColumn) * 4);
        else memory.fill(row + firstColumn * 4, 0, (endColumn - firstColumn) * 4);
      }
      thinRow(row, left + r * leftRow, leftStep, right, outStride, inner, firstColumn, endColumn);
    }
    return;
  }

  // Parts cut by rows share the right side: where all of it finds room a thread packs it once, for all its parts.
  const depthBytes: usize = columnUnits * 32;
  const serial = load<u32>(p, 32);
  const keep = byRows && parts > 1 && columns <= PACKED && ((inner + 3) & ~3) * depthBytes <= SCRATCH_BYTES - RIGHT;
  const ready = keep && packed == serial;

  let k0 = 0;
  do {
    const panels = scratch + RIGHT + (keep ? k0 * depthBytes : 0);
    const depth = min(DEPTH, inner - k0);
    const panelBytes: usize = ((depth + 3) & ~3) * 32;
    const again = k0 > 0 || (flags & ACCUMULATE) != 0;
    for (let c0 = firstColumn; c0 < endColumn; c0 += PACKED) {
      const c1 = min(endColumn, c0 + PACKED);
      // Few rows do not pay for copying the right side.
      const inPlace = !keep && !transposeRight && endRow - firstRow <= ROWS;
      if (!inPlace && !ready) {
        let panel = panels;
        for (let c = c0; c < c1; c += COLUMNS) {
          if (transposeRight) packTransposed(panel, right + (<usize>c * inner + k0) * 4, inner * 4, min(COLUMNS, c1 - c) - 1, depth);
          else packPanel(panel, right + (<usize>k0 * columns + c) * 4, columns * 4, depth);
          panel += panelBytes;
        }
      }
      for (let r = firstRow; r < endRow; r += ROWS) {
        const height = min(ROWS, endRow - r);
        let from = transposeLeft ? left + (<usize>k0 * rows + r) * 4 : left + (<usize>r * inner + k0) * 4;
        let row = leftRow;
        let step = leftStep;
        if (transposeLeft && c1 - c0 > COLUMNS) {
          packLeft(scratch + LEFT, from, leftStep, depth);
          from = scratch + LEFT;
          row = 4;
          step = 24;
        }
        let panel = inPlace ? right + (<usize>k0 * columns + c0) * 4 : panels;
        for (let c = c0; c < c1; c += COLUMNS) {
          const width = min(COLUMNS, c1 - c);
          const to = out + (<usize>r * columns + c) * 4;
          const start = again ? to : bias ? bias + c * 4 : scratch + ZEROS;
          const startStride = again ? outStride : 0;
          if (height == ROWS && width == COLUMNS)
            tile(to, outStride, start, startStride, from, row, step, ROWS - 1, panel, inPlace ? outStride : 32, depth);
          else
            edgeTile(to, outStride, start, startStride, from, row, step, height, panel, inPlace ? outStride : 32, depth, width, scratch + EDGE);
          panel += inPlace ? 32 : panelBytes;
        }
      }
    }
    k0 += DEPTH;
  } while (k0 < inner);
  if (keep) packed = serial;
}
