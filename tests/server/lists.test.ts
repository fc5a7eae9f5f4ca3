/** Lists over HTTP are the library's, and what the library refuses is a 400. */

import { afterAll, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { Recommendation } from "../../src/engine/types.ts"
import { openService, removeFolder, type TestService, temporaryFolder } from "../support/service.ts"
import { EVENTS, ITEMS, REQUESTS } from "../support/shop.ts"

const folder = temporaryFolder()
const other = temporaryFolder()
const expected: Recommendation[][] = []
let service: TestService

beforeAll(async () => {
  const recommender = await Recommender.open({ directory: folder })
  await recommender.putItems(ITEMS)
  await recommender.observe(EVENTS)
  await recommender.drain()
  for (const { ask } of REQUESTS) expected.push(await ask(recommender))
  await recommender.close()
  service = await openService({ flags: { directory: folder } })
})
afterAll(async () => {
  await service.stop()
  removeFolder(folder)
  removeFolder(other)
})

test("every kind of list with every rule is the library's", async () => {
  for (const [n, { method, path, body }] of REQUESTS.entries()) {
    const answer = await service.call(method, path, { body })
    expect(answer, `${path} ${JSON.stringify(body)}`).toMatchObject({ status: 200, body: expected[n] })
    expect(expected[n].length).toBeGreaterThan(0)
  }
})

test("what is simple can be asked for in a query", async () => {
  const rules = {
    count: 7,
    offset: 2,
    exclude: ["item 1", "item 2"],
    categories: ["kind 1"],
    diversity: 0.5,
    include: ["title"],
  }
  const query = new URLSearchParams(
    Object.entries(rules).flatMap(([name, value]) =>
      [value].flat().map((one): [string, string] => [name, String(one)]),
    ),
  )
  for (const path of ["/v1/users/user%203/recommendations", "/v1/items/item%204/similar", "/v1/popular", "/v1/new"]) {
    const [get, post] = [
      await service.call("GET", `${path}?${query}`),
      await service.call("POST", path, { body: rules }),
    ]
    expect(get.status).toBe(200)
    expect(get.body).toEqual(post.body)
    expect((get.body as Recommendation[])[0].title).toMatch(/^Thing/)
  }
})

test("wrong rules are a 400 that says what was expected", async () => {
  const wrong = [
    { filter: { colour: "red" } },
    { filter: { price: "cheap" } },
    { filter: { price: { below: 3 } } },
    { filter: { any: Array.from({ length: 10_000 }, (_, n) => ({ price: n })) } },
    { filters: {} },
    { boost: [{ filter: {}, by: "2" }] },
    { cap: { category: 0 } },
    { diversity: 2 },
    { include: ["events"] },
    { count: "3" },
  ]
  for (const body of wrong)
    for (const { path, body: usual } of REQUESTS.slice(0, 6)) {
      const answer = await service.call("POST", path, { body: { ...usual, ...body } })
      expect(answer, `${path} ${JSON.stringify(body).slice(0, 80)}`).toMatchObject({
        status: 400,
        body: { message: expect.stringMatching(/expected/) },
      })
    }
  expect((await service.call("GET", "/v1/popular?filter=x")).status).toBe(400)
})

test("items are put, found and described with title and properties; wrong ones are a 400", async () => {
  const put = (body: object) => service.call("PUT", "/v1/items", { body })
  expect(await put({ item: "lamp", title: "Blue lamp", properties: { price: 5, tags: ["a", 1] } })).toMatchObject({
    status: 200,
    body: { items: 1 },
  })
  expect((await service.call("GET", "/v1/items?query=blue")).body).toMatchObject([
    { item: "lamp", title: "Blue lamp", properties: { price: 5, tags: ["a", 1] } },
  ])
  expect((await service.call("GET", "/v1/items/lamp")).body).toMatchObject({ entry: { title: "Blue lamp" } })
  const wrong = [
    { name: "x" },
    { title: 3 },
    { properties: { price: {} } },
    { properties: { any: 1 } },
    { expires: "soon" },
  ]
  for (const body of [...wrong, { properties: { text: "x".repeat(4096) } }])
    expect(await put({ item: "lamp", ...body }), JSON.stringify(body).slice(0, 80)).toMatchObject({
      status: 400,
      body: { message: expect.stringMatching(/expected/) },
    })
  expect((await service.call("DELETE", "/v1/items/lamp")).status).toBe(200)
  expect((await service.call("GET", "/v1/items?query=blue")).body).toEqual([])
})

test("titles and properties are in a state that is rebuilt from the journal", async () => {
  await service.stop()
  removeFolder(other)
  await rebuild({ directory: folder, out: other })
  const rebuilt = await Recommender.open({ directory: other })
  expect(rebuilt.item("item 4")).toMatchObject({ title: "Thing 4", properties: ITEMS[4].properties })
  expect(rebuilt.item("lamp")).toBeUndefined()
  await rebuilt.close()
  service = await openService()
})
