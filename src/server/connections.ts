/**
 * The connections of the service. Each has one request under way: those sent ahead wait in order, and a connection that
 * sends too many is closed. So no answer is computed for a caller that has not read the one before.
 */

import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { ConnectionLimits } from "./limits.ts"
import { answerAndClose, answerExpectation, closeWithin, refuse } from "./raw-answers.ts"
import { hasUnreadBody, LINE_TYPES, mediaType } from "./request-body.ts"

/** Called by the parser of Node's server with the head of a request; returns how its body is read. */
type Incoming = (request: IncomingMessage, keepsAlive: boolean) => unknown
/** As after an upgrade: what follows is not HTTP. */
const STOP = 2

interface Exchange {
  request: IncomingMessage
  response: ServerResponse
  handle: RequestListener
  /** When it was passed to the handler, on the clock of `performance`. */
  began: number
}

interface Connection {
  readonly socket: Socket
  readonly waiting: Exchange[]
  current: Exchange | undefined
  used: boolean
  /** Whether one of its requests had the key it needs. */
  trusted: boolean
  /** When it last made progress: connected, sent a request, or read part of an answer. */
  moved: number
  /** Bytes received when the present stretch of a body began, and when that was. */
  received: number
  receivedAt: number
  /** Unread bytes of an answer at the last check. */
  unsent: number
}

export class Connections {
  readonly #limits: ConnectionLimits
  readonly #open = new Map<Socket, Connection>()
  #servers = 0
  #timer: NodeJS.Timeout | undefined
  #stopping = false

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  get size(): number {
    return this.#open.size
  }

  /** A server that passes requests to the handler one at a time per connection. */
  serve(handler: RequestListener): Server {
    const { headersMilliseconds, idleMilliseconds, checkMilliseconds } = this.#limits
    const server = createServer({
      headersTimeout: headersMilliseconds,
      connectionsCheckingInterval: checkMilliseconds,
      keepAliveTimeout: idleMilliseconds,
      // Bodies have their own limits below: a stream of lines may last.
      requestTimeout: 0,
      // Refused below with the service's own error, like other invalid hosts.
      requireHostHeader: false,
    })
    server.on("connection", (socket) => this.#add(socket))
    server.on("request", (request, response) => this.#take({ request, response, handle: handler, began: 0 }))
    server.on("checkExpectation", (request, response) =>
      this.#take({ request, response, handle: answerExpectation, began: 0 }),
    )
    server.on("connect", (_request, socket) =>
      answerAndClose(socket, 405, "method: expected one that /openapi.json describes, got CONNECT"),
    )
    server.on("close", () => {
      if (--this.#servers === 0) clearInterval(this.#timer)
    })
    this.#servers++
    this.#timer ??= setInterval(() => this.#check(performance.now()), checkMilliseconds).unref()
    return server
  }

  /** Remembers that a request on a connection had its key. */
  trust(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection) connection.trusted = true
  }

  /** From now on closes connections without a request: browsers open them in advance. */
  stop(): void {
    this.#stopping = true
    for (const connection of this.#open.values()) if (!connection.used) this.#drop(connection)
  }

  #add(socket: Socket): void {
    const now = performance.now()
    const connection: Connection = {
      ...{ socket, waiting: [], current: undefined, used: false, trusted: false },
      ...{ moved: now, received: 0, receivedAt: now, unsent: 0 },
    }
    if (this.#stopping || (this.#open.size >= this.#limits.connections && !this.#makeRoom())) {
      socket.destroy()
      return
    }
    this.#open.set(socket, connection)
    stopParsing(socket, () => !this.#open.has(socket))
    socket.once("close", () => this.#open.delete(socket))
    // Node calls this after an answer that closes the connection. A reset would lose the answer for a caller that still sends.
    const closeSoon = socket.destroySoon.bind(socket)
    socket.destroySoon = () => {
      const { current } = connection
      if (!current || !hasUnreadBody(current.request)) return closeSoon()
      connection.waiting.length = 0
      current.request.resume()
      socket.end()
      closeWithin(socket, this.#limits.lingerMilliseconds)
    }
  }

  /** Closes the connection that has been idle longest: one without a key, else one without a request. */
  #makeRoom(): boolean {
    let found: Connection | undefined
    for (const connection of this.#open.values()) {
      if (connection.trusted && connection.current) continue
      const earlier = !found || (connection.trusted === found.trusted ? connection.moved < found.moved : found.trusted)
      if (earlier) found = connection
    }
    if (found) this.#drop(found)
    return found !== undefined
  }

  #take(exchange: Exchange): void {
    const { socket } = exchange.request
    const connection = this.#open.get(socket)
    // Read together with the request for which the connection was closed.
    if (!connection || socket.destroyed || !socket.writable) return
    connection.used = true
    connection.waiting.push(exchange)
    if (!connection.current) this.#next(connection)
    else if (connection.waiting.length >= this.#limits.pipelined) this.#drop(connection)
    else socket.pause()
  }

  #next(connection: Connection): void {
    const { socket, waiting } = connection
    const exchange = waiting.shift()
    const now = performance.now()
    connection.moved = now
    connection.current = exchange
    if (waiting.length === 0 && socket.isPaused()) socket.resume()
    if (!exchange) return
    const { request, response, handle } = exchange
    exchange.began = now
    connection.received = socket.bytesRead
    connection.receivedAt = now
    connection.unsent = 0
    // Emitted for every answer that was assigned to the socket, also when the socket closes.
    response.once("close", () => {
      if (connection.current !== exchange || socket.destroyed || socket.writableEnded) return
      if (hasUnreadBody(request)) socket.destroySoon()
      else this.#next(connection)
    })
    handle(request, response)
  }

  #drop(connection: Connection): void {
    const { socket, waiting } = connection
    waiting.length = 0
    // At once, so that another connection can have the place; "close" is emitted later.
    this.#open.delete(socket)
    socket.destroy()
  }

  #check(now: number): void {
    let unsent = 0
    const slow: Connection[] = []
    for (const connection of this.#open.values()) {
      if (!connection.current) continue
      if (connection.current.response.headersSent) this.#checkReader(connection, now)
      else this.#checkBody(connection, connection.current, now)
      if (connection.unsent === 0) continue
      unsent += connection.unsent
      slow.push(connection)
    }
    if (unsent <= this.#limits.unsentBytes) return
    slow.sort((a, b) => a.moved - b.moved)
    for (const connection of slow) {
      if (unsent <= this.#limits.unsentBytes) return
      unsent -= connection.unsent
      this.#drop(connection)
    }
  }

  #checkReader(connection: Connection, now: number): void {
    const unsent = unsentBytes(connection.socket)
    if (unsent < connection.unsent || connection.unsent === 0) connection.moved = now
    connection.unsent = unsent
    if (unsent > 0 && now - connection.moved > this.#limits.readerMilliseconds) this.#drop(connection)
  }

  #checkBody(connection: Connection, { request, began }: Exchange, now: number): void {
    const { bodyMilliseconds, stallMilliseconds, leastBytes } = this.#limits
    // A stream of lines is watched by its reader, which knows whether the caller or the service is slow.
    if (!hasUnreadBody(request) || LINE_TYPES.includes(mediaType(request.headers))) return
    const { bytesRead } = connection.socket
    let late = now - began > bodyMilliseconds
    if (now - connection.receivedAt > stallMilliseconds) {
      late ||= bytesRead - connection.received < leastBytes
      connection.received = bytesRead
      connection.receivedAt = now
    }
    if (late) refuse(connection.socket, "ERR_HTTP_REQUEST_TIMEOUT")
  }
}

/** Requests of what was read at once are parsed at once: those of a connection that was dropped meanwhile are passed over. */
function stopParsing(socket: Socket, isDropped: () => boolean): void {
  const { parser } = socket as Socket & { parser?: { onIncoming?: Incoming } | null }
  const take = parser?.onIncoming
  if (!parser || typeof take !== "function") return
  parser.onIncoming = (request, keepsAlive) => {
    const answer = isDropped() ? STOP : take(request, keepsAlive)
    return isDropped() ? STOP : answer
  }
}

/** Bytes the socket has not sent. The handle counts parts of a large write, too. */
function unsentBytes(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { _handle?: { writeQueueSize?: number } | null }
  return socket.writableLength + (handle?.writeQueueSize ?? 0)
}
