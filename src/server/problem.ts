/** Maps errors to HTTP statuses; the only place that does. */

import type { FastifyError, FastifyReply } from "fastify"
import { DessError, type ErrorCode } from "../errors.ts"
import { SECURITY_HEADERS } from "./headers.ts"
import { hasUnreadBody } from "./request-body.ts"

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
  /** Whether to log the error: it says more than the response. */
  log?: boolean
}

const NO_ROOM = "disk: expected room, got %; writing is refused until there is some"
const NO_RIGHT = "disk: expected to be allowed to write, got %; writing is refused until it is allowed"
const NO_FILES = "open files: expected room for one more, got %; try again later"

const TOO_LARGE = "body: expected at most as much as --body-limit says (8 MB by default), got more; send less at once"

/** Error codes of the operating system for the service's own files. */
const DISK_TROUBLE: Record<string, string> = {
  ENOSPC: NO_ROOM,
  EDQUOT: NO_ROOM,
  EROFS: NO_RIGHT,
  EACCES: NO_RIGHT,
  EPERM: NO_RIGHT,
  EIO: "disk: expected it to read and write, got %; it may be failing",
  EMFILE: NO_FILES,
  ENFILE: NO_FILES,
}

/** An error of the service's own files as a caller may see it: the kind, no path. */
function diskTrouble(error: unknown): Answer | undefined {
  for (let at = error, depth = 0; at instanceof Error && depth < 8; at = at.cause, depth++) {
    const { code } = at as NodeJS.ErrnoException
    if (typeof code === "string" && Object.hasOwn(DISK_TROUBLE, code))
      return { status: 503, error: "UNAVAILABLE", message: DISK_TROUBLE[code].replace("%", code), log: true }
  }
  return undefined
}

/** A text about the service itself without the paths of its files. */
export function withoutPaths(text: string): string {
  return text.replace(/(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\][\w.@+~-]+(?:[/\\][^\s"'`()]*)?/g, "…")
}

export function describeError(error: unknown): Answer {
  if (error instanceof PartlyAccepted) {
    const { accepted, duplicates } = error
    return { ...describeError(error.cause), more: { accepted, duplicates } }
  }
  // The engine's own errors have codes.
  if (error instanceof DessError && STATUS[error.code] >= 500) return describeOwn(error)
  const disk = diskTrouble(error)
  if (disk) return disk
  if (error instanceof DessError) return describeOwn(error)
  if (error instanceof Refusal) return { status: error.status, error: error.code, message: error.message }
  const { statusCode = 500, message = "" } = error as Partial<FastifyError>
  const status = statusCode >= 400 && statusCode < 500 ? statusCode : 500
  if (status === 413) return { status, error: "BAD_REQUEST", message: TOO_LARGE }
  // Internal errors are for the log, not for the caller.
  return status === 500
    ? { status, error: "INTERNAL", message: "service: something went wrong; its log says what", log: true }
    : { status, error: "BAD_REQUEST", message: `request: ${message}` }
}

/** Errors of the caller are shown as they are, those of the service without paths. */
function describeOwn({ code, message }: DessError): Answer {
  const status = STATUS[code]
  const shown = status < 500 ? message : withoutPaths(message)
  return { status, error: code, message: shown, log: status === 500 || shown !== message }
}

export function sendProblem(reply: FastifyReply, error: unknown): FastifyReply {
  const { status, error: code, message, more } = describeError(error)
  reply.headers(SECURITY_HEADERS)
  // The rest of a refused body is not wanted.
  if (error instanceof PartlyAccepted || hasUnreadBody(reply.request.raw)) reply.header("connection", "close")
  if (RETRY[status]) reply.header("retry-after", RETRY[status])
  if (status === 401) reply.header("www-authenticate", 'Bearer realm="dess"')
  return reply
    .code(status)
    .type("application/json; charset=utf-8")
    .send({ error: code, message, ...more })
}
