/** Server-sent events by fetch, which can carry a key; connects again for as long as it is asked to. */

import { request } from "./api.ts"

export type Connection = "connecting" | "connected" | "lost"

const SHORTEST_WAIT = 500
const LONGEST_WAIT = 8000

export interface Listener<T> {
  hear(message: T): void
  /** Told whenever the connection changes. */
  connection(state: Connection): void
}

/** Listens until the tab is closed. */
export async function listen<T>(path: string, listener: Listener<T>): Promise<never> {
  let wait = SHORTEST_WAIT
  for (;;) {
    try {
      const response = await request(path, { headers: { accept: "text/event-stream" } })
      listener.connection("connected")
      wait = SHORTEST_WAIT
      if (response.body) for await (const data of readEvents(response.body)) listener.hear(JSON.parse(data) as T)
    } catch {}
    listener.connection("lost")
    await new Promise((resolve) => setTimeout(resolve, wait))
    wait = Math.min(LONGEST_WAIT, 2 * wait)
  }
}

/** The data of one event after the other; comments and names are left out. */
async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader() as ReadableStreamDefaultReader<string>
  let text = ""
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    text += value.replaceAll("\r", "")
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n")
      text = text.slice(end + 2)
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart())
      if (data.length > 0) yield data.join("\n")
    }
  }
}
