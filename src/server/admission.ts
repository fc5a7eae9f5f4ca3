/** Admission control: keys, concurrent requests, memory of bodies, and latency. */

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Guard } from "./api-keys.ts"
import type { Metrics } from "./metrics.ts"
import { Refusal } from "./problem.ts"
import { bodyLength, LINE_TYPES, mediaType } from "./request-body.ts"
import type { Route } from "./route.ts"

/** How many bodies of the largest size may be held at a time. */
const MOST_BODIES = 16
/** What a stream holds of its body. */
const STREAM_BYTES = 65_536

export interface AdmissionOptions {
  guard: Guard
  metrics: Metrics
  /** Maximum number of requests under way. */
  requests: number
  /** Maximum bytes of a body. */
  bodyBytes: number
  /** Called for a request with a valid key. */
  onTrusted(request: FastifyRequest): void
}

/** Releases the memory that is counted for one request. */
interface Ticket {
  working: boolean
  slow: boolean
  release(): void
}

/**
 * A request is under way while its handler works, whether or not its caller is still there: one whose body is yet to
 * come costs nothing but the bytes of it. Those count from its admission until the handler has settled, or, where it
 * never gets there, until the request is refused or its socket closes.
 */
export class Admission {
  readonly #options: AdmissionOptions
  readonly #tickets = new WeakMap<FastifyRequest, Ticket>()
  /** Slow requests among those under way. */
  #slow = 0

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** Refuses, or counts the request. */
  admit(route: Route, request: FastifyRequest, reply: FastifyReply): void {
    const { method, path, long = false, access } = route
    const { guard, metrics, bodyBytes } = this.#options
    const started = performance.now()
    reply.raw.once("close", () => {
      const seconds = (performance.now() - started) / 1000
      metrics.record({ method, route: path, status: answeredStatus(reply.raw), seconds, long })
    })
    guard(request.headers, access)
    if (access !== "open") this.#options.onTrusted(request)
    if (long) return
    const bytes = heldBytes(request, bodyBytes)
    const slow = route.slow || (route.lines === true && LINE_TYPES.includes(mediaType(request.headers)))
    this.#checkRoom(route, slow)
    if (bytes > 0 && metrics.heldBytes + bytes > MOST_BODIES * bodyBytes)
      throw new Refusal(
        503,
        "BUSY",
        `bodies: expected at most ${MOST_BODIES * bodyBytes} bytes under way, got more; try again later`,
      )
    this.#hold(request, bytes, slow)
  }

  #checkRoom({ access }: Route, slow: boolean): void {
    const { metrics, requests } = this.#options
    if (access !== "open" && metrics.active >= requests)
      throw new Refusal(503, "BUSY", `requests: expected at most ${requests} under way, got one more; try again later`)
    const most = Math.ceil(requests / 2)
    if (slow && this.#slow >= most)
      throw new Refusal(
        503,
        "BUSY",
        `requests of this kind: expected at most ${most} under way, got one more; try again later`,
      )
  }

  #hold(request: FastifyRequest, bytes: number, slow: boolean): void {
    const { metrics } = this.#options
    const { socket } = request.raw
    let held = true
    metrics.heldBytes += bytes
    const release = () => {
      if (!held) return
      held = false
      metrics.heldBytes -= bytes
      socket.off("close", abandon)
    }
    const ticket: Ticket = { working: false, slow, release }
    const abandon = () => {
      if (!ticket.working) release()
    }
    this.#tickets.set(request, ticket)
    // On the socket, not on the answer: it is always emitted.
    if (socket.destroyed) release()
    else socket.once("close", abandon)
  }

  /** Runs a request's handler. */
  async work<T>(route: Route, request: FastifyRequest, handle: () => T | Promise<T>): Promise<T> {
    const ticket = this.#tickets.get(request)
    if (!ticket) return handle()
    const { metrics } = this.#options
    // Others may have begun while its body arrived.
    this.#checkRoom(route, ticket.slow)
    ticket.working = true
    metrics.active++
    if (ticket.slow) this.#slow++
    try {
      return await handle()
    } finally {
      metrics.active--
      if (ticket.slow) this.#slow--
      ticket.release()
    }
  }

  /** Call it when a request was refused after its admission: its handler will not run. */
  refused(request: FastifyRequest): void {
    const ticket = this.#tickets.get(request)
    if (ticket && !ticket.working) ticket.release()
  }
}

/** The status sent; 499, as proxies do, if the connection closed before. */
export function answeredStatus({ headersSent, statusCode }: FastifyReply["raw"]): number {
  return headersSent || statusCode !== 200 ? statusCode : 499
}

/** The declared length of a body that is read; the maximum if none is declared. */
function heldBytes({ method, headers }: FastifyRequest, bodyBytes: number): number {
  if (method === "GET" || method === "HEAD") return 0
  if (LINE_TYPES.includes(mediaType(headers))) return STREAM_BYTES
  return Math.min(bodyBytes, bodyLength(headers) ?? bodyBytes)
}
