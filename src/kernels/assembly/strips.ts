/**
 * How training works through the hidden layer's columns: in strips of 16, whose rows wait in scratch between passes, as
 * many as fit; more rows than that are gathered again. Shared by the way there and the way back.
 */

import { SCRATCH_BYTES } from "../layout";

/** Bytes of a strip of one row: 16 columns. */
export const STRIP: usize = 64;
/**
 * Rows are often a power of two apart, and then caches hold few of them. So a few neighbouring strips are worked on
 * together, some rows of the one and the same rows of the next.
 */
export const STRIPS: i32 = 4;
export const SOME: i32 = 64;
/** Each of the strips has its constants and sums at the start of scratch; then comes room for tanh, then rows. */
export const CONSTANTS: usize = 512;
export const TANH_AT: usize = 2048;
export const ROWS_AT: usize = 4096;
/** Rows that fit, of one strip: h on the way there, dy and h on the way back. */
export const ROOM: i32 = (SCRATCH_BYTES - 4096) / 64;
export const ROOM_BACKWARD: i32 = (SCRATCH_BYTES - 4096) / 128;
/** Where, among a strip's constants, sums go that nobody asks for: of rows gathered again. */
export const UNUSED: usize = 256;

/** How many strips go together so that all pairs find room. */
@inline
export function together(pairs: i32, room: i32): i32 {
  return max(1, min(STRIPS, room / max(1, pairs)));
}
