/** From errors to statuses: the one place where that is decided. */

import type { FastifyError, FastifyReply } from "fastify"
import { DessError, type ErrorCode } from "../errors.ts"
import { SECURITY_HEADERS } from "./headers.ts"

const STATUS: Record<ErrorCode, number> = {
  INVALID_ARGUMENT: 400,
  INVALID_DATA: 400,
  NOT_FOUND: 404,
  UNSUPPORTED: 400,
  BUSY: 429,
  CLOSED: 503,
  LOCKED: 503,
  INTERRUPTED: 503,
  UNAVAILABLE: 503,
  STALE: 409,
  NUMERIC: 500,
}

/** Seconds after which it makes sense to ask again. */
const RETRY: Record<number, number> = { 409: 1, 429: 1, 503: 2 }

/** An answer other than 200 that is not about the caller's data. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.name = "Refusal"
    this.status = status
    this.code = code
  }
}

/** Events of a stream were refused after others had been accepted. */
export class PartlyAccepted extends Error {
  readonly accepted: number
  readonly duplicates: number
  constructor(cause: unknown, counts: { accepted: number; duplicates: number }) {
    super(cause instanceof Error ? cause.message : String(cause), { cause })
    this.accepted = counts.accepted
    this.duplicates = counts.duplicates
  }
}

interface Answer {
  status: number
  error: string
  message: string
  more?: object
}

export function describeError(error: unknown): Answer {
  if (error instanceof PartlyAccepted) {
    const { accepted, duplicates } = error
    return { ...describeError(error.cause), more: { accepted, duplicates } }
  }
  if (error instanceof DessError) return { status: STATUS[error.code], error: error.code, message: error.message }
  if (error instanceof Refusal) return { status: error.status, error: error.code, message: error.message }
  const { statusCode = 500, message = "" } = error as Partial<FastifyError>
  const status = statusCode >= 400 && statusCode < 500 ? statusCode : 500
  // What went wrong inside is for the log, not for the caller.
  return status === 500
    ? { status, error: "INTERNAL", message: "service: something went wrong; its log says what" }
    : { status, error: "BAD_REQUEST", message: `request: ${message}` }
}

export function sendProblem(reply: FastifyReply, error: unknown): FastifyReply {
  const { status, error: code, message, more } = describeError(error)
  reply.headers(SECURITY_HEADERS)
  // The rest of a refused stream is not wanted.
  if (error instanceof PartlyAccepted) reply.header("connection", "close")
  if (RETRY[status]) reply.header("retry-after", RETRY[status])
  if (status === 401) reply.header("www-authenticate", 'Bearer realm="dess"')
  return reply
    .code(status)
    .type("application/json; charset=utf-8")
    .send({ error: code, message, ...more })
}
