/** Events as JSON lines: read, checked and observed a batch at a time, as fast as they are learned and no faster. */

import type { Readable } from "node:stream"
import { setTimeout as wait } from "node:timers/promises"
import type { Accepted, Event, ObserveOptions, Recommender, ServedRecommender } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { PartlyAccepted, Refusal } from "./problem.ts"
import type { Check } from "./validate.ts"

const BATCH = 2000
const LONGEST_LINE = 16_384
const LINE_FEED = 10
/** How long the queue may stay full before the stream is refused. */
const PATIENCE = 30_000
const PAUSE = 50

export interface StreamLimits {
  /** A stream must bring at least `leastBytes` in this time. */
  streamMilliseconds: number
  leastBytes: number
}

export interface LinesOptions {
  recommender: ServedRecommender
  /** Of one event. */
  check: Check
  /** Aborted when the service stops. */
  signal: AbortSignal
  limits: StreamLimits
}

/** Observes every line of a body. Events accepted before an error stay accepted, and the error says how many. */
export async function observeLines(body: Readable, options: LinesOptions): Promise<Accepted> {
  const total: Accepted = { accepted: 0, duplicates: 0 }
  try {
    for await (const lines of readLines(chunksOf(body, options))) {
      const events = lines.map(({ text, number }) => parseEvent(text, number, options.check))
      const { accepted, duplicates } = await observeFrom(lines[0].number, events, options)
      total.accepted += accepted
      total.duplicates += duplicates
    }
  } catch (error) {
    const gone = body.errored !== null && !(error instanceof DessError)
    const reason = gone
      ? new Refusal(400, "BAD_REQUEST", "body: expected its end, the connection was closed before")
      : error
    throw new PartlyAccepted(reason, total)
  }
  return total
}

/** Observes; an error names the first line of the batch. */
async function observeFrom(line: number, events: Event[], { recommender, signal }: LinesOptions): Promise<Accepted> {
  try {
    return await observePatiently(recommender, events, { signal })
  } catch (error) {
    if (!(error instanceof DessError)) throw error
    throw new DessError(error.code, `${error.message}, counted from line ${line}`, { cause: error })
  }
}

/** The chunks of a body; refuses when the service stops, or when too little comes while it waits for the caller. */
async function* chunksOf(body: Readable, { signal, limits }: LinesOptions): AsyncGenerator<Buffer> {
  const { streamMilliseconds, leastBytes } = limits
  const chunks = body[Symbol.asyncIterator]()
  let bytes = 0
  let patience = streamMilliseconds
  for (;;) {
    const asked = performance.now()
    const { value, done } = await nextWithin(chunks, patience, signal)
    if (done) return
    bytes += value.length
    patience -= performance.now() - asked
    if (bytes >= leastBytes) {
      bytes = 0
      patience = streamMilliseconds
    }
    yield value
  }
}

function nextWithin(chunks: AsyncIterator<Buffer>, milliseconds: number, signal: AbortSignal) {
  return new Promise<IteratorResult<Buffer>>((resolve, reject) => {
    const stop = () => reject(new DessError("CLOSED", "service: it is stopping; send the rest later"))
    const late = () => reject(new Refusal(408, "BAD_REQUEST", "body: expected more lines or its end, got too little"))
    if (signal.aborted) return stop()
    const timer = setTimeout(late, Math.max(1, milliseconds))
    signal.addEventListener("abort", stop)
    chunks
      .next()
      .then(resolve, reject)
      .finally(() => {
        clearTimeout(timer)
        signal.removeEventListener("abort", stop)
      })
  })
}

/** Observes, waiting while the queue is full. */
export async function observePatiently(
  recommender: Pick<Recommender, "observe">,
  events: readonly Event[],
  { signal, ...options }: ObserveOptions & { signal?: AbortSignal | undefined } = {},
): Promise<Accepted> {
  const until = performance.now() + PATIENCE
  for (;;) {
    if (signal?.aborted) throw new DessError("CLOSED", "service: it is stopping; send the rest later")
    try {
      return await recommender.observe(events, options)
    } catch (error) {
      if (!(error instanceof DessError && error.code === "BUSY") || performance.now() > until) throw error
    }
    await wait(PAUSE)
  }
}

function parseEvent(text: string, number: number, check: Check): Event {
  const where = ` (line ${number})`
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new DessError("INVALID_DATA", `line: expected a JSON object, got ${show(text)}${where}`)
  }
  try {
    check(value)
  } catch (error) {
    throw new DessError("INVALID_DATA", `${(error as Error).message}${where}`)
  }
  return value as Event
}

interface Line {
  text: string
  /** From 1. */
  number: number
}

/** The lines that are not blank, as many at a time as came at once; the last may lack its end. */
async function* readLines(body: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let carry: Buffer = Buffer.alloc(0)
  let number = 0
  for await (const chunk of body) {
    const bytes = carry.length === 0 ? chunk : Buffer.concat([carry, chunk])
    const lines: Line[] = []
    let from = 0
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      number++
      if (end - from > LONGEST_LINE) refuseLong(number)
      const text = bytes.toString("utf8", from, end).trim()
      if (text !== "") lines.push({ text, number })
      from = end + 1
    }
    carry = bytes.subarray(from)
    if (carry.length > LONGEST_LINE) refuseLong(number + 1)
    for (let at = 0; at < lines.length; at += BATCH) yield lines.slice(at, at + BATCH)
  }
  const text = carry.toString("utf8").trim()
  if (text !== "") yield [{ text, number: number + 1 }]
}

function refuseLong(number: number): never {
  throw new DessError("INVALID_DATA", `line: expected at most ${LONGEST_LINE} bytes, got more (line ${number})`)
}
