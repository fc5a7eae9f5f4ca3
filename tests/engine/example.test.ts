/** The example runs, and neither a recommender in memory nor one with a directory needs a package. */

import { execFileSync } from "node:child_process"
import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeAll, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"

const ROOT = join(import.meta.dirname, "../..")

beforeAll(buildCommand)

test("examples/recommender.mjs runs where nothing is installed but dess, as does a directory, with keys, types and notes", () => {
  const place = mkdtempSync(join(tmpdir(), "dess-example-"))
  try {
    for (const part of ["dist", "package.json", "examples"])
      cpSync(join(ROOT, part), join(place, part), { recursive: true })
    const run = (...args: string[]) => execFileSync(process.execPath, args, { cwd: place, encoding: "utf8" })
    const told = run("examples/recommender.mjs")
    expect(told.match(/\(model\)/g)).toHaveLength(5)
    expect(told).toMatch(/ada: \d+ numbers, \d+ bytes, seen 2 times/)
    expect(told).toMatch(/found: true/)
    const program = `import { Recommender } from "dess"
      const recommender = await Recommender.open({ directory: "data" })
      const event = { user: "ada", item: "dune", key: "k", type: "like" }
      for (let n = 0; n < 2; n++) console.log(JSON.stringify(await recommender.observe(event)))
      await recommender.putNotes("user", [{ id: "ada", note: { comment: "counts" } }])
      console.log(recommender.note("user", "ada").comment)
      await recommender.close()`
    expect(run("--input-type=module", "--eval", program)).toBe(
      '{"accepted":1,"duplicates":0}\n{"accepted":0,"duplicates":1}\ncounts\n',
    )
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})
