import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import type { Recommender } from "../../src/engine/types.ts"
import { forgetUser } from "../../src/server/forget.ts"
import { Notes } from "../../src/server/notes.ts"
import { openService, removeFolder, temporaryFolder } from "../support/service.ts"

const folder = temporaryFolder()
afterAll(() => removeFolder(folder))

const text = (path: string) => readFileSync(path, "utf8")

test("a user's removal that a crash interrupts anywhere is finished at the next start, notes and all", async () => {
  const directory = join(folder, "forgetting")
  const path = join(directory, "gorse-notes.jsonl")
  const before = await openService({ flags: { directory } })
  await before.call("POST", "/api/user", { body: { UserId: "victim", Labels: ["diabetes"], Comment: "private" } })
  await before.call("POST", "/v1/interactions", { body: { user: "victim", item: "i1" } })
  await before.stop()
  // The power fails while the recommender is at it.
  const notes = new Notes()
  notes.load(path)
  void forgetUser(
    { recommender: () => ({ forget: () => new Promise(() => {}) }) as unknown as Recommender, notes },
    "victim",
  )
  notes.close()
  expect(text(path)).not.toContain("diabetes")
  const after = await openService({ flags: { directory } })
  expect((await after.call("GET", "/v1/users/victim")).status).toBe(404)
  expect((await after.call("GET", "/api/user/victim")).status).toBe(404)
  await after.stop()
  expect(text(path)).not.toContain("victim")
})

test("a removal that is refused for what was asked is not tried again", async () => {
  const notes = new Notes()
  notes.put("user", [{ id: "x", note: { comment: "c" } }])
  const refuse = () => Promise.reject(new Error("no such name"))
  await expect(
    forgetUser({ recommender: () => ({ forget: refuse }) as unknown as Recommender, notes }, "x"),
  ).rejects.toThrow("no such name")
  expect(notes.forgetting).toEqual([])
})

test("saying something about the same ids again and again does not fill the disk", () => {
  const path = join(folder, "notes.jsonl")
  const notes = new Notes()
  notes.load(path)
  for (let n = 0; n < 1300; n++) notes.put("item", [{ id: `i${n % 3}`, note: { comment: `comment ${n}` } }])
  notes.close()
  expect(text(path).split("\n").length).toBeLessThan(600)
  const again = new Notes()
  again.load(path)
  expect(again.get("item", "i2")).toEqual({ comment: "comment 1298" })
  again.close()
})

test("a damaged line is named", () => {
  mkdirSync(folder, { recursive: true })
  const path = join(folder, "damaged.jsonl")
  writeFileSync(path, '{"salt":"of an older version"}\nnonsense\n{"side":"item","id":"a","note":{}}\n')
  expect(() => new Notes().load(path)).toThrow(/damaged\.jsonl: expected JSON in line 2/)
})
