/** What is remembered of new items that were shown. */

import { expect, test } from "vitest"
import { FreshPages } from "../../src/engine/shown-items.ts"

test("pages with fresh are remembered in a limited number of bytes: of those who asked last", () => {
  for (const [length, count] of [
    [1, 30_000],
    [2000, 3000],
  ]) {
    const pages = new FreshPages()
    const nameOf = (n: number) => `${n}`.padEnd(length)
    for (let n = 0; n < count; n++) pages.set(nameOf(n), [[n]])
    const isKept = Array.from({ length: count }, (_, n) => pages.of(nameOf(n)).flat().includes(n))
    const kept = isKept.filter((yes) => yes).length
    expect(kept * length).toBeLessThan(2 ** 21)
    expect(kept).toBeGreaterThan(900)
    expect(kept).toBeLessThan(count)
    expect(isKept.slice(-kept).every((yes) => yes)).toBe(true)
  }
})
