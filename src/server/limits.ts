/** What one connection, and all of them together, may cost. */

export interface ConnectionLimits {
  /** Open connections. One more takes the place of the one that has been idle longest. */
  connections: number
  /** Requests of one connection without an answer; a connection with more is closed. */
  pipelined: number
  /** From the first byte of a request, or from connecting, to the end of the headers. */
  headersMilliseconds: number
  /** From the headers to the end of a body that is not a stream of lines. */
  bodyMilliseconds: number
  /** A body that is not a stream of lines must bring at least `leastBytes` in this time. */
  stallMilliseconds: number
  /** A stream of lines must bring at least `leastBytes` in this time. */
  streamMilliseconds: number
  leastBytes: number
  /** How long a caller may read nothing of its answer. */
  readerMilliseconds: number
  /** Idle time between two requests. */
  idleMilliseconds: number
  /** From a refusal to closing the connection, when the body was not read. */
  lingerMilliseconds: number
  /** Unread answers, over all connections. */
  unsentBytes: number
  /** Time between two checks of these limits. */
  checkMilliseconds: number
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  connections: 2000,
  pipelined: 32,
  headersMilliseconds: 10_000,
  bodyMilliseconds: 30_000,
  stallMilliseconds: 10_000,
  streamMilliseconds: 30_000,
  leastBytes: 64,
  readerMilliseconds: 30_000,
  idleMilliseconds: 72_000,
  lingerMilliseconds: 500,
  unsentBytes: 256 * 1024 * 1024,
  checkMilliseconds: 1000,
}
