/** A stand-in for the service: real reports of a real run, answers that are made up, a key if one is wanted. */

import type { IncomingMessage, Server, ServerResponse } from "node:http"
import { Run } from "../../src/run/loop.ts"
import { cutSegments } from "../../src/stream/segments.ts"
import { synthetic } from "../../src/stream/synthetic.ts"
import { serveFile, startServer } from "./web-server.ts"

/** Reports as /v1/events sends them. */
export async function makeReports(interactions: number): Promise<object[]> {
  const stream = synthetic({ interactions })
  const run = new Run({ method: "dess-cv", threads: 1 }, stream.features)
  const reports: object[] = []
  for await (const segment of cutSegments(stream.batches(), { length: 500 })) {
    const report = run.step(segment)
    const outlook = run.learner.outlook?.()
    const n = report.segment
    const health = { time: 1.7e12 + 500 * n, events: 500, queue: 20 + (n % 7), freshness: 400 + 30 * (n % 5) }
    const disk = { journalEvents: 500 * n, snapshotAge: 1000 * n, latency: { p50: 3.2, p99: 18 } }
    reports.push({ ...report, ...health, ...disk, outlook })
  }
  run.close()
  return reports
}

export interface FakeOptions {
  reports: readonly object[]
  key?: string
  /** The id of the first recommended item. */
  item: string
  port?: number
}

export async function startFake({ reports, key, item, port = 0 }: FakeOptions): Promise<Server> {
  const likes: string[] = []
  const list = () => {
    const items = [item, ...Array.from({ length: 15 }, (_, i) => `i${i}`)].filter((name) => !likes.includes(name))
    return items.slice(0, 12).map((name, i) => ({ item: name, score: 1 / (i + 2), source: i < 9 ? "model" : "new" }))
  }
  const explanation = (side: string, id: string) => ({
    ...{ id, side, size: 8, bytes: 96, events: 41, bounds: { keep: 0.61, grow: 0.55 } },
    history: [2, 4, 8].map((size, i) => ({
      segment: 1 + 9 * i,
      time: 1_700_000_000_000 + 60_000 * i,
      size,
      why: i > 0 ? "grown" : "met",
      scores: i > 0 ? { keep: 0.1, grow: 0.4, estimate: 0.2 } : null,
    })),
    indicators: { frequency: 41, diversity: 1.3 },
  })
  const answer = async (path: string, request: IncomingMessage): Promise<object | undefined> => {
    if (path === "/v1/status")
      return {
        ...{ state: "learning", task: "binary", method: "dess-cv", segments: 30 },
        events: { accepted: 15_000, learned: 15_000, queue: 0 },
        users: { known: 104, held: 104 },
        items: { known: 900, held: 900 },
        memory: { budget: 2e6, heldBytes: 1e6 },
      }
    if (path === "/v1/interactions") {
      let body = ""
      for await (const chunk of request) body += chunk
      likes.push((JSON.parse(body) as { item: string }).item)
      return { accepted: 1, duplicates: 0 }
    }
    const [, side, name, rest] = /^\/v1\/(user|item)s\/([^/]+)(\/.*)?$/.exec(path) ?? []
    if (side === undefined || name === "nobody") return undefined
    return rest === undefined ? explanation(side, decodeURIComponent(name)) : list()
  }
  const stream = (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(": hello\n\n")
    for (const report of reports) response.write(`event: segment\ndata: ${JSON.stringify(report)}\n\n`)
  }
  return await startServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost")
    if (!pathname.startsWith("/v1/")) return serveFile(request, response)
    if (key !== undefined && request.headers.authorization !== `Bearer ${key}`)
      return response.writeHead(401).end(JSON.stringify({ message: "key: expected one, got none" }))
    if (pathname === "/v1/events") return stream(response)
    const body = await answer(pathname, request)
    const missing = { message: "id: expected a known one, got nobody" }
    response.writeHead(body ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body ?? missing))
  }, port)
}
