import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { openDuck } from "../../src/datasets/duck.ts"
import { listZip } from "../../src/datasets/zip.ts"

vi.mock("@duckdb/node-api", () => {
  throw new Error("Cannot find package '@duckdb/node-api'")
})

vi.mock("yauzl", () => {
  throw new Error("Cannot find package 'yauzl'")
})

it("says which package to install when DuckDB is not there", async () => {
  const opened = openDuck({ memoryBytes: 1e9, threads: 1, temporary: join(tmpdir(), "nowhere") })
  await expect(opened).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/npm install .*@duckdb\/node-api/),
  })
})

it("says which package to install when the reader of archives is not there", async () => {
  await expect(listZip("ml-100k.zip")).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/^zip file: expected yauzl, .*npm install .*yauzl/),
  })
})
