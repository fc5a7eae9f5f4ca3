/**
 * Arrays for the work on a segment, in memory that is used again: nothing waits to be collected, whatever the traffic.
 * An array lasts until the segment after its own is done.
 */

/** Bytes there are at first. */
const FIRST = 65_536
/** Arrays begin at whole numbers of 8 bytes. */
const ALIGNMENT = 8

export class SegmentMemory {
  /** Of this segment, and of the one before. */
  #now = new ArrayBuffer(FIRST)
  #before = new ArrayBuffer(FIRST)
  #used = 0

  /** Begins a segment: arrays of the one before the last are gone. */
  begin(): void {
    const free = this.#before
    this.#before = this.#now
    this.#now = free
    this.#used = 0
  }

  /** This many numbers, all 0. */
  floats(length: number): Float64Array {
    const at = this.#take(8 * length)
    return new Float64Array(this.#now, at, length).fill(0)
  }

  ints(length: number): Int32Array {
    const at = this.#take(4 * length)
    return new Int32Array(this.#now, at, length).fill(0)
  }

  bytes(length: number): Uint8Array {
    const at = this.#take(length)
    return new Uint8Array(this.#now, at, length).fill(0)
  }

  #take(bytes: number): number {
    // Arrays made before keep the memory they have.
    if (this.#used + bytes > this.#now.byteLength) {
      this.#now = new ArrayBuffer(2 * Math.max(this.#now.byteLength, bytes))
      this.#used = 0
    }
    const at = this.#used
    this.#used += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
    return at
  }
}
