/** Snapshots are safetensors files: read here by the letter of the format, without our reader. */

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { decodeState, hashState } from "../../src/engine/safetensors.ts"
import { readSnapshot, writeSnapshot } from "../../src/engine/snapshots.ts"
import { State } from "../../src/kernels/state.ts"
import { decodeBytes, encodeState } from "../support/states.ts"

function sample(): State {
  const state = new State()
  state.put("bytes", Uint8Array.of(1, 2, 3))
  state.at("a").put("floats", Float32Array.of(1.5, Number.NaN, -0))
  state.at("a").at("b").put("doubles", Float64Array.of(Math.PI, Number.MAX_VALUE))
  state.put("ints", Int32Array.of(-1, 7))
  state.put("counts", Uint32Array.of(4_294_967_295))
  state.put("none", new Float64Array(0))
  state.at("__proto__").put("x", Int32Array.of(9))
  state.set("version of everything", { deep: [1, "two", null, true] })
  return state
}

test("the layout is that of the format", () => {
  const file = encodeState(sample())
  const length = Number(file.readBigUInt64LE(0))
  expect((8 + length) % 8).toBe(0)
  const header = JSON.parse(file.subarray(8, 8 + length).toString())
  const { __metadata__: metadata, ...tensors } = header
  for (const value of Object.values(metadata)) expect(typeof value).toBe("string")
  const found = Object.entries(tensors) as [
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] },
  ][]
  const widths: Record<string, number> = { F64: 8, F32: 4, I32: 4, U32: 4, U8: 1 }
  let end = 0
  for (const [name, { dtype, shape, data_offsets }] of found) {
    expect(data_offsets[0], name).toBe(end)
    end = data_offsets[1]
    expect(end - data_offsets[0], name).toBe(shape[0] * widths[dtype])
    expect(data_offsets[0] % widths[dtype], name).toBe(0)
  }
  expect(8 + length + end).toBe(file.length)
  const data = file.subarray(8 + length)
  expect(data.readDoubleLE(tensors["a.b.doubles"].data_offsets[0])).toBe(Math.PI)
  expect(data.readInt32LE(tensors.ints.data_offsets[0])).toBe(-1)
  expect(tensors["a.floats"]).toMatchObject({ dtype: "F32", shape: [3] })
})

test("what was written is read, to the bit", () => {
  const state = decodeBytes(encodeState(sample()))
  expect(hashState(state)).toBe(hashState(sample()))
  expect(state.at("a").take("floats", Float32Array)).toEqual(Float32Array.of(1.5, Number.NaN, -0))
  expect(state.get("version of everything")).toEqual({ deep: [1, "two", null, true] })
  expect(() => state.take("ints", Float32Array)).toThrow(/state ints: expected a Float32Array, got Int32Array/)
  expect(() => state.take("nothing", Float32Array)).toThrow(/state nothing: expected a Float32Array, got none/)
})

test("a file is read array by array, so it may be larger than any array", () => {
  const file = encodeState(sample())
  const asked: number[] = []
  const read = (target: Uint8Array, from: number) => {
    asked.push(target.length)
    target.set(file.subarray(from, from + target.length))
  }
  decodeState({ length: file.length, read })
  expect(asked.slice(2).sort((a, b) => a - b)).toEqual([0, 3, 4, 4, 8, 12, 16])
})

test("any changed byte is noticed", () => {
  const whole = encodeState(sample())
  for (let at = 0; at < whole.length; at++) {
    const file = Buffer.from(whole)
    file[at] ^= 0x10
    expect(() => decodeBytes(file), `byte ${at}`).toThrow()
  }
  for (const length of [0, 7, 8, 100, whole.length - 1])
    expect(() => decodeBytes(whole.subarray(0, length)), `length ${length}`).toThrow(/snapshot: expected/)
})

test("a file is there whole or not at all", () => {
  const folder = mkdtempSync(join(tmpdir(), "dess-snapshot-"))
  const path = join(folder, "snapshot-000000000001.safetensors")
  const bytes = writeSnapshot(path, sample())
  expect(bytes).toBe(statSync(path).size)
  const whole = readFileSync(path)
  expect(hashState(readSnapshot(path))).toBe(hashState(sample()))
  // In pieces of any size it is the same file, and the same state.
  for (const piece of [1, 3, 5, 64]) {
    expect(writeSnapshot(path, sample(), { piece })).toBe(bytes)
    expect(readFileSync(path).equals(whole)).toBe(true)
    expect(hashState(readSnapshot(path, piece))).toBe(hashState(sample()))
  }
  rmSync(folder, { recursive: true })
})
