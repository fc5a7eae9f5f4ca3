/** Callers that send slowly, or not at all, do not keep others out. */

import { afterEach, expect, test } from "vitest"
import { openService, type TestService, until } from "../support/service.ts"
import { get, HOST, pause, type RawConnection, send, within } from "../support/sockets.ts"

let service: TestService
let trickling: NodeJS.Timeout | undefined
afterEach(async () => {
  clearInterval(trickling)
  await service.stop()
})

const WRITE = "write-key-0123456789"
const environment = { DESS_WRITE_KEY: WRITE }
const key = `x-api-key: ${WRITE}\r\n`
const quick = { checkMilliseconds: 50, lingerMilliseconds: 100 }
const post = (headers: string, body = "") => `POST /v1/interactions HTTP/1.1\r\n${HOST}${headers}\r\n${body}`
const json = "content-type: application/json\r\n"

/** Sends a byte now and then for as long as the connection is there. */
function trickle({ socket }: RawConnection, text: string, milliseconds: number): void {
  trickling = setInterval(() => socket.writable && socket.write(text), milliseconds)
}

const statusOf = ({ text }: RawConnection) => Number(/^HTTP\/1\.1 (\d+)/.exec(text())?.[1])

test.each([
  ["nothing", "", undefined],
  ["half a request line", "GET /health", 408],
  ["headers without an end", `GET /health/live HTTP/1.1\r\n${HOST}x: y\r\n`, 408],
])("a connection that sent %s is closed in time", async (_name, text, status) => {
  service = await openService({ limits: { ...quick, headersMilliseconds: 300 } })
  const slow = await send(service, text)
  trickle(slow, text === "" ? "" : "a", 50)
  expect(await within(3000, slow.closed)).toBe(true)
  if (status !== undefined) expect(statusOf(slow)).toBe(status)
})

test("a second request whose headers do not end is closed, too", async () => {
  service = await openService({ limits: { ...quick, headersMilliseconds: 300 } })
  const slow = await send(service, `${get("/health/live")}GET /health`)
  expect(await within(3000, slow.closed)).toBe(true)
  expect(statusOf(slow)).toBe(200)
})

test("a body has to be whole in time, however regularly it comes", async () => {
  service = await openService({ limits: { ...quick, bodyMilliseconds: 400, stallMilliseconds: 10_000 } })
  const slow = await send(service, post(`${json}content-length: 5000\r\n`, "["))
  trickle(slow, " ".repeat(20), 20)
  expect(await within(3000, slow.closed)).toBe(true)
  expect(statusOf(slow)).toBe(408)
})

test("a body of which next to nothing comes is not waited for", async () => {
  service = await openService({ limits: { ...quick, stallMilliseconds: 300 } })
  const slow = await send(service, post(`${json}content-length: 5000\r\n`, "["))
  trickle(slow, " ", 50)
  expect(await within(3000, slow.closed)).toBe(true)
  expect(statusOf(slow)).toBe(408)
})

test("bodies that are yet to come do not count as requests under way, and are not counted as answered with 200", async () => {
  service = await openService({
    flags: { "request-limit": "4" },
    limits: { ...quick, stallMilliseconds: 500 },
  })
  const slow = await Promise.all(
    Array.from({ length: 12 }, () => send(service, post(`${json}content-length: 50\r\n`, "["))),
  )
  for (const { socket } of slow.slice(0, 5)) socket.destroy()
  for (let n = 0; n < 5; n++) expect((await service.call("GET", "/v1/status")).status).toBe(200)
  for (const { closed } of slow) expect(await within(3000, closed)).toBe(true)
  await expect
    .poll(async () => {
      const text = String((await service.call("GET", "/metrics")).body)
      return text.match(/^dess_requests_total{method="POST".*$/gm)?.sort()
    })
    .toEqual([
      'dess_requests_total{method="POST",route="/v1/interactions",status="400"} 5',
      'dess_requests_total{method="POST",route="/v1/interactions",status="408"} 7',
    ])
})

test("streams of lines that bring next to nothing, and questions that take long, leave half of the places to others", async () => {
  service = await openService({ flags: { "request-limit": "4" } })
  const headers = "content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n"
  const streams = await Promise.all(Array.from({ length: 12 }, () => send(service, post(headers, "1\r\n{\r\n"))))
  await expect.poll(() => streams.filter((one) => statusOf(one) === 503).length).toBe(10)
  const body = { user: "ada", item: "dune" }
  expect((await service.call("POST", "/v1/predictions", { body })).status).toBe(503)
  for (let n = 0; n < 5; n++) expect((await service.call("GET", "/v1/status")).status).toBe(200)
  expect((await service.call("POST", "/v1/interactions", { body })).status).toBe(200)
  for (const { socket } of streams) socket.destroy()
  await expect.poll(async () => (await service.call("POST", "/v1/predictions", { body })).status).toBe(200)
})

test("a stream of lines may last, but not stall; the answer says what was accepted", async () => {
  service = await openService({ limits: { ...quick, streamMilliseconds: 400, bodyMilliseconds: 300, leastBytes: 20 } })
  const line = '{"user":"ada","item":"dune"}\n'
  const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
  const headers = "content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n"
  const lasting = await send(service, post(headers, chunk(line)))
  for (let n = 0; n < 8; n++) {
    await pause(150)
    lasting.socket.write(chunk(line))
  }
  expect(lasting.text()).toBe("")
  trickle(lasting, chunk(" "), 100)
  expect(await within(3000, lasting.closed)).toBe(true)
  expect(statusOf(lasting)).toBe(408)
  expect(lasting.text()).toContain('"accepted":9')
})

test.each([
  ["401", post(`${json}content-length: 5000\r\n`, "[")],
  ["404", post(`${json}content-length: 5000\r\n`, "[").replace("/v1/interactions", "/v1/nowhere")],
  ["413", post(`${key}${json}content-length: 99999999\r\n`, "[")],
  ["400", post(`${key}${json}content-length: 5000\r\n`, "[").replace(HOST, "host: a b\r\n")],
  ["200", get("/health/live", "content-length: 5000\r\n")],
])("after a %s the rest of a body is not waited for", async (status, text) => {
  service = await openService({ environment, limits: quick })
  const slow = await send(service, text)
  trickle(slow, " ", 20)
  expect(await within(2000, slow.closed)).toBe(true)
  expect(statusOf(slow)).toBe(Number(status))
  expect(slow.text().toLowerCase()).toContain("connection: close")
})

test("a refused caller who sends a large body still gets the answer", async () => {
  service = await openService({ environment })
  for (let n = 0; n < 10; n++) {
    const slow = await send(service, post(`${json}content-length: 4000000\r\n`, " ".repeat(4_000_000)))
    await slow.closed
    expect(statusOf(slow)).toBe(401)
  }
})

test("when all connections are taken by slow ones, an honest request gets through, and those at work stay", async () => {
  service = await openService({ environment, limits: { ...quick, connections: 50 } })
  const headers = { "x-api-key": WRITE }
  const line = '{"user":"ada","item":"dune"}\n'
  const lines = `${key}content-type: application/x-ndjson\r\ncontent-length: ${2 * line.length}\r\n`
  const working = await send(service, post(lines, line))
  await until(async () => (await fetch(`${service.url}/metrics`, { headers })).ok)
  const slow = []
  for (let n = 0; n < 120; n++) slow.push(await send(service, "GET /health/live HTTP/1.1\r\n"))
  expect((await service.call("GET", "/v1/status", { headers })).status).toBe(200)
  expect(await within(1000, slow[0].closed)).toBe(true)
  working.socket.write(line)
  await until(async () => working.text().includes('"accepted":2'))
  for (const { socket } of [...slow, working]) socket.destroy()
})

test("a caller that half-closes, asks for an upgrade, CONNECTs or speaks HTTP/1.0 is disconnected", async () => {
  service = await openService({ limits: { ...quick, idleMilliseconds: 300 } })
  const upgrade = get("/health/live", "connection: upgrade\r\nupgrade: websocket\r\n")
  const asked = await Promise.all([
    send(service, upgrade),
    send(service, `CONNECT x:1 HTTP/1.1\r\n${HOST}\r\n`, { read: false }),
    send(service, `GET /health/live HTTP/1.0\r\n${HOST}connection: keep-alive\r\n\r\n`),
    send(service, "GARBAGE\r\n\r\n", { read: false }),
  ])
  const half = await send(service, get("/health/live"))
  half.socket.end()
  const connections = async () =>
    Number(/^dess_connections (\d+)$/m.exec(await (await fetch(`${service.url}/metrics`)).text())?.[1])
  // The one that asks.
  await until(async () => (await connections()) === 1)
  expect([asked[0], asked[2]].map(statusOf)).toEqual([200, 200])
  for (const { socket } of [...asked, half]) socket.destroy()
}, 40_000)
