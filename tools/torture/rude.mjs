/** Clients of a service that pipeline, stop halfway, hang up and talk nonsense. */

import { connect } from "node:net"
import { event, numberOf, wait } from "./cases.mjs"

/** This many at a time. */
const CLIENTS = 3

const get = (path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const post = (path, body) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

const READS = ["/v1/status", "/metrics", "/health/live", "/v1/users/user%201/recommendations", "/nowhere"]

/** Begins; the function that is returned ends it and gives the numbers of the events that were sent. */
export function beRude(url, random, from) {
  const { hostname, port } = new URL(url)
  const sent = []
  let next = from
  let isOver = false
  const requests = () =>
    Array.from({ length: 2 + random.integer(20) }, () => {
      if (random.next() < 0.7) return get(READS[random.integer(READS.length)])
      const events = Array.from({ length: 1 + random.integer(5) }, () => event(next++, "user 1", "item 1"))
      sent.push(...events.map(numberOf))
      return post("/v1/interactions", JSON.stringify(events))
    })
  const acts = [
    (socket) => socket.write(requests().join("")),
    (socket) => {
      const text = requests().join("")
      socket.write(text.slice(0, 1 + random.integer(text.length - 1)))
    },
    async (socket) => {
      for (const letter of requests()[0].slice(0, 60)) {
        socket.write(letter)
        await wait(2)
      }
    },
    (socket) => socket.write(Buffer.from(Array.from({ length: 200 }, () => random.integer(256)))),
    (socket) =>
      socket.write("POST /v1/interactions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n["),
  ]
  const client = async () => {
    while (!isOver) {
      const socket = connect(Number(port), hostname)
      // What becomes of it is the service's business.
      socket.on("error", () => {})
      socket.on("data", () => {})
      await acts[random.integer(acts.length)](socket)
      await wait(random.integer(250))
      if (random.next() < 0.5) socket.destroy()
      else socket.resetAndDestroy()
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  return async () => {
    isOver = true
    await Promise.all(clients)
    return sent
  }
}
