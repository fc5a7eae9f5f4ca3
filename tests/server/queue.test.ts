import { connect } from "node:net"
import { afterEach, expect, test } from "vitest"
import { configure } from "../../src/server/configuration.ts"
import { startService } from "../../src/server/service.ts"
import { learned, openService, type TestService, until } from "../support/service.ts"

let service: TestService
afterEach(() => service.stop())

const events = (length: number) => Array.from({ length }, (_, i) => ({ user: `u${i % 40}`, item: `i${i % 60}` }))

test("a full queue answers 429 with a time to try again, and takes events again when it has room", async () => {
  service = await openService({ flags: { queue: "1000", segment: "500" } })
  const answers = await Promise.all(
    Array.from({ length: 30 }, () => service.call("POST", "/v1/interactions", { body: events(200) })),
  )
  const taken = answers.filter(({ status }) => status === 200).length
  const refused = answers.filter(({ status }) => status === 429)
  expect(taken + refused.length).toBe(30)
  expect(refused.length).toBeGreaterThan(0)
  for (const { headers, body } of refused) {
    expect(headers.get("retry-after")).toBe("1")
    expect(body).toMatchObject({ error: "BUSY" })
  }
  await learned(service)
  const { body } = await service.call("GET", "/v1/status")
  expect(body).toMatchObject({ events: { accepted: 200 * taken, learned: 200 * taken } })
})

test("a stream of lines waits for a full queue instead of being refused", async () => {
  service = await openService({ flags: { queue: "2000", segment: "500" } })
  const body = events(12_000)
    .map((event) => JSON.stringify(event))
    .join("\n")
  const answer = await service.call("POST", "/v1/interactions", {
    body,
    headers: { "content-type": "application/x-ndjson" },
  })
  expect(answer).toMatchObject({ status: 200, body: { accepted: 12_000 } })
})

test("streams of lines take half of the places: one more gets 503, and what is quick is answered all the same", async () => {
  service = await openService({ flags: { "request-limit": "4" } })
  const ends: (() => void)[] = []
  const send = () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"user":"slow","item":"i"}\n'))
        ends.push(() => controller.close())
      },
    })
    const headers = { "content-type": "application/x-ndjson" }
    return fetch(`${service.url}/v1/interactions`, { method: "POST", headers, body, duplex: "half" } as RequestInit)
  }
  const lines = () =>
    service.call("POST", "/v1/interactions", {
      body: JSON.stringify(events(1)[0]),
      headers: { "content-type": "application/x-ndjson" },
    })
  const streams = [send(), send()]
  await until(async () => (await lines()).status === 503)
  const refused = await lines()
  expect(refused).toMatchObject({ status: 503, body: { error: "BUSY" } })
  expect(refused.headers.get("retry-after")).toBe("2")
  for (const path of ["/health/live", "/v1/status"]) expect((await service.call("GET", path)).status).toBe(200)
  expect((await service.call("POST", "/v1/interactions", { body: events(1) })).status).toBe(200)
  for (const end of ends) end()
  for (const stream of await Promise.all(streams)) expect(await stream.json()).toEqual({ accepted: 1, duplicates: 0 })
  expect((await lines()).status).toBe(200)
})

test("bodies that together are too much get 503, and what needs no body is answered", async () => {
  service = await openService({ flags: { "body-limit": "64KB" } })
  const { port } = new URL(service.url)
  const head = `POST /v1/interactions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 65000\r\n\r\n[`
  const slow = Array.from({ length: 16 }, () => {
    const socket = connect(Number(port), "127.0.0.1")
    socket.write(head)
    return socket
  })
  await until(async () => (await service.call("POST", "/v1/interactions", { body: events(1000) })).status === 503)
  expect((await service.call("GET", "/v1/status")).status).toBe(200)
  for (const socket of slow) socket.destroy()
  await until(async () => (await service.call("POST", "/v1/interactions", { body: events(1000) })).status === 200)
})

test("while it takes up its directory it is live, not ready, and says when to try again", async () => {
  const started = await startService({ ...configure({ port: "0" }, {}), onError: () => {} })
  const ask = async (path: string) => fetch(started.url + path)
  // All at once: starting takes long enough for these.
  const paths = ["/health/live", "/metrics", "/health/ready", "/v1/status", "/v1/events", "/api/users"]
  const [live, metrics, ...others] = await Promise.all(paths.map(ask))
  expect([live.status, metrics.status]).toEqual([200, 200])
  for (const { status, headers, url } of others) {
    expect(status, url).toBe(503)
    expect(headers.get("retry-after"), url).toBe("2")
  }
  await started.ready
  expect((await ask("/health/ready")).status).toBe(200)
  await started.stop()
})

test("stopping answers a stream that does not end with what it accepted", async () => {
  service = await openService()
  const line = new TextEncoder().encode('{"user":"slow","item":"i"}\n')
  const body = new ReadableStream({
    start(controller) {
      for (let n = 0; n < 100; n++) controller.enqueue(line)
      controller.enqueue(line.subarray(0, 9))
    },
  })
  const headers = { "content-type": "application/x-ndjson" }
  const answer = fetch(`${service.url}/v1/interactions`, {
    method: "POST",
    headers,
    body,
    duplex: "half",
  } as RequestInit)
  const accepted = async () =>
    ((await service.call("GET", "/v1/status")).body as { events: { accepted: number } }).events.accepted
  await until(async () => (await accepted()) === 100)
  await service.stop()
  const response = await answer
  expect(response.status).toBe(503)
  expect(await response.json()).toMatchObject({ error: "CLOSED", accepted: 100 })
})
