/**
 * States as safetensors files: 8 bytes little-endian length of the header, the header (JSON: dtype, shape and
 * data_offsets by name, and `__metadata__`, texts only), then the data without holes. Python's `safetensors` reads them.
 * `__metadata__.checksum` is the SHA-256 of header and data, taken with the checksum itself as 64 zeros.
 */

import { createHash } from "node:crypto"
import { DessError, show } from "../errors.ts"
import { type Json, State, type StateArray, type StateKind } from "../kernels/state.ts"

const TYPES = {
  F64: Float64Array,
  F32: Float32Array,
  I32: Int32Array,
  U32: Uint32Array,
  U16: Uint16Array,
  U8: Uint8Array,
} as const

type Type = keyof typeof TYPES

const FORMAT = "dess"
/** Older ones cannot be read: what they held is learned again from the journal. */
const VERSION = 2
const NO_CHECKSUM = "0".repeat(64)
/** A gigabyte: hashing and writing take less than two at a time. */
const PIECE = 2 ** 30
const LONGEST_HEADER = 2 ** 28
/** Bytes of a file that are read at a time. */
const SLICE = 2 ** 18

interface Entry {
  dtype: Type
  shape: number[]
  data_offsets: [number, number]
}

/** An array of a state, whole or sliced. */
interface Named {
  name: string
  type: Type
  kind: StateKind
  length: number
  pieces: () => Iterable<StateArray>
}

/** The arrays of a state in the order of a file. Wide numbers first: everything is aligned without holes. */
function namedArrays(state: State): Named[] {
  const whole = [...state.arrays].map(([name, array]): Named => {
    const kind = TYPES[typeOf(array)] as StateKind
    return { name, type: typeOf(array), kind, length: array.length, pieces: () => [array] }
  })
  const sliced = [...state.sliced].map(([name, { kind, length, pieces }]): Named => {
    return { name, type: typeOf(new kind(0)), kind, length, pieces }
  })
  return [...whole, ...sliced].sort(
    (a, b) => b.kind.BYTES_PER_ELEMENT - a.kind.BYTES_PER_ELEMENT || (a.name < b.name ? -1 : 1),
  )
}

function* bytesOf({ pieces }: Named): Generator<Uint8Array> {
  for (const { buffer, byteOffset, byteLength } of pieces()) yield new Uint8Array(buffer, byteOffset, byteLength)
}

/** The pieces of a file, in order. They are views: write each before the next, and all before the state's owner moves on. */
export function* statePieces(state: State): Generator<Uint8Array> {
  const named = namedArrays(state)
  const metadata = {
    format: FORMAT,
    version: String(VERSION),
    values: JSON.stringify(Object.fromEntries([...state.values].sort(([a], [b]) => (a < b ? -1 : 1)))),
    checksum: NO_CHECKSUM,
  }
  const header: [string, unknown][] = [["__metadata__", metadata]]
  let at = 0
  for (const { name, type, kind, length } of named) {
    const bytes = length * kind.BYTES_PER_ELEMENT
    header.push([name, { dtype: type, shape: [length], data_offsets: [at, at + bytes] }])
    at += bytes
  }
  const blank = headerBytes(header)
  const hash = createHash("sha256").update(blank)
  for (const array of named) for (const piece of bytesOf(array)) for (const part of piecesOf(piece)) hash.update(part)
  metadata.checksum = hash.digest("hex")
  const length = new Uint8Array(8)
  new DataView(length.buffer).setBigUint64(0, BigInt(blank.length), true)
  yield length
  yield headerBytes(header)
  for (const array of named) yield* bytesOf(array)
}

/** Where an array lies in a file of arrays alone. */
export interface FiledArray {
  name: string
  type: Type
  length: number
  at: number
}

/** Writes the arrays of a state one after the other; says where each lies. */
export function fileArrays(state: State, append: (bytes: Uint8Array) => void): FiledArray[] {
  let at = 0
  return namedArrays(state).map((array) => {
    const { name, type, kind, length } = array
    for (const piece of bytesOf(array)) append(piece)
    at += length * kind.BYTES_PER_ELEMENT
    return { name, type, length, at: at - length * kind.BYTES_PER_ELEMENT }
  })
}

/** Puts arrays of a file into a state: read when they are written. */
export function putFiled(state: State, arrays: readonly FiledArray[], read: Source["read"]): void {
  for (const { name, type, length, at } of arrays) {
    const kind = TYPES[type] as StateKind
    const { BYTES_PER_ELEMENT: width } = kind
    state.putSliced(name, {
      kind,
      length,
      *pieces() {
        const buffer = new ArrayBuffer(Math.min(SLICE, length * width))
        for (let done = 0; done < length; ) {
          const count = Math.min(length - done, buffer.byteLength / width)
          read(new Uint8Array(buffer, 0, count * width), at + done * width)
          yield new kind(buffer, 0, count)
          done += count
        }
      },
    })
  }
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

/** A file's bytes, wherever they are; it may be larger than one array can be. */
export interface Source {
  readonly length: number
  /** Fills the target with the bytes from a place on. */
  read(target: Uint8Array, from: number): void
}

const damaged = (what: string, cause?: unknown) =>
  new DessError("INVALID_DATA", `snapshot: expected ${what}`, cause === undefined ? undefined : { cause })

/** The state in a file, array by array. */
export function decodeState(file: Source): State {
  const { text, metadata, entries, values, start } = readHeader(file)
  const blank = text.replace(`"checksum":"${metadata.checksum}"`, `"checksum":"${NO_CHECKSUM}"`)
  const hash = createHash("sha256").update(blank)
  const arrays = new Map<string, StateArray>()
  let at = 0
  for (const [name, { dtype, data_offsets }] of entries) {
    const kind = TYPES[dtype]
    const bytes = data_offsets[1] - data_offsets[0]
    if (
      !kind ||
      data_offsets[0] !== at ||
      !(bytes >= 0 && at + bytes <= file.length - start && bytes % kind.BYTES_PER_ELEMENT === 0)
    )
      throw damaged(`array ${show(name)} at byte ${at}, got ${show(data_offsets)} of ${file.length - start}`)
    const array = new kind(bytes / kind.BYTES_PER_ELEMENT)
    const view = new Uint8Array(array.buffer)
    file.read(view, start + at)
    for (const piece of piecesOf(view)) hash.update(piece)
    arrays.set(name, array)
    at += bytes
  }
  if (start + at !== file.length) throw damaged(`${start + at} bytes, got ${file.length}`)
  if (hash.digest("hex") !== metadata.checksum) throw damaged("its checksum to match, got another: the file is damaged")
  return new State(arrays, values)
}

function readHeader(file: Source) {
  if (file.length < 8) throw damaged(`8 bytes or more, got ${file.length}`)
  const first = new Uint8Array(8)
  file.read(first, 0)
  const length = Number(new DataView(first.buffer).getBigUint64(0, true))
  if (!(length <= Math.min(file.length - 8, LONGEST_HEADER)))
    throw damaged(`a header of ${length} bytes, got ${file.length - 8}`)
  const bytes = Buffer.alloc(length)
  file.read(bytes, 8)
  const text = bytes.toString()
  try {
    const header = new Map<string, unknown>(Object.entries(JSON.parse(text)))
    const metadata = header.get("__metadata__") as Record<string, string>
    header.delete("__metadata__")
    if (metadata.format !== FORMAT) throw damaged(`a file of ${FORMAT}, got format ${show(metadata.format)}`)
    if (Number(metadata.version) > VERSION)
      throw new DessError(
        "UNSUPPORTED",
        `snapshot: expected version ${VERSION}, got ${show(metadata.version)}; use a newer dess`,
      )
    if (Number(metadata.version) !== VERSION) throw damaged(`version ${VERSION}, got ${show(metadata.version)}`)
    const values = new Map<string, Json>(Object.entries(JSON.parse(metadata.values)))
    const entries = ([...header] as [string, Entry][]).sort(
      ([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0] || a.data_offsets[1] - b.data_offsets[1],
    )
    return { text, metadata, entries, values, start: 8 + length }
  } catch (cause) {
    throw cause instanceof DessError ? cause : damaged("a readable header, got a damaged one", cause)
  }
}

/** Bytes in pieces that every call of the system takes. */
export function* piecesOf(bytes: Uint8Array, size = PIECE): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

/** SHA-256 over everything in a state: equal states, equal hashes. */
export function hashState(state: State): string {
  const hash = createHash("sha256")
  for (const piece of statePieces(state)) for (const part of piecesOf(piece)) hash.update(part)
  return hash.digest("hex")
}
