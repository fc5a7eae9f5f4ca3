/**
 * Replays a golden indicator case, to 1e-8·max(1, |want|): everything in the reference mode; in the fast mode the
 * frequencies, IND, and POD up to 32 raters, where it is taken again at every event.
 */

import { Indicators } from "../../src/ids/indicators.ts"

interface GoldenIndicators {
  features: (number[] | null)[]
  events: { user: number; item: number; userFrequency: number; itemFrequency: number; ind: number; pod: number }[]
}

const EXACT_RATERS = 32

/** Throws an error that names the event and the value at the first difference. */
export function checkIndicators(golden: unknown): void {
  const { features: rows, events } = golden as GoldenIndicators
  if (events.length === 0) throw new Error("golden indicators: expected events, got none")
  const width = Math.max(...rows.map((row) => row?.length ?? 0))
  const features = {
    columns: Array.from({ length: width }, (_, c) => `f${c}`),
    values: Float64Array.from(rows.flatMap((row) => row ?? Array<number>(width).fill(0))),
    present: Uint8Array.from(rows, (row) => (row === null ? 0 : 1)),
  }
  for (const exact of [true, false]) {
    const indicators = new Indicators({ features, exact })
    for (const [l, event] of events.entries()) {
      const { user, item } = event
      indicators.observe(user, item)
      const check = (name: string, got: number, want: number) => {
        if (Math.abs(got - want) <= 1e-8 * Math.max(1, Math.abs(want))) return
        throw new Error(`event ${l} ${name} (${exact ? "exact" : "fast"}): expected ${want}, got ${got}`)
      }
      check("userFrequency", indicators.frequency("user", user), event.userFrequency)
      check("itemFrequency", indicators.frequency("item", item), event.itemFrequency)
      check("ind", indicators.diversity("user", user), event.ind)
      if (exact || event.itemFrequency <= EXACT_RATERS) check("pod", indicators.diversity("item", item), event.pod)
    }
  }
}
