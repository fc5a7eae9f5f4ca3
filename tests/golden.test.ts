/** Golden cases are found by listing a folder: drop one in and it is a test. `DESS_GOLDEN=<dir>` names another folder. */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { openKernels } from "../src/kernels/open.ts"
import { ReferenceKernels } from "../src/kernels/reference.ts"
import { checkBandit } from "./support/golden-bandit.ts"
import { checkIndicators } from "./support/golden-indicators.ts"
import { checkModel, checkProbe, type ModelCase } from "./support/golden-model.ts"

const SINGLE = { value: 1e-4, final: 1e-3, double: false }

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
      for (const kind of ["simd", "relaxed-simd"] as const)
        for (const threads of [1, 2])
          test(`${kind} twin on ${threads} thread(s) agrees to 1e-4 (final state 1e-3; probe effects to 1 % + 1e-6)`, () => {
            const kernels = openKernels({ kind, threads })
            try {
              checkProbe(model, checkModel(model, kernels, SINGLE), SINGLE)
            } finally {
              kernels.close()
            }
          })
      test("reference twin in float32 agrees to 1e-4 (final state 1e-3; probe effects to 1 % + 1e-6)", () => {
        checkProbe(model, checkModel(model, new ReferenceKernels("single"), SINGLE), SINGLE)
      })
    } else if ("steps" in golden)
      test("the bandit reproduces every β, score, arm and θ to 1e-8", () => {
        checkBandit(golden)
      })
    else if ("events" in golden)
      test("frequencies, IND and POD agree to 1e-8 after every event", () => {
        checkIndicators(golden)
      })
    else
      test("the case is of a known kind", () => {
        expect.fail(`expected the keys of a model, bandit or indicator case, got ${Object.keys(golden).join(", ")}`)
      })
  })
}
