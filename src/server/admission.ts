/** Who may pass, how many and how much at a time; and how long it took. */

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Guard } from "./keys.ts"
import type { Metrics } from "./metrics.ts"
import { Refusal } from "./problem.ts"
import type { Route } from "./route.ts"

export const LINE_TYPES = ["application/x-ndjson", "application/ndjson", "application/jsonl"]

/** How many bodies of the largest size may be held at a time. */
const MOST_BODIES = 16
/** What a stream holds of its body. */
const STREAM_BYTES = 65_536

export interface AdmissionOptions {
  guard: Guard
  metrics: Metrics
  /** The most requests under way at a time. */
  requests: number
  /** The most a body may have. */
  bodyBytes: number
}

export type Admission = (route: Route, request: FastifyRequest, reply: FastifyReply) => void

export function createAdmission({ guard, metrics, requests, bodyBytes }: AdmissionOptions): Admission {
  let held = 0
  return (route, request, reply) => {
    const { method, path, long = false, access } = route
    const started = performance.now()
    const bytes = Math.min(bodyBytes, heldBytes(request, bodyBytes))
    if (!long) metrics.active++
    held += bytes
    // "close" comes in every case, also when the caller goes away.
    reply.raw.once("close", () => {
      if (!long) metrics.active--
      held -= bytes
      const seconds = (performance.now() - started) / 1000
      metrics.record({ method, route: path, status: reply.raw.statusCode, seconds, long })
    })
    guard(request.headers, access)
    if (long || access === "open") return
    if (metrics.active > requests)
      throw new Refusal(503, "BUSY", `requests: expected at most ${requests} under way, got one more; try again later`)
    if (bytes > 0 && held > MOST_BODIES * bodyBytes)
      throw new Refusal(
        503,
        "BUSY",
        `bodies: expected at most ${MOST_BODIES * bodyBytes} bytes under way, got more; try again later`,
      )
  }
}

/** What a request says its body has; the most where it does not say. */
function heldBytes(request: FastifyRequest, bodyBytes: number): number {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers
  if (LINE_TYPES.includes(mediaType(request))) return STREAM_BYTES
  if (length === undefined) return encoding === undefined ? 0 : bodyBytes
  return Number(length) || 0
}

/** The type of the body without its parameters. */
export function mediaType(request: FastifyRequest): string {
  return request.headers["content-type"]?.split(";")[0].trim().toLowerCase() ?? ""
}
