/** Takes over the lookup table of a version that kept it in a file of LMDB's. */

import { readdirSync } from "node:fs"
import { join } from "node:path"
import { crc32 } from "node:zlib"
import { DessError } from "../errors.ts"
import type { Directory } from "./directory.ts"
import { LmdbFile } from "./lmdb-file.ts"
import { type Lookup, type LookupChange, removeLookup } from "./lookup.ts"
import { giveWay } from "./turns.ts"

/** Rows read before others get a turn. */
const PORTION = 1000

/**
 * Where there is an old table it goes: the journal has all that is in it. Where the journal is not kept from its
 * beginning on, a new one is made of it first. Undefined where there is none, or it is not needed.
 */
export async function importLookup(directory: Directory, open: () => Lookup): Promise<Lookup | undefined> {
  const generations = readdirSync(directory.path).map((name) => Number(/^lookup-(\d+)\.mdb$/.exec(name)?.[1] ?? 0))
  const newest = Math.max(0, ...generations)
  if (newest === 0) return undefined
  if (directory.files.first === 0) {
    removeLookup(directory.path)
    return undefined
  }
  // One that was being made of it is begun again.
  removeLookup(directory.path, "runs")
  const file = new LmdbFile(join(directory.path, `lookup-${newest}.mdb`))
  try {
    const lookup = open()
    try {
      await copyInto(lookup, file)
      removeLookup(directory.path, "old")
      return lookup
    } catch (cause) {
      await lookup.close().catch(() => {})
      throw cause
    }
  } finally {
    file.close()
  }
}

async function copyInto(lookup: Lookup, file: LmdbFile): Promise<void> {
  const meta = new Map(Array.from(valuesOf(file, "meta"), ({ key, value }) => [key.toString(), Number(value)]))
  const position = meta.get("applied") ?? 0
  let some: LookupChange[] = []
  for (const change of changesIn(file)) {
    if (some.push(change) < PORTION) continue
    lookup.add(some, position)
    some = []
    await giveWay()
  }
  lookup.add(some, position)
  lookup.nextKey = Math.max(lookup.nextKey, meta.get("nextKey") ?? 0)
  await lookup.flush(position)
}

function* changesIn(file: LmdbFile): Generator<LookupChange> {
  for (const { key, value } of valuesOf(file, "feedback")) {
    const [timestamp, comment] = JSON.parse(value.toString()) as [number, string]
    const [user, item, type] = [key.readUInt32BE(0), key.readUInt32BE(4), key.toString("utf8", 8)]
    yield { kind: "feedback", user, item, type, entry: { timestamp, comment } }
  }
  for (const { key, value } of valuesOf(file, "keys"))
    yield { kind: "key", hash: Buffer.from(key), order: Number(value.readBigUInt64BE(0)) }
  for (const { key, value } of valuesOf(file, "notes")) {
    const [id, note] = JSON.parse(value.toString())
    yield { kind: "note", side: key[0] === "u".charCodeAt(0) ? "user" : "item", id, note }
  }
}

/** Values have their checksum before them. */
function* valuesOf(file: LmdbFile, table: string): Generator<{ key: Buffer; value: Buffer }> {
  for (const { key, value: sealed } of file.rows(table)) {
    const value = sealed.subarray(4)
    if (sealed.length < 4 || sealed.readUInt32LE(0) !== crc32(value, crc32(key)))
      throw new DessError("INVALID_DATA", `lookup table, old ${table}: expected a value with its checksum, got another`)
    yield { key, value }
  }
}
