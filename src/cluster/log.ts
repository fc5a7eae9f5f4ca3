/** The log: events appended to the stream of their user's partition, each once, in the order of the calls. */

import { createHash, randomBytes } from "node:crypto"
import { DessError } from "../errors.ts"
import type { Cluster } from "./cluster.ts"
import { type ClusterEvent, decodeEvent, encodeEvent } from "./encoding.ts"
import { type Argument, LastingOutage, type Reply } from "./redis.ts"
import { runAndWait } from "./scripts.ts"

export interface LogOptions {
  /** Idempotency keys remembered, over all partitions. */
  keys: number
  /** Unlearned events at which a partition refuses more. */
  queue: number
  /** Replicas that must have an event before it is acknowledged. */
  wait: number
}

export interface LoggedEvent extends ClusterEvent {
  /** Of idempotency. */
  key?: string | undefined
}

export interface Appended {
  accepted: number
  duplicates: number
  /** By partition: the last id written. */
  last: Map<number, string>
  /** Ids of the events, in their order, where they are known: not of a call that had duplicates or was answered late. */
  ids: (string | undefined)[]
}

/** Milliseconds for which an append is tried whose answer did not come; it is the same call, so it is taken once. */
const PATIENCE = 10_000
const PAUSE = 100
const LONGEST_PAUSE = 500
/** Milliseconds a call is remembered. */
const REMEMBERED = 30_000

export class Log {
  readonly #cluster: Cluster
  readonly #options: LogOptions
  /** One call after the other in each partition: a user's events keep their order. */
  readonly #chains = new Map<number, Promise<unknown>>()
  /** By partition: the events there were ever when it answered last. */
  readonly #counts = new Map<number, number>()
  /** Acknowledged events lost with a failed master, as far as this process knows. */
  lost = 0

  constructor(cluster: Cluster, options: LogOptions) {
    this.#cluster = cluster
    this.#options = options
  }

  async append(events: readonly LoggedEvent[]): Promise<Appended> {
    /** By partition: places of its events. */
    const parts = new Map<number, number[]>()
    events.forEach(({ user }, place) => {
      const partition = this.#cluster.keys.partitionOf(user)
      const part = parts.get(partition)
      if (part) part.push(place)
      else parts.set(partition, [place])
    })
    const append = (partition: number, places: readonly number[]) =>
      this.#append(
        partition,
        places.map((place) => events[place]),
      )
    const done = await Promise.allSettled([...parts].map(([p, places]) => this.#inOrder(p, () => append(p, places))))
    const result: Appended = { accepted: 0, duplicates: 0, last: new Map(), ids: events.map(() => undefined) }
    for (const one of done) {
      if (one.status === "rejected") continue
      const { partition, taken, given, last, ids } = one.value
      const places = parts.get(partition) as number[]
      ids.forEach((id, n) => {
        result.ids[places[n]] = id
      })
      result.accepted += taken
      result.duplicates += given - taken
      result.last.set(partition, last)
    }
    const failed = done.find((one) => one.status === "rejected")
    if (failed) throw inPart(failed.reason, result.accepted, events.length)
    return result
  }

  #inOrder<T>(partition: number, action: () => Promise<T>): Promise<T> {
    const before = this.#chains.get(partition) ?? Promise.resolve()
    const run = before.then(action, action)
    this.#chains.set(
      partition,
      run.catch(() => {}),
    )
    return run
  }

  async #append(partition: number, events: readonly LoggedEvent[]) {
    const { keys } = this.#cluster
    const call = `call:${randomBytes(9).toString("base64url")}`
    const names = ["events", "keys", "keys:old", "state", call].map((what) => keys.of(partition, what))
    const { keys: remembered, queue } = this.#options
    const args: Argument[] = [String(REMEMBERED), String(Math.ceil(remembered / keys.partitions)), String(queue)]
    for (const event of events) args.push(event.key === undefined ? "" : hashKey(event.key), encodeEvent(event))
    const [taken, last, count, first] = await this.#patiently(() => this.#send(names, args))
    if (taken === -2)
      throw new DessError(
        "BUSY",
        `queue: expected less than ${queue} unlearned events in partition ${partition}, there are more; try again later`,
      )
    const accepted = taken === -1 ? events.length : (taken as number)
    this.#noteCount(partition, count as number, accepted)
    const ids = taken === events.length ? idsFrom(String(first), events.length) : []
    return { partition, taken: accepted, given: events.length, last: String(last), ids }
  }

  async #patiently(run: () => Promise<unknown>): Promise<unknown[]> {
    const until = Date.now() + PATIENCE
    for (let tries = 1; ; tries++) {
      try {
        return (await run()) as unknown[]
      } catch (error) {
        const passing = error instanceof DessError && error.code === "UNAVAILABLE" && !(error instanceof LastingOutage)
        if (!passing || Date.now() >= until) throw error
        await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_PAUSE, PAUSE * tries)))
      }
    }
  }

  async #send(keys: string[], args: Argument[]): Promise<Reply> {
    const { wait: replicas } = this.#options
    if (replicas === 0) return this.#cluster.run("append", keys, args)
    const { reply, reached } = await runAndWait(this.#cluster.redis, "append", { keys, args, replicas })
    // Too many waiting: nothing was written.
    if (reached >= replicas || (reply as Reply[])[0] === -2) return reply
    throw new LastingOutage(
      `--wait: expected ${replicas} replicas to have the events within a second, got ${reached}; send them again with the same keys`,
    )
  }

  /** The count of a stream only falls when a replica took over that had not got everything. */
  #noteCount(partition: number, count: number, taken: number): void {
    const before = this.#counts.get(partition)
    if (before !== undefined && count - taken < before) this.lost += before - (count - taken)
    this.#counts.set(partition, count)
  }
}

/** Ids of events that were written by one call. */
function idsFrom(first: string, count: number): string[] {
  const [time, from] = first.split("-").map(Number)
  return Array.from({ length: count }, (_, n) => `${time}-${from + n}`)
}

/** Each partition accepts all of its events or none; the error says how many were accepted. */
function inPart(error: unknown, taken: number, given: number): unknown {
  if (taken === 0 || !(error instanceof DessError)) return error
  const { code, message } = error
  return new DessError(
    code,
    `${message}; ${taken} of ${given} events are in the log already: send all again with the same keys`,
    { cause: error },
  )
}

function hashKey(key: string): Buffer {
  return createHash("sha1").update(key).digest().subarray(0, 12)
}

export interface LogEntry {
  id: string
  event: ClusterEvent
}

/** Events of a partition after an id, in order. */
export async function readEvents(
  cluster: Cluster,
  partition: number,
  p: { after: string; count: number },
): Promise<LogEntry[]> {
  const key = cluster.keys.of(partition, "events")
  const found = (await cluster.redis.send(key, ["XRANGE", key, `(${p.after}`, "+", "COUNT", String(p.count)])) as [
    Buffer,
    Buffer[],
  ][]
  return found.map(([id, fields]) => ({ id: String(id), event: decodeEvent(fields[1]) }))
}

/** Before all events. */
export const START = "0-0"

/** Which of two stream ids is later: below, at or above 0. */
export function compareIds(a: string, b: string): number {
  if (a === b) return 0
  const [aTime, aCount] = a.split("-").map(Number)
  const [bTime, bCount] = b.split("-").map(Number)
  return aTime - bTime || aCount - bCount
}
