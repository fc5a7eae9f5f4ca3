/** Events as JSON lines: read, checked and observed a batch at a time, as fast as they are learned and no faster. */

import type { Readable } from "node:stream"
import { setTimeout as wait } from "node:timers/promises"
import type { Accepted, Event, Recommender } from "../engine/types.ts"
import { DessError, show } from "../errors.ts"
import { PartlyAccepted, Refusal } from "./problem.ts"
import type { Check } from "./validate.ts"

const BATCH = 2000
const LONGEST_LINE = 16_384
const LINE_FEED = 10
/** How long a full queue may stand still before the stream is refused. */
const PATIENCE = 30_000
const PAUSE = 50

export interface LinesOptions {
  recommender: Recommender
  /** Of one event. */
  check: Check
  /** Set when the service stops. */
  signal: AbortSignal
}

/** Observes every line of a body. What was accepted before a refusal stays accepted, and the refusal says how much. */
export async function observeLines(body: Readable, options: LinesOptions): Promise<Accepted> {
  const total: Accepted = { accepted: 0, duplicates: 0 }
  let batch: Event[] = []
  let first = 0
  const flush = async () => {
    if (batch.length === 0) return
    const { accepted, duplicates } = await observePatiently(options.recommender, batch, options.signal).catch(
      (error) => {
        if (!(error instanceof DessError)) throw error
        throw new DessError(error.code, `${error.message}, counted from line ${first}`, { cause: error })
      },
    )
    total.accepted += accepted
    total.duplicates += duplicates
    batch = []
  }
  try {
    for await (const { text, number } of readLines(body)) {
      if (batch.length === 0) first = number
      batch.push(parseEvent(text, number, options.check))
      if (batch.length >= BATCH) await flush()
    }
    await flush()
  } catch (error) {
    const gone = body.errored !== null && !(error instanceof DessError)
    const told = gone
      ? new Refusal(400, "BAD_REQUEST", "body: expected its end, the connection was closed before")
      : error
    throw new PartlyAccepted(told, total)
  }
  return total
}

/** Observes, waiting while the queue is full. */
export async function observePatiently(
  recommender: Recommender,
  events: readonly Event[],
  signal?: AbortSignal,
): Promise<Accepted> {
  const until = performance.now() + PATIENCE
  for (;;) {
    if (signal?.aborted) throw new DessError("CLOSED", "service: it is stopping; send the rest later")
    try {
      return await recommender.observe(events)
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

/** The lines of a body that are not blank, numbered from 1; the last may lack its end. */
export async function* readLines(body: AsyncIterable<Buffer>): AsyncGenerator<{ text: string; number: number }> {
  let carry: Buffer = Buffer.alloc(0)
  let number = 0
  for await (const chunk of body) {
    const bytes = carry.length === 0 ? chunk : Buffer.concat([carry, chunk])
    let from = 0
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      number++
      if (end - from > LONGEST_LINE) refuseLong(number)
      const text = bytes.toString("utf8", from, end).trim()
      if (text !== "") yield { text, number }
      from = end + 1
    }
    carry = bytes.subarray(from)
    if (carry.length > LONGEST_LINE) refuseLong(number + 1)
  }
  const text = carry.toString("utf8").trim()
  if (text !== "") yield { text, number: number + 1 }
}

function refuseLong(number: number): never {
  throw new DessError("INVALID_DATA", `line: expected at most ${LONGEST_LINE} bytes, got more (line ${number})`)
}
