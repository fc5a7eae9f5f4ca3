/** Scores of lists as the dashboard shows them. */

import { expect, test } from "vitest"
import { readNumber } from "../../web/components/sortable.ts"
import { formatScore } from "../../web/dashboard/list-table.ts"

test("a score that is tiny is not shown as nothing, and sorts below the others", () => {
  const scores = [0, 4.3e-8, 0.00005, 0.0002, 0.31, 1.02]
  const shown = scores.map(formatScore)
  expect(shown).toEqual(["0.0000", "< 0.0001", "0.0001", "0.0002", "0.3100", "1.0200"])
  const read = shown.map(readNumber)
  expect(read).toEqual(read.toSorted((a, b) => a - b))
  expect(formatScore(-0.0123)).toBe("-0.0123")
})
