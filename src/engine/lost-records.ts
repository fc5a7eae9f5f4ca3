/**
 * What is gone of a journal, in words: which records, and, as far as those that are left tell, how many events and of when.
 * Every end of a segment says how many events there have been; whose
 * the missing ones were nothing tells: snapshots have sums, what users have met also from events that are there, and of
 * keys only hashes.
 */

import type { LogRecord } from "./records.ts"

/** Losses between two ends of segments: what they had together is known, what each had is not. */
interface Span {
  texts: string[]
  events?: number | undefined
  /** Milliseconds when the segments before and after it were closed. */
  from: number | undefined
  to?: number
}

export class LostRecords {
  readonly #spans: Span[] = []
  #open: Span | undefined
  /** Events up to the last end of a segment, as that says, and events after it. */
  #events: number | undefined
  #since = 0
  #time: number | undefined

  /** `first`: the position of the first record there is. */
  constructor(first: number) {
    this.#events = first === 0 ? 0 : undefined
  }

  /** Takes the next record that is there. */
  read(record: LogRecord): void {
    if (record.kind === "events") this.#since += record.user.length
    if (record.kind !== "segment") return
    const { events, time } = record
    if (this.#open) {
      const missing = events === undefined ? undefined : events - (this.#events ?? Number.NaN) - this.#since
      Object.assign(this.#open, { events: missing !== undefined && missing >= 0 ? missing : undefined, to: time })
    }
    this.#open = undefined
    this.#events = events
    this.#since = 0
    this.#time = time
  }

  /** Notes that records are gone here. */
  lose(text: string): void {
    if (!this.#open) {
      this.#open = { texts: [], from: this.#time }
      this.#spans.push(this.#open)
    }
    this.#open.texts.push(text)
  }

  /** What is gone, one text for every loss. */
  describe(): string[] {
    return this.#spans.flatMap(({ texts: [first, ...others], ...span }) => [
      `${first}: ${describeEvents(span)}`,
      ...others.map((text) => `${text}: counted with the one before`),
    ])
  }
}

function describeEvents(span: Omit<Span, "texts">): string {
  return span.events === 0 ? "no events" : `${countEvents(span)}; no record tells whose they were`
}

function countEvents({ events, from, to }: Omit<Span, "texts">): string {
  const count = events === undefined ? "events, how many is not known" : `${events} event${events === 1 ? "" : "s"}`
  const [begin, end] = [from, to].map((time) => (time === undefined ? undefined : new Date(time).toISOString()))
  if (begin !== undefined && end !== undefined) return `${count}, taken between ${begin} and ${end}`
  if (begin !== undefined) return `${count}, taken after ${begin}`
  return end === undefined ? count : `${count}, taken before ${end}`
}
