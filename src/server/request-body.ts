/** What a request's headers say of its body. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http"

export const LINE_TYPES = ["application/x-ndjson", "application/ndjson", "application/jsonl"]

/** The type of the body without its parameters. */
export function mediaType(headers: IncomingHttpHeaders): string {
  return headers["content-type"]?.split(";")[0].trim().toLowerCase() ?? ""
}

/** Bytes a request says its body has; undefined where it does not say. */
export function bodyLength(headers: IncomingHttpHeaders): number | undefined {
  const { "content-length": length, "transfer-encoding": encoding } = headers
  if (length === undefined) return encoding === undefined ? 0 : undefined
  return Number(length) || 0
}

/** Whether some of a body has not come yet. */
export function hasUnreadBody(request: IncomingMessage): boolean {
  return !request.complete && bodyLength(request.headers) !== 0
}
