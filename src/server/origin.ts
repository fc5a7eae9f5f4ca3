/** Refuses requests that a browser may have been tricked into sending. */

import type { IncomingHttpHeaders, IncomingMessage } from "node:http"
import { show } from "../errors.ts"
import { Refusal } from "./problem.ts"

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i

/** Whether only this machine reaches the address. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host)
}

/** A name, an IPv4 address or an IPv6 one in brackets; perhaps a port. */
const HOST = /^([\w.~%-]+|\[[\da-f:.]+\])(:\d{0,5})?$/i

/** Refuses a request without exactly one valid host: two parsers could read it differently. */
export function checkHost({ rawHeaders, headers: { host }, httpVersion }: IncomingMessage): void {
  let hosts = 0
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at].length === 4 && rawHeaders[at].toLowerCase() === "host") hosts++
  if (hosts > 1) throw new Refusal(400, "BAD_REQUEST", `host: expected one header, got ${hosts}`)
  // HTTP/1.0 knows requests without.
  if (hosts === 0 && httpVersion === "1.0") return
  if (host === undefined || !HOST.test(host))
    throw new Refusal(400, "BAD_REQUEST", `host: expected a name and perhaps a port, got ${show(host ?? "none")}`)
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
