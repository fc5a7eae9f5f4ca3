/**
 * Threads over one shared memory. The first thread offers the parts of an operation; whoever is awake takes parts until
 * none is left, the first thread from below, workers from above, so that each mostly meets the rows or columns it had
 * before. Nobody waits for a worker that has not woken up: it just takes nothing. Who waits looks at a word for some
 * microseconds and then sleeps, so idle workers cost nothing. Kernels of one thread run none of this.
 */

import { DONE, DONE_SLEEPERS, OPERATION, READY, SPINS, STOP, TICKET, TICKET_SLEEPERS } from "../layout";

/**
 * Sleeps while the word is `old`, or just returns where a thread may not sleep. It comes from outside because the
 * baseline compiler of V8 11 loses values that are live across Wasm's own `memory.atomic.wait32`.
 */
@external("env", "sleep")
declare function sleep(word: usize, old: i32): void;

/** Waits until the word is no longer `old`. */
function waitForChange(word: usize, old: i32, sleepers: usize): void {
  for (let i = 0; i < SPINS; i++) if (atomic.load<i32>(word) != old) return;
  atomic.add<i32>(sleepers, 1);
  while (atomic.load<i32>(word) == old) sleep(word, old);
  atomic.sub<i32>(sleepers, 1);
}

/** Wakes who sleeps on a word that has just changed. Only when there is somebody is the system asked to. */
@inline
function wake(word: usize, sleepers: usize): void {
  if (atomic.load<i32>(sleepers) > 0) atomic.notify(word, -1);
}

/** Offers the parts of an operation. */
export function offer(operation: usize, parts: i32): void {
  atomic.store<u32>(OPERATION, operation);
  atomic.store<i32>(DONE, 0);
  atomic.store<i32>(TICKET, (((atomic.load<i32>(TICKET) >>> 16) + 1) << 16) | parts);
  wake(TICKET, TICKET_SLEEPERS);
}

/** Takes the lowest free part, or −1. */
export function takeLow(): i32 {
  while (true) {
    const ticket = atomic.load<i32>(TICKET);
    const low = (ticket >>> 8) & 255;
    if (low >= (ticket & 255)) return -1;
    if (atomic.cmpxchg<i32>(TICKET, ticket, ticket + 256) == ticket) return low;
  }
}

/**
 * Takes the highest free part, or −1 when workers are ended. As long as a part is being worked on the operation is
 * not over, so OPERATION holds still.
 */
export function takeHigh(): i32 {
  while (true) {
    const ticket = atomic.load<i32>(TICKET);
    if (atomic.load<i32>(STOP)) return -1;
    const high = ticket & 255;
    if (((ticket >>> 8) & 255) >= high) waitForChange(TICKET, ticket, TICKET_SLEEPERS);
    else if (atomic.cmpxchg<i32>(TICKET, ticket, ticket - 1) == ticket) return high - 1;
  }
}

/** The operation offered now. */
@inline
export function offered(): usize {
  return atomic.load<u32>(OPERATION);
}

/** A worker says that it has done a part. */
@inline
export function report(): void {
  atomic.add<i32>(DONE, 1);
  wake(DONE, DONE_SLEEPERS);
}

/**
 * The first thread, having done `own` parts, waits for the rest. Traps if a worker has failed, also before it waits: STOP is
 * set before DONE changes, so whoever has read the changed DONE sees it.
 */
export function finish(own: i32, parts: i32): void {
  atomic.add<i32>(DONE, own);
  while (true) {
    const done = atomic.load<i32>(DONE);
    if (atomic.load<i32>(STOP)) unreachable();
    if (done == parts) return;
    waitForChange(DONE, done, DONE_SLEEPERS);
  }
}

/** Says that one more worker is there. */
@inline
export function join(): void {
  atomic.add<i32>(READY, 1);
}

/** Ends all workers, and frees a first thread that waits for one that failed. */
export function dismiss(): void {
  atomic.store<i32>(STOP, 1);
  // Never the same again, whatever is offered at this moment.
  atomic.add<i32>(TICKET, 1 << 16);
  wake(TICKET, TICKET_SLEEPERS);
  atomic.add<i32>(DONE, 256);
  wake(DONE, DONE_SLEEPERS);
}
