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

/** Arrays and objects within each other; what is deeper would be walked by code that calls itself. */
export const DEEPEST = 64

/** Whether a JSON text has more arrays and objects within each other than it may. */
export function isTooDeep(text: string): boolean {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) i = endOfString(text, i)
    else if (code === 0x5b || code === 0x7b) {
      if (++depth > DEEPEST) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}

/** Where the string that begins at a quote ends; the end of the text where it does not. */
function endOfString(text: string, from: number): number {
  for (let end = text.indexOf('"', from + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === 0x5c) escapes++
    if (escapes % 2 === 0) return end
  }
  return text.length
}

/** Why a JSON body was refused by the parser, which does not say. */
export function describeRefusedJson(text: string): string {
  if (text.length === 0) return "body: expected JSON, got nothing"
  try {
    JSON.parse(text)
    return "body: expected no key __proto__, and no constructor with a prototype, got one"
  } catch (error) {
    return `body: expected JSON, got what is none: ${(error as Error).message.slice(0, 200)}`
  }
}
