/** States as bytes, and back. */

import { decodeState, statePieces } from "../../src/engine/safetensors.ts"
import type { State } from "../../src/kernels/state.ts"

/** A state's file in memory. */
export function encodeState(state: State): Buffer {
  return Buffer.concat(Array.from(statePieces(state), (piece) => Uint8Array.from(piece)))
}

export function decodeBytes(bytes: Uint8Array): State {
  return decodeState({
    length: bytes.length,
    read: (target, from) => target.set(bytes.subarray(from, from + target.length)),
  })
}

/** A state that shares nothing with its owner. */
export function copyState(state: State): State {
  return decodeBytes(encodeState(state))
}
