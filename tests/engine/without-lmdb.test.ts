import { existsSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { Recommender } from "../../src/engine/open.ts"

vi.mock("lmdb", () => {
  throw new Error("Cannot find package 'lmdb'")
})

test("without lmdb a directory is refused with what to install, and none is made", async () => {
  const directory = join(tmpdir(), `dess-without-lmdb-${process.pid}`)
  await expect(Recommender.open({ directory })).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/npm install .*lmdb/),
  })
  expect(existsSync(directory)).toBe(false)
})
