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
  /** In so long a body that is not a stream of lines has to bring `leastBytes`. */
  stallMilliseconds: number
  /** In so long a stream of lines has to bring `leastBytes`. */
  streamMilliseconds: number
  leastBytes: number
  /** For a caller that reads nothing of an answer. */
  readerMilliseconds: number
  /** Between two requests. */
  idleMilliseconds: number
  /** From a refusal to the end of the connection, when the body was not read. */
  lingerMilliseconds: number
  /** Unread answers, over all connections. */
  unsentBytes: number
  /** Time between two checks of all this. */
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
