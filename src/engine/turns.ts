/** Long calculations in small pieces, so that short ones do not wait for them. */

import { DessError } from "../errors.ts"

/** Milliseconds the event loop may be held at a time. */
const SLICE = 4

/** Lets one calculation run at a time; the others wait in the order they came. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(calculate: (pause: Pause) => Promise<T>): Promise<T> {
    // Others first: the one before may just have used up its slice.
    const mine = this.#last.then(giveWay).then(() => calculate(createPause()))
    this.#last = mine.catch(() => {})
    return mine
  }
}

/** Lets others have a turn of the event loop. */
export function giveWay(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** To be awaited between two pieces: lets others in when the slice is used up, else undefined at once. */
export type Pause = () => Promise<void> | undefined

/** A slice begins now, and after every turn that others had. */
export function createPause(): Pause {
  let began = performance.now()
  return () => {
    if (performance.now() - began < SLICE) return undefined
    return giveWay().then(() => {
      began = performance.now()
    })
  }
}

/** Ends long work of a start that is given up. */
export function refuseAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new DessError("CLOSED", "recommender: expected to be opened, it was stopped before")
}
