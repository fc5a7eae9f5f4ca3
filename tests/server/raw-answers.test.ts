/** What is not a request of the API is refused in its own words, too. */

import { connect } from "node:net"
import { afterAll, beforeAll, expect, test } from "vitest"
import { openService, type TestService } from "../support/service.ts"

let service: TestService
beforeAll(async () => {
  service = await openService()
})
afterAll(() => service.stop())

/** Sends bytes; what comes until the other side closes. */
function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(service.url)
    const socket = connect(Number(port), "127.0.0.1", () => socket.write(text))
    let answer = ""
    socket.on("data", (bytes) => {
      answer += bytes
    })
    socket.setTimeout(10_000, () => socket.destroy(new Error(`nothing more after ${answer}`)))
    socket.on("error", reject)
    socket.on("close", () => resolve(answer))
  })
}

const HOST = "Host: localhost\r\n"

test.each([
  ["no HTTP at all", "GARBAGE\r\n\r\n", 400],
  ["an unknown method", `FOO /v1 HTTP/1.1\r\n${HOST}\r\n`, 400],
  ["too many headers", `GET / HTTP/1.1\r\n${HOST}x: ${"y".repeat(20_000)}\r\n\r\n`, 431],
  ["CONNECT", `CONNECT x:1 HTTP/1.1\r\n${HOST}\r\n`, 405],
  ["an expectation", `GET /health/live HTTP/1.1\r\n${HOST}Expect: foo\r\nConnection: close\r\n\r\n`, 417],
])("%s gets JSON and the security headers", async (_name, request, status) => {
  const answer = await raw(request)
  const [head, body] = answer.split("\r\n\r\n")
  expect(head.split("\r\n")[0]).toContain(`HTTP/1.1 ${status} `)
  expect(head.toLowerCase()).toContain("x-content-type-options: nosniff")
  const json = head.toLowerCase().includes("transfer-encoding: chunked") ? body.split("\r\n")[1] : body
  expect(JSON.parse(json)).toEqual({ error: "BAD_REQUEST", message: expect.stringContaining(": expected ") })
})

test("a known path with another method is answered with the methods there are, an unknown path with 404", async () => {
  const wrong = await service.call("PATCH", "/v1/items/dune")
  expect(wrong).toMatchObject({
    status: 405,
    body: { message: "method: expected GET or HEAD or DELETE for this path, got PATCH" },
  })
  expect(wrong.headers.get("allow")).toBe("GET, HEAD, DELETE")
  expect(await service.call("PATCH", "/v2/items")).toMatchObject({
    status: 404,
    body: { error: "NOT_FOUND", message: 'path: expected one that /openapi.json describes, got "/v2/items"' },
  })
})

test("HEAD is answered like GET, without the body", async () => {
  for (const path of ["/health/live", "/health/ready", "/v1/status"]) {
    const answer = await fetch(service.url + path, { method: "HEAD" })
    expect(answer.status, path).toBe(200)
    expect(await answer.text()).toBe("")
  }
  expect((await fetch(`${service.url}/v1/events`, { method: "HEAD" })).status).toBe(405)
})
