import { afterAll, beforeAll, expect, test } from "vitest"
import { learned, openService, removeFolder, type TestService, temporaryFolder } from "../support/service.ts"

let service: TestService
const folder = temporaryFolder()

beforeAll(async () => {
  service = await openService({ flags: { directory: folder, features: "funny,long" } })
})
afterAll(async () => {
  await service.stop()
  removeFolder(folder)
})

const get = async (path: string) => (await service.call("GET", path)).body

test("one event and an array are accepted, and a known key is counted as a duplicate", async () => {
  const one = await service.call("POST", "/v1/interactions", {
    body: { user: "ada", item: "dune", rating: 5, key: "a" },
  })
  expect(one).toMatchObject({ status: 200, body: { accepted: 1, duplicates: 0 } })
  const events = Array.from({ length: 60 }, (_, i) => ({ user: `u${i % 6}`, item: `i${i % 11}`, rating: (i % 5) + 1 }))
  const many = await service.call("POST", "/v1/interactions", {
    body: [...events, { user: "ada", item: "dune", key: "a" }, { user: 7, item: 8, timestamp: Date.now() }],
  })
  expect(many.body).toEqual({ accepted: 61, duplicates: 1 })
  await learned(service)
  expect(await get("/v1/status")).toMatchObject({
    state: "learning",
    events: { accepted: 62, learned: 62, duplicates: 1, queue: 0 },
  })
})

test("JSON lines are observed as a stream, blank lines and a missing last line end included", async () => {
  const lines = Array.from({ length: 5000 }, (_, i) => JSON.stringify({ user: `l${i % 50}`, item: `m${i % 70}` }))
  const headers = { "content-type": "application/x-ndjson" }
  const answer = await service.call("POST", "/v1/interactions", { body: `${lines.join("\n\n")}`, headers })
  expect(answer).toMatchObject({ status: 200, body: { accepted: 5000, duplicates: 0 } })
})

test("a bad line ends the stream, and the answer says its line and what was accepted before", async () => {
  const lines = Array.from({ length: 4100 }, (_, i) => JSON.stringify({ user: `l${i % 50}`, item: "x" }))
  lines[4050] = '{"user":"ada"}'
  const headers = { "content-type": "application/x-ndjson" }
  const answer = await service.call("POST", "/v1/interactions", { body: lines.join("\n"), headers })
  expect(answer).toMatchObject({ status: 400, body: { error: "INVALID_DATA", duplicates: 0 } })
  const { accepted } = answer.body as { accepted: number }
  expect(accepted).toBeGreaterThan(0)
  expect(accepted).toBeLessThanOrEqual(4050)
  expect((answer.body as { message: string }).message).toContain("line 4051")
  const torn = await service.call("POST", "/v1/interactions", {
    body: '{"user":"ada","item":"x"}\n{"user":"ad',
    headers,
  })
  expect(torn).toMatchObject({ status: 400, body: { accepted: 1 } })
})

test("lists have the asked length, leave out what was met, and take exclude, only, categories, seen and offset", async () => {
  await service.call("PUT", "/v1/items", {
    body: [
      { item: "i1", categories: ["space", "a,b"], features: [1, 0] },
      { item: "i2", categories: ["space"], hidden: true },
      { item: "i3", features: [0, 1] },
    ],
  })
  await learned(service)
  const items = async (query: string) =>
    ((await get(`/v1/users/u1/recommendations?${query}`)) as { item: string }[]).map(({ item }) => item)
  const list = await items("count=20")
  expect(list).toHaveLength(20)
  expect(list).not.toContain("i2")
  const seen = await items("count=1000&seen=true")
  expect(seen).toContain("i1")
  expect(await items("count=5&offset=3")).toEqual((await items("count=8")).slice(3))
  expect(await items(`count=3&exclude=${list[0]}&exclude=${list[1]}`)).toEqual((await items("count=5")).slice(2))
  expect(await items(`only=${list[4]}&only=nobody`)).toEqual([list[4]])
  expect(await items("categories=space&seen=true")).toEqual(["i1"])
  expect(await items("categories=a,b&seen=true")).toEqual(["i1"])
})

test("similar items, predictions of one pair and of many, and explanations", async () => {
  const similar = (await get("/v1/items/m1/similar?count=4")) as { item: string }[]
  expect(similar).toHaveLength(4)
  expect(similar.map(({ item }) => item)).not.toContain("m1")
  expect(await service.call("GET", "/v1/items/never-met/similar")).toMatchObject({ status: 404 })
  const one = await service.call("POST", "/v1/predictions", { body: { user: "u1", item: "i1" } })
  expect(one.body).toMatchObject({ user: "u1", item: "i1", known: { user: true, item: true } })
  const many = await service.call("POST", "/v1/predictions", {
    body: [
      { user: "u1", item: "i1" },
      { user: 0, item: 0 },
    ],
  })
  expect(many.body).toMatchObject([one.body, { user: "0", known: { user: false, item: false } }])
  expect(await get("/v1/users/u1")).toMatchObject({ id: "u1", side: "user", size: expect.any(Number) })
  expect(await get("/v1/items/i1")).toMatchObject({
    side: "item",
    entry: { categories: ["space", "a,b"], hasFeatures: true },
  })
  expect(await service.call("GET", "/v1/users/never-met")).toMatchObject({ status: 404, body: { error: "NOT_FOUND" } })
})

test("known ids are listed, and a preview gives a list without learning", async () => {
  expect(await get("/v1/users?count=3")).toHaveLength(3)
  expect(await get("/v1/items?count=2&offset=1")).toEqual(((await get("/v1/items?count=3")) as string[]).slice(1))
  await learned(service)
  const before = await get("/v1/users/u1/recommendations?count=5")
  const body = { items: [{ item: "i3" }, { item: "i4", rating: 0 }], count: 5 }
  const preview = await service.call("POST", "/v1/users/u1/preview", { body })
  expect(preview.status).toBe(200)
  expect(preview.body).toHaveLength(5)
  expect(await get("/v1/users/u1/recommendations?count=5")).toEqual(before)
  const asItIs = await service.call("POST", "/v1/users/u1/preview", { body: { items: [] } })
  expect(asItIs.body).toEqual((await service.call("GET", "/v1/users/u1/recommendations")).body)
})

test("a guest gets a list by items clicked on, with the options of any list; unknown fields are refused", async () => {
  await learned(service)
  const guest = (body: unknown) => service.call("POST", "/v1/recommendations", { body })
  const { status, body } = await guest({ items: ["i3", 4, "never met"], count: 5 })
  expect([status, (body as unknown[]).length]).toEqual([200, 5])
  const names = (list: unknown) => (list as { item: string }[]).map(({ item }) => item)
  expect(names(body)).not.toContain("i3")
  const rest = await guest({ items: ["i3", 4], offset: 1, count: 4, exclude: [names(body)[2]], seen: false })
  expect(names(rest.body).slice(0, 3)).toEqual([names(body)[1], names(body)[3], names(body)[4]])
  for (const wrong of [{}, { items: "i3" }, { items: ["i3"], user: "u1" }, { items: ["i3"], after: "0.1-1" }, []])
    expect((await guest(wrong)).status, JSON.stringify(wrong)).toBe(400)
})

test("ids with slashes, spaces, emoji and the names of JavaScript's insides are ids like any other", async () => {
  const ids = ["a/b", "../../etc/passwd", "per cent %41", "🦊", "__proto__", "constructor", "?x=1#y", "é"]
  await service.call("POST", "/v1/interactions", { body: ids.map((id) => ({ user: id, item: id })) })
  await learned(service)
  for (const id of ids) {
    const path = encodeURIComponent(id).replaceAll(".", "%2E")
    expect(await get(`/v1/users/${path}`), id).toMatchObject({ id, events: 1 })
    expect(await get(`/v1/items/${path}`), id).toMatchObject({ id, events: 1 })
    expect(await get(`/v1/users/${path}/recommendations?count=2`), id).toHaveLength(2)
  }
})

test("a forgotten user is gone and the receipt says what was removed", async () => {
  const receipt = await service.call("DELETE", "/v1/users/ada")
  expect(receipt.body).toMatchObject({ user: "ada", found: true, row: true, history: 2 })
  expect(await service.call("GET", "/v1/users/ada")).toMatchObject({ status: 404 })
  expect((await service.call("DELETE", "/v1/users/ada")).body).toMatchObject({ found: false })
})

test("a snapshot is written on demand", async () => {
  const { body } = await service.call("POST", "/v1/snapshots")
  expect(body).toMatchObject({ bytes: expect.any(Number) })
  expect((await get("/v1/status")) as object).toMatchObject({ snapshot: body })
})

test("health, metrics and the description answer", async () => {
  expect(await get("/health/live")).toEqual({ status: "live" })
  expect(await get("/health/ready")).toEqual({ status: "ready" })
  const metrics = (await get("/metrics")) as string
  for (const name of [
    "events_accepted_total",
    "segments_total",
    "train_loss",
    "regret",
    "held_bytes",
    "rows",
    "queue_events",
  ])
    expect(metrics).toMatch(new RegExp(`^dess_${name}(\\{[^}]*\\})? -?[0-9.e+-]+$`, "m"))
  expect(metrics).toMatch(/^dess_freshness_seconds\{quantile="0.99"\} [0-9.e+-]+$/m)
  expect(metrics).toMatch(/^dess_request_seconds_bucket\{method="GET",route="\/v1\/users\/:id",le="\+Inf"\} \d+$/m)
  expect(metrics).not.toMatch(/ada|NaN|undefined/)
  const { openapi, paths } = (await get("/openapi.json")) as { openapi: string; paths: Record<string, object> }
  expect(openapi).toBe("3.1.0")
  for (const path of [
    "/v1/interactions",
    "/v1/users/{id}/recommendations",
    "/api/recommend/{user}/{category}",
    "/metrics",
  ])
    expect(Object.keys(paths)).toContain(path)
  for (const [path, methods] of Object.entries(paths))
    for (const operation of Object.values(methods) as { parameters: { name: string; in: string }[] }[]) {
      const named = operation.parameters.filter((one) => one.in === "path").map((one) => `{${one.name}}`)
      expect([...path.matchAll(/\{\w+\}/g)].map(([name]) => name).sort(), path).toEqual(named.sort())
    }
})

test("every answer carries the security headers, and nothing went wrong inside", async () => {
  for (const path of ["/v1/status", "/nowhere", "/health/live", "/v1/users/%E0%A4%A"]) {
    const { headers } = await service.call("GET", path)
    expect(headers.get("x-content-type-options"), path).toBe("nosniff")
    expect(headers.get("content-security-policy"), path).toContain("default-src 'none'")
  }
  expect(service.errors).toEqual([])
})
