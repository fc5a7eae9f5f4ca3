/** A request that two readers could take for two different things is refused. */

import { afterAll, beforeAll, expect, test } from "vitest"
import { openService, type TestService } from "../support/service.ts"
import { HOST, send, within } from "../support/sockets.ts"

let service: TestService
beforeAll(async () => {
  service = await openService({ environment: { DESS_WRITE_KEY: "write-key-0123456789" } })
})
afterAll(() => service.stop())

const CLOSE = "connection: close\r\n"

async function statusOf(request: string): Promise<number> {
  const { text, closed } = await send(service, request)
  expect(await within(5000, closed)).toBe(true)
  return Number(/^HTTP\/1\.1 (\d+)/.exec(text())?.[1])
}

test.each([
  ["two hosts", `${HOST}Host: other\r\n`],
  ["the same host twice", `${HOST}HOST: localhost\r\n`],
  ["no host", ""],
  ["an empty host", "host: \r\n"],
  ["two names in a host", "host: localhost, other\r\n"],
  ["a user in a host", "host: a@localhost\r\n"],
  ["a path in a host", "host: localhost/x\r\n"],
  ["a port that is none", "host: localhost:80x\r\n"],
  ["two lengths", `${HOST}content-length: 0\r\ncontent-length: 5\r\n`],
  ["a length and chunks", `${HOST}content-length: 5\r\ntransfer-encoding: chunked\r\n`],
  ["an unknown encoding", `${HOST}transfer-encoding: gzip\r\n`],
])("%s: 400", async (_name, headers) => {
  expect(await statusOf(`GET /health/live HTTP/1.1\r\n${headers}${CLOSE}\r\n`)).toBe(400)
})

test.each(["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "a-b.example.com", "my_host:"])(
  "host %s: 200",
  async (host) => {
    expect(await statusOf(`GET /health/live HTTP/1.1\r\nhost: ${host}\r\n${CLOSE}\r\n`)).toBe(200)
  },
)

test("HTTP/1.0 needs no host", async () => {
  expect(await statusOf("GET /health/live HTTP/1.0\r\n\r\n")).toBe(200)
})

test("chunk extensions without end are refused", async () => {
  const head = `POST /v1/interactions HTTP/1.1\r\n${HOST}x-api-key: write-key-0123456789\r\n`
  const body = `transfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n2;${"x".repeat(100_000)}`
  expect(await statusOf(head + body)).toBe(413)
})
