import { once } from "node:events"
import { connect } from "node:net"
import { Writable } from "node:stream"
import type { FastifyReply } from "fastify"
import { afterEach, expect, test, vi } from "vitest"
import type { Recommender } from "../../src/engine/types.ts"
import { LiveEvents } from "../../src/server/live-events.ts"
import { learned, openService, type TestService } from "../support/service.ts"

let service: TestService
afterEach(async () => {
  vi.useRealTimers()
  await service?.stop()
})

/** Reads server-sent events until `count` messages have come or the stream ends. */
async function listen(url: string, count: number, { last = 0 } = {}) {
  const response = await fetch(`${url}/v1/events${last > 0 ? `?last=${last}` : ""}`)
  expect(response.headers.get("content-type")).toBe("text/event-stream")
  const messages: { event: string; id: string; data: Record<string, unknown> }[] = []
  let text = ""
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += new TextDecoder().decode(chunk)
    const blocks = text.split("\n\n")
    text = blocks.pop() ?? ""
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)))
      if (fields.data) messages.push({ event: fields.event, id: fields.id, data: JSON.parse(fields.data) })
    }
    if (messages.length >= count) break
  }
  return messages
}

test("one message comes per learned segment, in order", async () => {
  service = await openService({ flags: { segment: "10" } })
  const heard = listen(service.url, 3)
  await new Promise((resolve) => setTimeout(resolve, 100))
  const body = Array.from({ length: 30 }, (_, i) => ({ user: `u${i % 4}`, item: `i${i % 7}` }))
  await service.call("POST", "/v1/interactions", { body })
  const messages = await heard
  expect(messages.map(({ event, id }) => [event, id])).toEqual([
    ["segment", "1"],
    ["segment", "2"],
    ["segment", "3"],
  ])
  expect(messages[2].data).toMatchObject({ segment: 3, events: 10, interactions: 30, trainLoss: expect.any(Number) })
})

test("listeners beyond the limit are refused, and one that leaves frees a place", async () => {
  service = await openService()
  const gone = new AbortController()
  const open = await Promise.all(
    Array.from({ length: 64 }, () => fetch(`${service.url}/v1/events`, { signal: gone.signal })),
  )
  expect(open.every(({ status }) => status === 200)).toBe(true)
  const more = await service.call("GET", "/v1/events")
  expect(more).toMatchObject({ status: 503, body: { error: "BUSY" } })
  expect(more.headers.get("retry-after")).toBe("2")
  gone.abort()
  await expect
    .poll(
      async () =>
        (
          await fetch(`${service.url}/v1/events`, { method: "GET", signal: AbortSignal.timeout(300) }).catch(() => ({
            status: 0,
          }))
        ).status,
    )
    .toBe(200)
})

test("stopping ends the listeners' streams", async () => {
  service = await openService()
  const heard = listen(service.url, 1000)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await service.stop()
  expect(await heard).toEqual([])
})

test("past reports come first where they are asked for, and say how long requests took", async () => {
  service = await openService({ flags: { segment: "10" } })
  const body = Array.from({ length: 50 }, (_, i) => ({ user: `u${i % 4}`, item: `i${i % 7}` }))
  await service.call("POST", "/v1/interactions", { body })
  await learned(service)
  const messages = await listen(service.url, 2, { last: 2 })
  expect(messages.map(({ id }) => id)).toEqual(["4", "5"])
  const { latency, outlook } = messages[1].data as { latency: { p50: number; p99: number }; outlook: object }
  expect(latency.p50).toBeGreaterThan(0)
  expect(latency.p99).toBeGreaterThanOrEqual(latency.p50)
  expect(outlook).toMatchObject({ frequencies: expect.any(Array), user: { keep: expect.any(Array) } })
  expect((await service.call("GET", "/v1/events?last=1001")).status).toBe(400)
})

test("a connection on which nothing was ever asked does not hold up stopping", async () => {
  service = await openService()
  const socket = connect(Number(new URL(service.url).port), "127.0.0.1")
  await once(socket, "connect")
  const closed = once(socket, "close")
  await service.stop()
  await closed
})

/** A listener who reads nothing; what was written to it. */
function openDeaf() {
  const written: string[] = []
  const raw = new Writable({
    highWaterMark: 100,
    write(chunk) {
      written.push(String(chunk))
    },
  })
  Object.assign(raw, { writeHead: () => {} })
  return { raw, written, reply: { hijack: () => ({ raw }) } as unknown as FastifyReply }
}

/** Reports without end. */
const talkative = {
  async *reports(signal: AbortSignal) {
    for (let segment = 1; !signal.aborted; segment++) yield { segment, text: "x".repeat(50) }
  },
} as unknown as Recommender

test("a listener that does not read gets no more heartbeats or reports than fit", async () => {
  vi.useFakeTimers()
  const live = new LiveEvents(new AbortController().signal, () => null)
  const { raw, reply } = openDeaf()
  const sending = live.send(reply, talkative)
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect(raw.writableLength).toBeLessThan(400)
  expect(live.listeners).toBe(1)
  raw.destroy()
  await vi.advanceTimersByTimeAsync(10)
  await sending
  expect(live.listeners).toBe(0)
})

test("a listener that disconnected before the first message is not kept", async () => {
  const live = new LiveEvents(new AbortController().signal, () => null)
  const { raw, reply } = openDeaf()
  raw.destroy()
  await once(raw, "close")
  await live.send(reply, talkative)
  expect(live.listeners).toBe(0)
})
