/** Golden cases are found by listing a folder: drop one in and it is a test. `DESS_GOLDEN=<dir>` names another folder. */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { ReferenceKernels } from "../src/kernels/reference.ts"
import { checkModel, checkProbe, type ModelCase } from "./support/golden-model.ts"

const folder = process.env.DESS_GOLDEN ?? join(import.meta.dirname, "golden")
const names = readdirSync(folder).filter((name) => name.endsWith(".json"))

test(`golden cases are found in the folder`, () => {
  expect(names.length).toBeGreaterThan(0)
})

for (const name of names) {
  const golden: Record<string, unknown> = JSON.parse(readFileSync(join(folder, name), "utf8"))
  describe(name, () => {
    if ("kind" in golden) {
      const model = golden as unknown as ModelCase
      test("reference twin in float64 agrees to 1e-8 on everything, the probe too", () => {
        const tolerance = { value: 1e-8, final: 1e-8, double: true }
        checkProbe(model, checkModel(model, new ReferenceKernels("double"), tolerance), tolerance)
      })
      test("reference twin in float32 agrees to 1e-4 (final state 1e-3; probe effects to 1 % + 1e-6)", () => {
        const tolerance = { value: 1e-4, final: 1e-3, double: false }
        checkProbe(model, checkModel(model, new ReferenceKernels("single"), tolerance), tolerance)
      })
    }
  })
}
