import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { openDuck } from "../src/datasets/duck.ts"

vi.mock("@duckdb/node-api", () => {
  throw new Error("Cannot find package '@duckdb/node-api'")
})

it("says which package to install when DuckDB is not there", async () => {
  const opened = openDuck({ memoryBytes: 1e9, threads: 1, temporary: join(tmpdir(), "nowhere") })
  await expect(opened).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/npm install .*@duckdb\/node-api/),
  })
})
