/** What is refused because a browser was tricked into sending it. */

import type { IncomingHttpHeaders } from "node:http"
import { Refusal } from "./problem.ts"

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i

/** Whether only this machine reaches the address. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

/**
 * Refuses requests of other sites' pages. Without keys, also those that call this machine by another name: a page can
 * point its own name here and would then count as the same site.
 */
export function checkOrigin(headers: IncomingHttpHeaders, keyed: boolean): void {
  const { host = "", origin } = headers
  if (!keyed && !isLoopback(host.replace(/:\d+$/, "")))
    throw new Refusal(403, "FORBIDDEN", "host: expected localhost, got another name; set API keys to be called by one")
  if (origin === undefined) return
  let from = ""
  try {
    from = new URL(origin).host
  } catch {
    // "null", or not an origin at all: refused below.
  }
  if (from !== host.toLowerCase())
    throw new Refusal(403, "FORBIDDEN", "origin: expected this service's own, got another")
}
