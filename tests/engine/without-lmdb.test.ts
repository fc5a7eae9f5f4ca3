import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { buildCommand } from "../support/command.ts"

vi.mock("lmdb", () => {
  throw new Error("Cannot find package 'lmdb'")
})

let directory = ""
beforeAll(buildCommand)
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "dess-without-lmdb-"))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

test("without lmdb a directory works; only keys, types and notes need it, take nothing and say what to install", async () => {
  const refusal = { code: "UNSUPPORTED", message: expect.stringMatching(/npm install .*lmdb/) }
  let recommender = await Recommender.open({ directory, threads: 1 })
  await recommender.observe({ user: "ada", item: "dune" })
  const event = { user: "bob", item: "solaris" }
  await expect(recommender.observe({ ...event, key: "k" })).rejects.toMatchObject(refusal)
  await expect(recommender.observe({ ...event, type: "like" })).rejects.toMatchObject(refusal)
  await expect(recommender.putNotes?.("user", [{ id: "bob", note: { comment: "c" } }])).rejects.toMatchObject(refusal)
  expect(recommender.note?.("user", "bob")).toBeUndefined()
  expect(recommender.has("user", "bob")).toBe(false)
  expect(recommender.status().state).toBe("learning")
  await recommender.putItems({ item: "stalker" })
  await recommender.forget("nobody")
  await recommender.close()
  expect(readdirSync(directory).filter((name) => name.endsWith(".mdb"))).toEqual([])
  recommender = await Recommender.open({ directory, threads: 1 })
  expect(recommender.history("ada")).toEqual(["dune"])
  expect(recommender.item("stalker")).toBeDefined()
  expect(await recommender.forget("ada")).toMatchObject({ status: "done", found: true, events: 1 })
  await recommender.close()
})
