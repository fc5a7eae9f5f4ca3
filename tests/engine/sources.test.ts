/** How far a source of events was read is kept with them: both are there after a crash, or neither. */

import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { rebuild } from "../../src/engine/rebuild.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-sources-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const event = { user: "ada", item: "dune" }

test("a position is there after a crash, a snapshot and a rebuild", async () => {
  const directory = join(folder, "kept")
  const first = await Recommender.open({ directory })
  expect(first.source?.("table")).toBeUndefined()
  await first.observe([event], { source: { name: "table", position: "17" } })
  expect(first.source?.("table")).toBe("17")
  const crashed = join(folder, "crashed")
  cpSync(directory, crashed, { recursive: true, filter: (path) => !path.endsWith(".sock") })
  await first.observe([], { source: { name: "table", position: "18" } })
  await first.close()
  const after = await Recommender.open({ directory: crashed })
  expect([after.source?.("table"), after.status().events.accepted]).toEqual(["17", 1])
  await after.close()
  const reopened = await Recommender.open({ directory })
  expect(reopened.source?.("table")).toBe("18")
  await reopened.close()
  const out = join(folder, "rebuilt")
  await rebuild({ directory, out })
  const rebuilt = await Recommender.open({ directory: out })
  expect(rebuilt.source?.("table")).toBe("18")
  await rebuilt.close()
})

test.each([
  { source: { name: "", position: "1" } },
  { source: { name: "table", position: 1 } },
  { source: { name: "table", position: "x".repeat(1_000_001) } },
  { source: { name: "table", position: "1", more: true } },
])("refuses a source that is none, and takes nothing", async (options) => {
  const recommender = await Recommender.open()
  await expect(recommender.observe([event], options as never)).rejects.toThrow(/^source/)
  expect(recommender.status().events.accepted).toBe(0)
  await recommender.close()
})
