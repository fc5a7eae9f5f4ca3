/** A lookup table written as plainly as can be, and seeded changes to compare others with it. */

import { createHash } from "node:crypto"
import type { FeedbackEntry, FeedbackKey, FeedbackRange, Lookup, LookupChange, Note } from "../../src/engine/lookup.ts"
import type { Side } from "../../src/types.ts"

type Row = FeedbackKey & FeedbackEntry

/** By UTF-8 bytes, which is not the order of JavaScript's texts. */
const TYPES = ["like", "l", "read", "\u{ffff}", "\u{1f600}", "é", "__proto__"]
const IDS = [
  "ada",
  "bob",
  "",
  "\u{1f600}".repeat(512),
  "é",
  "__proto__",
  ...Array.from({ length: 9 }, (_, n) => `${n}`),
]

export function hashOf(text: string): Buffer {
  return createHash("sha256").update(text).digest().subarray(0, 16)
}

export class LookupModel {
  rows: Row[] = []
  keys = new Map<string, number>()
  notes: { side: Side; id: string; note: Note }[] = []

  change(change: LookupChange): void {
    switch (change.kind) {
      case "feedback": {
        const { user, item, type, entry } = change
        this.rows = this.rows.filter((row) => row.user !== user || row.item !== item || row.type !== type)
        if (entry) this.rows.push({ user, item, type, ...entry })
        return
      }
      case "dropFeedback":
        this.rows = this.rows.filter((row) => row[change.side] !== change.index)
        return
      case "key":
        this.keys.set(Buffer.from(change.hash).toString("hex"), change.order)
        return
      case "note": {
        const { side, id, note } = change
        this.notes = this.notes.filter((held) => held.side !== side || held.id !== id)
        if (note) this.notes.push({ side, id, note })
      }
    }
  }

  feedback({ user, item, after }: FeedbackRange): Row[] {
    const first: Side = user === undefined && item !== undefined ? "item" : "user"
    const second: Side = first === "user" ? "item" : "user"
    const compare = (a: FeedbackKey, b: FeedbackKey) =>
      a[first] - b[first] || a[second] - b[second] || Buffer.compare(Buffer.from(a.type), Buffer.from(b.type))
    return this.rows
      .filter((row) => (user === undefined || row.user === user) && (item === undefined || row.item === item))
      .filter((row) => after === undefined || compare(row, after) > 0)
      .sort(compare)
  }
}

/** Whole numbers below a bound, the same for a seed. */
export function randomOf(seed: number): (bound: number) => number {
  let state = seed >>> 0
  return (bound) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) % bound
  }
}

export function randomChange(random: (bound: number) => number, nextKey: number): LookupChange {
  const side: Side = random(2) === 0 ? "user" : "item"
  const pick = <T>(all: readonly T[]) => all[random(all.length)]
  switch (random(12)) {
    case 0:
      return { kind: "dropFeedback", side, index: random(12) }
    case 1:
    case 2:
      return { kind: "key", hash: hashOf(`${random(1e9)}`), order: nextKey }
    case 3:
    case 4:
      return { kind: "note", side, id: pick(IDS), note: random(3) === 0 ? null : randomNote(random) }
    default: {
      const entry = { timestamp: random(1e9) + 0.25, comment: pick(["", "good", "\ud800 alone", "é".repeat(2000)]) }
      const key = { user: random(12), item: random(12), type: pick(TYPES) }
      return { kind: "feedback", ...key, entry: random(4) === 0 ? null : entry }
    }
  }
}

function randomNote(random: (bound: number) => number): Note {
  return { labels: [random(9), { deep: "é" }], comment: `${random(99)}`, timestamp: "2024-01-01T00:00:00Z" }
}

/** Everything that can be asked for, as both answer it. */
export function answers(lookup: Lookup, model: LookupModel): { got: unknown; expected: unknown } {
  const [got, expected]: unknown[][] = [[], []]
  const queries: FeedbackRange[] = [{}]
  for (let index = 0; index < 12; index++)
    queries.push({ user: index }, { item: index }, { user: index, item: 11 - index })
  for (const query of queries) {
    got.push(pages(lookup, query))
    expected.push(model.feedback(query))
  }
  for (const row of model.rows) got.push(lookup.feedbackEntry(row))
  for (const { timestamp, comment } of model.rows) expected.push({ timestamp, comment })
  for (const side of ["user", "item"] as const) {
    const ids = [...lookup.noteIds(side)]
    got.push(
      [...ids].sort(),
      ids.slice(1),
      [...IDS].map((id) => lookup.note(side, id)),
    )
    const notes = model.notes.filter((held) => held.side === side)
    const after = ids.length === 0 ? [] : [...lookup.noteIds(side, ids[0])]
    expected.push(notes.map(({ id }) => id).sort(), after)
    expected.push([...IDS].map((id) => notes.find((held) => held.id === id)?.note))
  }
  for (const hash of model.keys.keys()) got.push(lookup.hasKey(Buffer.from(hash, "hex")))
  for (const _ of model.keys) expected.push(true)
  got.push(lookup.hasKey(hashOf("never")), lookup.nextKey)
  expected.push(false, Math.max(-1, ...model.keys.values()) + 1)
  return { got, expected }
}

/** Page by page, each behind the last row of the one before. */
function pages(lookup: Lookup, query: FeedbackRange): Row[] {
  const rows: Row[] = []
  for (;;) {
    const before = rows.length
    for (const row of lookup.feedback({ ...query, after: rows.at(-1) })) {
      rows.push(row)
      if (rows.length === before + 50) break
    }
    if (rows.length === before) return rows
  }
}
