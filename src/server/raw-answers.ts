/** Answers to what never becomes a request of Fastify's: they look like every other refusal. */

import { type IncomingMessage, type Server, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { SECURITY_HEADERS } from "./headers.ts"

const PARSER_STATUS: Record<string, { status: number; message: string }> = {
  HPE_HEADER_OVERFLOW: { status: 431, message: "headers: expected at most 16 KB, got more" },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    message: "request: expected it to come to an end, got nothing for too long",
  },
}
const UNREADABLE = { status: 400, message: "request: expected HTTP/1.1, got what cannot be read" }

/** What could not be read as HTTP. */
export function refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
  // Nobody is there any more, or an answer is on its way already (Node's own handler asks the same).
  const { _httpMessage: answering } = socket as Socket & { _httpMessage?: { headersSent: boolean } | null }
  if (error.code === "ECONNRESET" || !socket.writable || answering?.headersSent) {
    socket.destroy()
    return
  }
  const { status, message } = PARSER_STATUS[error.code ?? ""] ?? UNREADABLE
  answer(socket, status, message)
}

/** Methods and expectations that Node keeps to itself. */
export function refuseOddities(server: Server): void {
  server.on("connect", (_request: IncomingMessage, socket: Duplex) =>
    answer(socket, 405, "method: expected one that /openapi.json describes, got CONNECT"),
  )
  server.on("checkExpectation", (_request, response) => {
    const body = problem("expect: expected 100-continue, got another")
    response.writeHead(417, { ...SECURITY_HEADERS, "content-type": "application/json; charset=utf-8" }).end(body)
  })
}

function answer(socket: Duplex, status: number, message: string): void {
  const body = problem(message)
  const headers = {
    ...SECURITY_HEADERS,
    "content-type": "application/json; charset=utf-8",
    "content-length": Buffer.byteLength(body),
    connection: "close",
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("\r\n")}\r\n\r\n${body}`)
}

function problem(message: string): string {
  return JSON.stringify({ error: "BAD_REQUEST", message })
}
