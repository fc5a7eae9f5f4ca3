/** Types and weights of events over HTTP, in the service's own routes and Gorse's. */

import { afterAll, beforeAll, expect, test } from "vitest"
import { learned, openService, type TestService } from "../support/service.ts"

let service: TestService

beforeAll(async () => {
  service = await openService({
    flags: { types: '{"view":0.2,"purchase":1,"read":0.1,"skip":-1}', "leave-out": "purchase,skip" },
  })
})
afterAll(() => service.stop())

const list = async (path: string) =>
  ((await service.call("GET", path)).body as { item: string }[]).map(({ item }) => item)

test("a view does not hide an item and a purchase does", async () => {
  const others = ["a", "b", "c"].map((item) => ({ user: "eve", item, type: "view" }))
  await service.call("POST", "/v1/interactions", {
    body: [...others, { user: "ada", item: "a", type: "view" }, { user: "ada", item: "b", type: "purchase" }],
  })
  await learned(service)
  const found = await list("/v1/users/ada/recommendations")
  expect(found).toContain("a")
  expect(found).not.toContain("b")
  expect(await list("/v1/users/ada/recommendations?seen=true")).toContain("b")
  expect(await list("/v1/users/ada/recommendations?seen=false")).not.toContain("a")
})

test("unknown types and weights that are none are refused, and name the known ones", async () => {
  const before = (await service.call("GET", "/v1/status")).body as { events: { accepted: number } }
  const send = (event: object) => service.call("POST", "/v1/interactions", { body: { user: "x", item: "y", ...event } })
  const unknown = await send({ type: "buy" })
  expect(unknown.status).toBe(400)
  expect((unknown.body as { message: string }).message).toContain("view, purchase, read, skip")
  expect((await send({ weight: "1" })).status).toBe(400)
  expect((await send({ weight: 100 })).status).toBe(400)
  const after = (await service.call("GET", "/v1/status")).body as { events: { accepted: number } }
  expect(after.events.accepted).toBe(before.events.accepted)
})

test("a guest's items have types", async () => {
  const { body } = await service.call("POST", "/v1/recommendations", {
    body: { items: [{ item: "a", type: "view" }, { item: "b", type: "purchase" }, "c"] },
  })
  const items = (body as { item: string }[]).map(({ item }) => item)
  expect(items).toContain("a")
  expect(items).not.toContain("b")
  expect(items).not.toContain("c")
  const bad = await service.call("POST", "/v1/recommendations", { body: { items: [{ item: "a", kind: "view" }] } })
  expect(bad.status).toBe(400)
})

test("Gorse's feedback goes by the same types, and is still kept once for each", async () => {
  const feedback = { FeedbackType: "read", UserId: "bob", ItemId: "a", Timestamp: "2024-01-01T00:00:00Z" }
  for (let times = 0; times < 2; times++) await service.call("POST", "/api/feedback", { body: [feedback] })
  const later = { ...feedback, Timestamp: "2024-01-02T00:00:00Z" }
  await service.call("POST", "/api/feedback", { body: [later] })
  const kept = (await service.call("GET", "/api/user/bob/feedback")).body as { Timestamp: string }[]
  expect(kept.map(({ Timestamp }) => Timestamp)).toEqual(["2024-01-01T00:00:00Z"])
  // A weight of its own: not the dislike that `read` is without types.
  expect(await list("/v1/users/bob/recommendations")).toContain("a")
  const unknown = await service.call("POST", "/api/feedback", { body: [{ ...feedback, FeedbackType: "star" }] })
  expect(unknown.status).toBe(400)
})

test("a guest who signs in keeps what was clicked on, and is a guest no more", async () => {
  await service.call("POST", "/v1/interactions", { body: { user: "guest 1", item: "c", type: "purchase" } })
  const merged = await service.call("POST", "/v1/users/grace/merge", { body: { guest: "guest 1" } })
  expect(merged).toMatchObject({ status: 200, body: { guest: "guest 1", user: "grace", found: true, history: 1 } })
  expect(await list("/v1/users/grace/recommendations")).not.toContain("c")
  expect((await service.call("GET", "/v1/users/guest%201")).status).toBe(404)
  const same = await service.call("POST", "/v1/users/grace/merge", { body: { guest: "grace" } })
  expect(same.status).toBe(400)
  expect((await service.call("POST", "/v1/users/grace/merge", { body: { from: "x" } })).status).toBe(400)
})
