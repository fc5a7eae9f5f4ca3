/** Callers that close, abort, stall or read nothing cost the service nothing that lasts. */

import { type AddressInfo, connect } from "node:net"
import { afterEach, expect, test } from "vitest"
import { Connections } from "../../src/server/connections.ts"
import { CONNECTION_LIMITS } from "../../src/server/limits.ts"
import { openService, type TestService, until } from "../support/service.ts"
import { get, HOST, pause, send, within } from "../support/sockets.ts"

let service: TestService
afterEach(() => service.stop())

const WRITE = "write-key-0123456789"
const key = `x-api-key: ${WRITE}\r\n`

/** The gauges; the request that asks for them counts itself. */
async function underWay(headers: Record<string, string> = {}) {
  const text = await (await fetch(`${service.url}/metrics`, { headers })).text()
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1])
  return { requests: value("dess_requests_active") - 1, bytes: value("dess_request_body_bytes") }
}

test("a connection that sends a thousand requests ahead and closes leaves nothing counted", async () => {
  service = await openService()
  const { socket, closed } = await send(service, get("/health/live").repeat(1000))
  socket.destroy()
  await closed
  await pause(50)
  expect((await service.call("GET", "/v1/status")).status).toBe(200)
  expect(await underWay()).toEqual({ requests: 0, bytes: 0 })
})

test("after 50,000 requests that were sent ahead, aborted, half sent or never read, nothing is counted", async () => {
  service = await openService({ environment: { DESS_WRITE_KEY: WRITE }, flags: { "body-limit": "64KB" } })
  const post = (type: string, more: string, body: string) =>
    `POST /v1/interactions HTTP/1.1\r\n${HOST}${key}content-type: ${type}\r\n${more}\r\n${body}`
  const status = get("/v1/status", key)
  const ways: [requests: number, text: string, read: boolean, milliseconds: number][] = [
    [1000, get("/health/live").repeat(1000), true, 0],
    [1000, status.repeat(1000), false, 1],
    [30, status.repeat(30), true, 20],
    [30, status.repeat(30), false, 0],
    [30, get("/openapi.json").repeat(30), false, 5],
    [30, get("/v1/status").repeat(30), true, 3],
    [1, post("application/json", "content-length: 65000\r\n", "["), true, 10],
    [1, post("application/json", "transfer-encoding: chunked\r\n", "5\r\n[1,2"), true, 3],
    [1, post("application/x-ndjson", "transfer-encoding: chunked\r\n", "1b\r\n{"), true, 10],
    [1, post("application/json", "content-length: 65000\r\n", "[").replace(key, ""), true, 5],
    [2, status + post("application/json", "content-length: 65000\r\n", "["), false, 5],
    [1, status.slice(0, -3), true, 1],
  ]
  let sent = 0
  while (sent < 50_000)
    await Promise.all(
      [...ways, ...ways].map(async ([requests, text, read, milliseconds]) => {
        const { socket, closed } = await send(service, text, { read })
        sent += requests
        await pause(milliseconds)
        socket.destroy()
        await closed
      }),
    )
  const headers = { "x-api-key": WRITE }
  await until(async () => (await underWay(headers)).requests === 0)
  expect(await underWay(headers)).toEqual({ requests: 0, bytes: 0 })
  expect((await service.call("GET", "/v1/status", { headers })).status).toBe(200)
  expect(service.errors).toEqual([])
}, 60_000)

test("requests sent ahead are answered in order, up to the limit", async () => {
  service = await openService()
  const paths = Array.from({ length: 32 }, (_, i) => (i % 2 === 0 ? "/health/live" : `/v1/users/nobody-${i}`))
  const { socket, text } = await send(service, paths.map((path) => get(path)).join(""))
  const answers = () => text().match(/"status":"live"|nobody-\d+/g) ?? []
  await until(async () => answers().length === 32)
  expect(answers()).toEqual(paths.map((path) => (path === "/health/live" ? '"status":"live"' : path.slice(10))))
  expect(socket.closed).toBe(false)
  socket.destroy()
})

test("a caller that does not read gets no thousand answers", async () => {
  service = await openService()
  const before = process.memoryUsage.rss()
  const silent = await Promise.all(
    Array.from({ length: 21 }, () => send(service, get("/openapi.json").repeat(1500), { read: false })),
  )
  await pause(200)
  expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(150)
  expect((await service.call("GET", "/v1/status")).status).toBe(200)
  for (const { socket } of silent) socket.destroy()
})

test("unread answers are freed with their connection", async () => {
  service = await openService({
    flags: { segment: "1000" },
    limits: { readerMilliseconds: 300, checkMilliseconds: 50 },
  })
  // An answer too large for the buffers of the operating system.
  const item = (i: number) => ({ item: `${i}-${"語".repeat(490)}` })
  for (let from = 0; from < 10_000; from += 5000)
    await service.call("PUT", "/v1/items", { body: Array.from({ length: 5000 }, (_, i) => item(from + i)) })
  const { socket, closed } = await send(service, get("/v1/items?count=10000"), { read: false })
  await pause(1000)
  // Reading finds what was on its way, then the end: not the whole answer.
  let bytes = 0
  socket.on("data", (chunk) => {
    bytes += chunk.length
  })
  socket.on("end", () => socket.end())
  expect(await within(5000, closed)).toBe(true)
  expect(bytes).toBeLessThan(14_000_000)
  const whole = await fetch(`${service.url}/v1/items?count=10000`)
  expect((await whole.arrayBuffer()).byteLength).toBeGreaterThan(14_000_000)
}, 30_000)

test("of a connection that is closed for sending too many requests ahead, the rest is not even parsed", async () => {
  service = await openService()
  const connections = new Connections({ ...CONNECTION_LIMITS, pipelined: 8 })
  let heads = 0
  const server = connections.serve(() => {})
  server.on("request", () => heads++)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  const socket = connect(port, "127.0.0.1", () => socket.write(get("/health/live").repeat(700)))
  socket.on("error", () => {})
  await new Promise((resolve) => socket.once("close", resolve))
  expect(heads).toBe(9)
  await new Promise((resolve) => server.close(resolve))
})
