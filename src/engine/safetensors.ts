/**
 * States as safetensors files: 8 bytes little-endian length of the header, the header (JSON: dtype, shape and
 * data_offsets by name, and `__metadata__`, texts only), then the data without holes. Python's `safetensors` reads them.
 * `__metadata__.checksum` is the SHA-256 of header and data, taken with the checksum itself as 64 zeros.
 */

import { createHash } from "node:crypto"
import { DessError, show } from "../errors.ts"
import { type Json, State, type StateArray } from "../kernels/state.ts"

const TYPES = {
  F64: Float64Array,
  F32: Float32Array,
  I32: Int32Array,
  U32: Uint32Array,
  U8: Uint8Array,
} as const

type Type = keyof typeof TYPES

const FORMAT = "dess"
const VERSION = 1
const NO_CHECKSUM = "0".repeat(64)

interface Entry {
  dtype: Type
  shape: number[]
  data_offsets: [number, number]
}

/** The pieces of a file, in order. The data are views: write them before the state's owner moves on. */
export function encodeState(state: State): Uint8Array[] {
  const named = [...state.arrays].map(([name, array]) => ({ name, array, type: typeOf(array) }))
  // Wide numbers first: everything is aligned without holes.
  named.sort((a, b) => b.array.BYTES_PER_ELEMENT - a.array.BYTES_PER_ELEMENT || (a.name < b.name ? -1 : 1))
  const metadata = {
    format: FORMAT,
    version: String(VERSION),
    values: JSON.stringify(Object.fromEntries([...state.values].sort(([a], [b]) => (a < b ? -1 : 1)))),
    checksum: NO_CHECKSUM,
  }
  const header: [string, unknown][] = [["__metadata__", metadata]]
  const pieces: Uint8Array[] = []
  let at = 0
  for (const { name, array, type } of named) {
    header.push([name, { dtype: type, shape: [array.length], data_offsets: [at, at + array.byteLength] }])
    pieces.push(new Uint8Array(array.buffer, array.byteOffset, array.byteLength))
    at += array.byteLength
  }
  const blank = headerBytes(header)
  const hash = createHash("sha256").update(blank)
  for (const piece of pieces) hash.update(piece)
  metadata.checksum = hash.digest("hex")
  const length = new Uint8Array(8)
  new DataView(length.buffer).setBigUint64(0, BigInt(blank.length), true)
  return [length, headerBytes(header), ...pieces]
}

/** Header entries as JSON, filled up with spaces to a multiple of eight. */
function headerBytes(entries: [string, unknown][]): Uint8Array {
  // Not an object: "__proto__" would not be a name like any other.
  const json = `{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`
  const bytes = Buffer.from(json)
  return Buffer.concat([bytes, Buffer.alloc((8 - (bytes.length % 8)) % 8, " ")])
}

function typeOf(array: StateArray): Type {
  const found = (Object.keys(TYPES) as Type[]).find((type) => array instanceof TYPES[type])
  if (found) return found
  throw new DessError("INVALID_ARGUMENT", `state array: expected one safetensors can hold, got ${show(array)}`)
}

/** The state in a file's bytes. The arrays are views of them where alignment allows. */
export function decodeState(file: Uint8Array): State {
  const damaged = (what: string, cause?: unknown) =>
    new DessError("INVALID_DATA", `snapshot: expected ${what}`, cause === undefined ? undefined : { cause })
  if (file.length < 8) throw damaged(`8 bytes or more, got ${file.length}`)
  const length = Number(new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true))
  if (!(length <= file.length - 8)) throw damaged(`a header of ${length} bytes, got ${file.length - 8}`)
  const text = Buffer.from(file.buffer, file.byteOffset + 8, length).toString()
  let header: Map<string, unknown>
  let metadata: Record<string, string>
  let values: Map<string, Json>
  try {
    header = new Map(Object.entries(JSON.parse(text)))
    metadata = header.get("__metadata__") as Record<string, string>
    header.delete("__metadata__")
    if (metadata.format !== FORMAT) throw damaged(`a file of ${FORMAT}, got format ${show(metadata.format)}`)
    if (Number(metadata.version) > VERSION)
      throw new DessError(
        "UNSUPPORTED",
        `snapshot: expected version ${VERSION} or older, got ${show(metadata.version)}; use a newer dess`,
      )
    values = new Map(Object.entries(JSON.parse(metadata.values)))
  } catch (cause) {
    throw cause instanceof DessError ? cause : damaged("a readable header, got a damaged one", cause)
  }
  const data = file.subarray(8 + length)
  const blank = text.replace(`"checksum":"${metadata.checksum}"`, `"checksum":"${NO_CHECKSUM}"`)
  const checksum = createHash("sha256").update(blank).update(data).digest("hex")
  if (checksum !== metadata.checksum) throw damaged("its checksum to match, got another: the file is damaged")
  const arrays = new Map<string, StateArray>()
  for (const [name, entry] of header) arrays.set(name, readArray(data, entry as Entry))
  return new State(arrays, values)
}

function readArray(data: Uint8Array, { dtype, data_offsets: [from, to] }: Entry): StateArray {
  const kind = TYPES[dtype]
  const bytes = data.subarray(from, to)
  const aligned = bytes.byteOffset % kind.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice()
  return new kind(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / kind.BYTES_PER_ELEMENT)
}

/** SHA-256 over everything in a state: equal states, equal hashes. */
export function hashState(state: State): string {
  const hash = createHash("sha256")
  for (const piece of encodeState(state)) hash.update(piece)
  return hash.digest("hex")
}

/** A state that shares nothing with its owner. */
export function copyState(state: State): State {
  return decodeState(Buffer.concat(encodeState(state)))
}
