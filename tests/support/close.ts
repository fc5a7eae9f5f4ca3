import { expect } from "vitest"

/** Equal but for so much, number by number. */
export function expectClose(got: ArrayLike<number>, want: ArrayLike<number>, most: number): void {
  expect(got.length).toBe(want.length)
  for (let i = 0; i < want.length; i++)
    if (!(Math.abs(got[i] - want[i]) <= most)) expect.fail(`number ${i}: expected ${want[i]}, got ${got[i]}`)
}
