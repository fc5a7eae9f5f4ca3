/** Errors for input that never becomes a request of Fastify, in the form of all other errors. */

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { SECURITY_HEADERS } from "./headers.ts"

const PARSER_STATUS: Record<string, { status: number; message: string }> = {
  HPE_HEADER_OVERFLOW: { status: 431, message: "headers: expected at most 16 KB, got more" },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, message: "chunk extensions: expected at most 16 KB, got more" },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    message: "request: expected it to come to an end, got too little for too long",
  },
}
const UNREADABLE = { status: 400, message: "request: expected HTTP/1.1, got what cannot be read" }
/** Milliseconds in which a caller has to close after the last answer. */
const FAREWELL = 1000

/** Input that is not HTTP, or did not arrive. */
export function refuseUnreadable({ code = "" }: NodeJS.ErrnoException, socket: Socket): void {
  if (code === "ECONNRESET") socket.destroy()
  else refuse(socket, code)
}

/** Refuses the current request of a connection, and closes it. */
export function refuse(socket: Socket, code: string): void {
  const { _httpMessage: answering } = socket as Socket & { _httpMessage?: ServerResponse | null }
  // The caller is gone, or would take the error for the answer to an earlier request.
  if (!socket.writable || answering?.headersSent || answering?.req.complete) {
    socket.destroy()
    return
  }
  const { status, message } = PARSER_STATUS[code] ?? UNREADABLE
  // Counted in the metrics.
  if (answering) answering.statusCode = status
  answerAndClose(socket, status, message)
}

export function answerExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const body = problem("expect: expected 100-continue, got another")
  response
    .writeHead(417, { ...SECURITY_HEADERS, "content-type": "application/json; charset=utf-8", connection: "close" })
    .end(body)
}

export function answerAndClose(socket: Duplex, status: number, message: string): void {
  const body = problem(message)
  const headers = {
    ...SECURITY_HEADERS,
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    connection: "close",
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("\r\n")}\r\n\r\n${body}`)
  closeWithin(socket, FAREWELL)
}

/** Closes a socket that has been ended, whether or not the other side does. */
export function closeWithin(socket: Duplex, milliseconds: number): void {
  const timer = setTimeout(() => socket.destroy(), milliseconds).unref()
  socket.once("close", () => clearTimeout(timer))
}

function problem(message: string): string {
  return JSON.stringify({ error: "BAD_REQUEST", message })
}
