/** Connections that behave as no honest client does. */

import { connect, type Socket } from "node:net"
import type { TestService } from "./service.ts"

export const HOST = "host: localhost\r\n"
export const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\n${HOST}${more}\r\n`
export const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds))

export interface RawConnection {
  socket: Socket
  /** What has come so far. */
  text(): string
  /** Resolves when the other side has closed it, or it failed. */
  closed: Promise<void>
}

/** Connects and sends a text. */
export async function send(
  { url }: Pick<TestService, "url">,
  text: string,
  { read = true } = {},
): Promise<RawConnection> {
  const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1", allowHalfOpen: true })
  let came = ""
  // A reset is one way to be refused.
  socket.on("error", () => {})
  if (read) {
    socket.on("data", (bytes) => {
      came += bytes
    })
    socket.on("end", () => socket.end())
  }
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()))
  await new Promise<void>((resolve) => {
    socket.once("connect", resolve)
    socket.once("close", () => resolve())
  })
  if (text !== "") await new Promise<void>((resolve) => socket.write(text, () => resolve()))
  return { socket, text: () => came, closed }
}

/** Whether it comes true within this many milliseconds. */
export async function within(milliseconds: number, closed: Promise<void>): Promise<boolean> {
  return Promise.race([closed.then(() => true), pause(milliseconds).then(() => false)])
}
