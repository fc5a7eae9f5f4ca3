/** Lookup tables of a version that kept them in LMDB: they are read as LMDB wrote them, or made again from the journal. */

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest"
import type { Directory } from "../../src/engine/directory.ts"
import { LmdbFile } from "../../src/engine/lmdb-file.ts"
import { Lookup } from "../../src/engine/lookup.ts"
import { importLookup } from "../../src/engine/old-lookup.ts"
import { Recommender } from "../../src/engine/open.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { buildCommand } from "../support/command.ts"
import { hashOf } from "../support/lookup-model.ts"

/** 600 events, written and compacted by LMDB, the keys of the first 150 dropped. */
const OLD = gunzipSync(readFileSync(new URL("../golden/lmdb/lookup-2.mdb.gz", import.meta.url)))

let folder: string
beforeAll(buildCommand)
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dess-old-lookup-"))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const open = () =>
  new Lookup({
    directory: folder,
    mostKeys: 0,
    onFailure: (error) => {
      throw error
    },
  })

const withJournalFrom = (first: number) => ({ path: folder, files: { first } }) as Directory

test("where the journal does not reach back, all of it is taken over, and the file goes", async () => {
  writeFileSync(join(folder, "lookup-2.mdb"), OLD)
  writeFileSync(join(folder, "lookup-2.mdb-lock"), "")
  writeFileSync(join(folder, "lookup-1-1.run"), "begun and not finished")
  const lookup = (await importLookup(withJournalFrom(100), open)) as Lookup
  expect(readdirSync(folder)).toEqual(["lookup-1-1.run"])
  const rows = [...lookup.feedback({})]
  expect(rows.length).toBe(600)
  for (const { user, item, type, timestamp, comment } of rows)
    expect({ user, type, timestamp, comment }).toEqual({
      user: item % 97,
      type: item % 2 ? "like" : "é read",
      timestamp: 1.7e9 + item + 0.25,
      comment: item === 7 ? "long é ".repeat(1500) : item % 5 ? "" : `comment ${item}`,
    })
  for (let n = 0; n < 600; n++) expect(lookup.hasKey(hashOf(`key ${n}`)), `key ${n}`).toBe(n >= 150)
  expect([...lookup.noteIds("user")].length).toBe(75)
  expect(lookup.note("user", "id 8")).toEqual({ labels: [8], comment: "x".repeat(9000) })
  expect(lookup.note("item", "id 12")).toEqual({ labels: [12], comment: "n" })
  expect([lookup.applied, lookup.nextKey]).toEqual([700, 600])
  await lookup.close()
})

test("where the journal has everything the file goes, and nothing is taken from it", async () => {
  writeFileSync(join(folder, "lookup-2.mdb"), OLD)
  expect(await importLookup(withJournalFrom(0), open)).toBeUndefined()
  expect(readdirSync(folder)).toEqual([])
})

test("a directory with an old table opens with what its journal says", async () => {
  let recommender = (await Recommender.open({ directory: folder, threads: 1 })) as LiveRecommender
  await recommender.observe([{ user: "ada", item: "dune", type: "like", key: "k" }])
  await recommender.putNotes("user", [{ id: "ada", note: { comment: "counts" } }])
  await recommender.close()
  for (const name of readdirSync(folder)) if (name.startsWith("lookup-")) rmSync(join(folder, name))
  writeFileSync(join(folder, "lookup-2.mdb"), OLD)
  recommender = (await Recommender.open({ directory: folder, threads: 1 })) as LiveRecommender
  expect(recommender.status().damaged).toBeUndefined()
  expect((await recommender.feedback({})).feedback).toMatchObject([{ user: "ada", item: "dune", type: "like" }])
  expect(recommender.note("user", "ada")).toEqual({ comment: "counts" })
  expect(await recommender.observe([{ user: "bob", item: "emma", key: "k" }])).toMatchObject({ duplicates: 1 })
  await recommender.close()
  expect(readdirSync(folder).filter((name) => name.endsWith(".mdb"))).toEqual([])
})

test("a file that is cut short or something else is refused with a sentence", () => {
  const path = join(folder, "lookup-2.mdb")
  for (const bytes of [OLD.subarray(0, 100), OLD.subarray(0, 8192), Buffer.alloc(20_000, "no LMDB")]) {
    writeFileSync(path, bytes)
    expect(() => [...new LmdbFile(path).rows("feedback")]).toThrow(/^lookup-2\.mdb: expected /)
  }
})
