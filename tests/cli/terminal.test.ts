/** What the commands say on stderr while they work. */

import { afterEach, expect, test, vi } from "vitest"
import { ReplayLine } from "../../src/cli/terminal.ts"

afterEach(() => {
  vi.restoreAllMocks()
})

test("where stderr is no terminal a replay is reported after 2 s and then every 10 s", () => {
  const { isTTY } = process.stderr
  process.stderr.isTTY = false
  const told: number[] = []
  let elapsed = 0
  vi.spyOn(process.stderr, "write").mockImplementation(() => told.push(elapsed) > 0)
  const line = new ReplayLine("replaying")
  expect(line.reached).toBeUndefined()
  for (; elapsed <= 25_000; elapsed += 200)
    line.update({ events: elapsed, share: elapsed / 50_000, elapsed, remaining: 50_000 - elapsed })
  process.stderr.isTTY = isTTY
  expect(told).toEqual([2000, 12_000, 22_000])
  expect(line.reached).toBe("50 % of the journal, 25,000 events")
  line.done()
  expect(line.reached).toBeUndefined()
})
