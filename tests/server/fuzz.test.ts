import { connect } from "node:net"
import { afterAll, beforeAll, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { learned, openService, removeFolder, type TestService, temporaryFolder } from "../support/service.ts"

let service: TestService
const folder = temporaryFolder()
/** Good events sent in between. */
let good = 0

beforeAll(async () => {
  service = await openService({ flags: { directory: folder, "body-limit": "256KB", features: "a,b" } })
})
afterAll(async () => {
  await service.stop()
  removeFolder(folder)
})

const STRANGE: readonly unknown[] = [
  ...[
    "",
    " ",
    "__proto__",
    "constructor",
    "toString",
    "🦊".repeat(300),
    "\u0000",
    "\ud800",
    "é",
    "x".repeat(10_000),
    "NaN",
  ],
  ...[0, -0, -1, 1e308, -1e308, 5e-324, 2 ** 53, 1.5, Date.now() + 1e12, -Date.now(), 1e15, 99999999999],
  ...[null, true, false, [], [[]], {}, { __proto__: 1 }, { constructor: { prototype: 1 } }, ["a", "b"], [null]],
  ...["2024-01-01", "9".repeat(400), "../../etc/passwd", "'; DROP TABLE users; --", "<script>", "%00", "a\nb\r\nc: d"],
]

const NATIVE = { whole: { user: "u", item: "i" }, more: ["user", "item", "rating", "timestamp", "key"] }
const ITEM = { whole: { item: "i" }, more: ["item", "features", "categories", "hidden"] }
const GORSE = {
  whole: { UserId: "u", ItemId: "i", FeedbackType: "like" },
  more: ["UserId", "ItemId", "FeedbackType", "Timestamp", "Labels", "Categories", "IsHidden", "Comment"],
}

const ROUTES = [
  ...[
    "POST /v1/interactions",
    "PUT /v1/items",
    "POST /v1/predictions",
    "POST /v1/recommendations",
    "POST /v1/users/u/preview",
    "POST /api/feedback",
    "PUT /api/feedback",
  ],
  ...[
    "POST /api/user",
    "POST /api/users",
    "POST /api/item",
    "POST /api/items",
    "PATCH /api/item/x",
    "PATCH /api/user/x",
  ],
  ...["POST /api/session/recommend", "POST /v1/snapshots", "DELETE /v1/users/x", "PUT /api/item/x/category/y"],
]

async function send(method: string, path: string, body: string | Buffer | undefined, type = "application/json") {
  const response = await fetch(service.url + path, {
    method,
    headers: body === undefined ? {} : { "content-type": type },
    ...(body === undefined ? {} : { body: body as string }),
  })
  const text = await response.text()
  const where = `${method} ${path} ${String(body).slice(0, 200)} → ${response.status} ${text.slice(0, 200)}`
  expect(response.status, where).toBeLessThan(500)
  expect(response.headers.get("content-type"), where).toContain("application/json")
  const answer = JSON.parse(text) as { accepted?: number }
  if (response.status !== 200)
    expect(answer, where).toMatchObject({ error: expect.any(String), message: expect.any(String) })
  return { status: response.status, answer }
}

test("strange values in every field are refused with 4xx or taken, never more", async () => {
  for (const seed of [1, 2, 3]) {
    const random = new Random(seed)
    const below = (n: number) => random.integer(n)
    const pick = <T>(list: readonly T[]) => list[below(list.length)]
    for (let round = 0; round < 250; round++) {
      const [method, path] = pick(ROUTES).split(" ")
      const { whole, more } = path.startsWith("/api") ? GORSE : path === "/v1/items" ? ITEM : NATIVE
      const record = () => {
        const fields: Record<string, unknown> = { ...whole }
        for (const name of more) if (random.next() < 0.15) fields[name] = pick(STRANGE)
        if (random.next() < 0.1) delete fields[pick(Object.keys(fields))]
        return fields
      }
      const value =
        random.next() < 0.2 ? pick(STRANGE) : random.next() < 0.5 ? record() : Array.from({ length: below(4) }, record)
      let body = JSON.stringify(value) ?? ""
      if (random.next() < 0.15) body = body.slice(0, below(body.length + 1))
      if (random.next() < 0.1) body = body.replace(/[\d"]/, pick(["NaN", "Infinity", "1e999", "\u0000", "'"]))
      const type = pick([
        "application/json",
        "application/json",
        "application/json",
        "text/plain",
        "application/x-ndjson",
        "x",
      ])
      await send(method, path, body, type)
      if (round % 10 > 0) continue
      const fine = await send("POST", "/v1/interactions", JSON.stringify({ user: "good", item: `g${good++}` }))
      expect(fine).toMatchObject({ status: 200, answer: { accepted: 1 } })
    }
  }
})

test("strange ids and queries in the address are refused with 4xx or answered", async () => {
  const names = STRANGE.map((value) => (typeof value === "string" ? value : JSON.stringify(value)))
  const encode = (text: string) => (/\p{Surrogate}/u.test(text) ? "%ED%A0%80" : encodeURIComponent(text))
  for (const name of [...names, "%E0%A4%A", "%"].map((text) =>
    text.startsWith("%E0") || text === "%" ? text : encode(text),
  )) {
    for (const path of [
      "/v1/users/@",
      "/v1/items/@",
      "/v1/users/@/recommendations",
      "/v1/items/@/similar",
      "/api/recommend/@",
    ])
      await send("GET", path.replace("@", name), undefined)
    for (const field of ["count", "offset", "exclude", "only", "categories", "seen", name])
      await send("GET", `/v1/users/u/recommendations?${field}=${name}&${field}=${name}`, undefined)
    for (const field of ["n", "offset", "cursor", "write-back-type", "write-back-delay", "category"])
      await send("GET", `/api/${field === "cursor" ? "users" : "recommend/u"}?${field}=${name}`, undefined)
  }
})

test("too much is refused: a body, a batch, a line, a list of features, an id", async () => {
  const event = (user: string) => ({ user, item: "i" })
  const huge = await send(
    "POST",
    "/v1/interactions",
    JSON.stringify(Array.from({ length: 9000 }, (_, i) => event(`user ${i}`))),
  )
  expect(huge.status).toBe(413)
  const batch = await send("POST", "/v1/interactions", `[${"{},".repeat(10_001)}{}]`)
  expect(batch.status).toBe(400)
  const line = await send("POST", "/v1/interactions", JSON.stringify(event("x".repeat(40_000))), "application/x-ndjson")
  expect(line.status).toBe(400)
  const deep = await send("POST", "/v1/interactions", "[".repeat(100_000) + "]".repeat(100_000))
  expect(deep.status).toBe(400)
  const nested = `{"ItemId":"i","Labels":${'{"a":'.repeat(30_000)}1${"}".repeat(30_000)}}`
  const labels = await send("POST", "/api/item", nested)
  expect(labels.status).toBe(400)
  expect(JSON.stringify(labels.answer)).toContain("expected at most 64 arrays and objects within each other")
  const brackets = await send("POST", "/v1/interactions", JSON.stringify(event(`\\"${"[{".repeat(200)}`)))
  expect(brackets.status).toBe(200)
  const prototype = await send("PUT", "/v1/items", '{"item":"i","properties":{"__proto__":"x"}}')
  expect(prototype.status).toBe(400)
  expect(JSON.stringify(prototype.answer)).toContain("expected no key __proto__")
  const features = await send("PUT", "/v1/items", JSON.stringify({ item: "i", features: new Array(5000).fill(0) }))
  expect(features.status).toBe(400)
  expect((await send("POST", "/v1/interactions", JSON.stringify(event("x".repeat(513))))).status).toBe(400)
  expect((await send("GET", `/v1/users/${"x".repeat(600)}`, undefined)).status).toBe(400)
  expect((await send("POST", "/v1/interactions", '{"user":"u","item":"i","__proto__":{"rating":1}}')).status).toBe(400)
  expect((await send("POST", "/v1/interactions", JSON.stringify({ ...event("u"), timestamp: -1 }))).status).toBe(400)
  const future = { ...event("u"), timestamp: Date.now() / 1000 + 2 * 86_400 }
  expect((await send("POST", "/v1/interactions", JSON.stringify(future))).status).toBe(400)
  expect(({} as { rating?: number }).rating).toBeUndefined()
})

/** Bytes on a connection of its own; resolves with what came back when it ends or nothing more comes. */
function sendBytes(bytes: string | Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(service.url).port), "127.0.0.1")
    let answer = ""
    socket.setTimeout(300, () => socket.destroy())
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1")
    })
    socket.on("error", () => {})
    socket.on("close", () => resolve(answer))
    socket.write(bytes)
  })
}

test("broken requests end their own connection and nothing else", async () => {
  const random = new Random(4)
  const noise = Buffer.from(Array.from({ length: 4096 }, () => random.integer(256)))
  const head = (length: number) =>
    `POST /v1/interactions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`
  const broken = [
    noise,
    "GET / HTTP/9.9\r\n\r\n",
    "GET /v1/status HTTP/1.1\r\nhost",
    `GET /v1/status HTTP/1.1\r\nhost: localhost\r\nx: ${"y".repeat(20_000)}\r\n\r\n`,
    `${head(1000)}{"user":"torn","item":"torn"}`,
    `${head(5)}{"user":"torn","item":"torn"}`,
    "POST /v1/interactions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    'POST /v1/interactions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n20\r\n{"user":"torn","item":"torn"}',
  ]
  for (const bytes of broken) expect(await sendBytes(bytes)).not.toMatch(/HTTP\/1.1 (200|5\d\d)/)
  expect((await send("GET", "/v1/users/torn", undefined)).status).toBe(404)
  expect((await send("GET", "/health/ready", undefined)).status).toBe(200)
})

test("after all that nothing was lost, nothing was invented, and nothing went wrong inside", async () => {
  expect(service.errors).toEqual([])
  await send("POST", "/v1/interactions", JSON.stringify({ user: "last", item: "last" }))
  await learned(service)
  const { body } = await service.call("GET", "/v1/status")
  const { events, state } = body as { events: { accepted: number; learned: number }; state: string }
  expect(state).toBe("learning")
  expect(events.learned).toBe(events.accepted)
  expect((await service.call("GET", "/v1/users/good")).body).toMatchObject({ events: good })
  expect((await service.call("GET", "/v1/users/last")).body).toMatchObject({ id: "last", events: 1 })
})
