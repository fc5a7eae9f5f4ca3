/** Server-sent events: one message per learned segment, for as many listeners as are allowed. */

import { once } from "node:events"
import type { FastifyReply } from "fastify"
import type { LiveReport, ServedRecommender } from "../engine/types.ts"
import { SECURITY_HEADERS } from "./headers.ts"
import { Refusal, withoutPaths } from "./problem.ts"

const MOST_LISTENERS = 64
/** Heartbeat, so that proxies keep the connection open. */
const HEARTBEAT = 15_000

/** A report without the paths of the service's files. */
export function publicReport<R extends Pick<LiveReport, "failed">>(report: R): R {
  return report.failed === undefined ? report : { ...report, failed: withoutPaths(report.failed) }
}

export class LiveEvents {
  readonly #stopping: AbortSignal
  readonly #latency: () => object | null
  #listeners = 0

  /** Every message also says how long requests took lately. */
  constructor(stopping: AbortSignal, latency: () => object | null) {
    this.#stopping = stopping
    this.#latency = latency
  }

  get listeners(): number {
    return this.#listeners
  }

  /** Sends the `last` reports, then those that come, until the listener goes away or the service stops. */
  async send(reply: FastifyReply, recommender: ServedRecommender, last = 0): Promise<void> {
    if (this.#listeners >= MOST_LISTENERS)
      throw new Refusal(503, "BUSY", `listeners: expected at most ${MOST_LISTENERS}, got one more`)
    this.#listeners++
    const gone = new AbortController()
    const { signal } = gone
    const leave = () => gone.abort()
    const { raw } = reply.hijack()
    raw.once("close", leave)
    // Already closed: no event will follow.
    if (raw.destroyed) leave()
    this.#stopping.addEventListener("abort", leave)
    // Not on top of what a listener has not read yet.
    const beat = setInterval(() => raw.writableNeedDrain || raw.write(": here\n\n"), HEARTBEAT)
    try {
      raw.writeHead(200, {
        ...SECURITY_HEADERS,
        "content-type": "text/event-stream",
        "x-accel-buffering": "no",
        connection: "close",
      })
      // Sent at once, so that a listener knows it is connected.
      raw.write("retry: 2000\n\n")
      for await (const report of recommender.reports(signal, { last })) {
        const data = JSON.stringify({ ...publicReport(report), latency: this.#latency() })
        const message = `event: segment\nid: ${report.segment}\ndata: ${data}\n\n`
        if (!raw.write(message)) await once(raw, "drain", { signal })
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      clearInterval(beat)
      this.#stopping.removeEventListener("abort", leave)
      this.#listeners--
      raw.end()
    }
  }
}
