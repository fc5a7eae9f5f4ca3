import { afterAll, beforeAll, expect, test } from "vitest"
import { parseListUrl } from "../../src/server/quick-lists.ts"
import { learned, openService, type TestService } from "../support/service.ts"

let service: TestService
beforeAll(async () => {
  service = await openService({ flags: { task: "topk", tracking: true } })
  const body = Array.from({ length: 300 }, (_, i) => ({ user: `u ${i % 7}`, item: `i${(i * i) % 23}` }))
  await service.call("POST", "/v1/interactions", { body })
  await learned(service)
})
afterAll(() => service.stop())

/** The answer and its headers, without what differs from one answer to the next. */
async function ask(path: string) {
  const answer = await fetch(`${service.url}${path}`)
  const { date: _, "dess-list": list, ...headers } = Object.fromEntries(answer.headers)
  return { status: answer.status, body: await answer.json(), headers, hasList: list !== undefined }
}

test("plain requests are answered as by the routes: 05 is a number that only these read", async () => {
  for (const [quick, routed] of [
    ["/v1/users/u%202/recommendations?count=5", "/v1/users/u%202/recommendations?count=05"],
    ["/v1/users/u%202/recommendations?offset=2&count=5", "/v1/users/u%202/recommendations?offset=02&count=5"],
    ["/v1/users/u%202/recommendations", "/v1/users/u%202/recommendations/"],
    ["/v1/users/nobody/recommendations?count=3", "/v1/users/nobody/recommendations?count=03"],
  ]) {
    expect([quick, routed].map((url) => parseListUrl(url) !== undefined)).toEqual([true, false])
    const answer = await ask(quick)
    expect(answer).toEqual(await ask(routed))
    expect(answer).toMatchObject({ status: 200, hasList: true })
  }
})

test("both are counted in the same series", async () => {
  const count = async () => {
    const text = String((await service.call("GET", "/metrics")).body)
    return Number(/^dess_requests_total\{.*recommendations",status="200"\} (\d+)$/m.exec(text)?.[1])
  }
  const before = await count()
  await ask("/v1/users/a/recommendations?count=5")
  await ask("/v1/users/a/recommendations?count=05")
  await expect.poll(count).toBe(before + 2)
})

test("what is refused is refused by the routes", async () => {
  for (const query of ["count=0", "count=1001", "count=x", "offset=10001", "count=1&count=2", "cuont=1", "count=-1"])
    expect(await ask(`/v1/users/a/recommendations?${query}`)).toMatchObject({ status: 400 })
  expect((await ask("/v1/users/%E0%A4%A/recommendations")).status).toBe(400)
  expect((await ask(`/v1/users/${"a".repeat(513)}/recommendations`)).status).toBe(400)
})

test("ids are decoded, and only whole paths are taken", () => {
  expect(parseListUrl("/v1/users/a%2Fb%20c/recommendations?")).toEqual({ user: "a/b c", options: {} })
  expect(parseListUrl("/v1/users/7/recommendations?count=1000&offset=0")).toEqual({
    user: "7",
    options: { count: 1000, offset: 0 },
  })
  for (const url of [
    "/v1/users//recommendations",
    "/v1/users/a/b/recommendations",
    "/v1/users/a/recommendations?count=5&seen=true",
    "/v1/users/a#/recommendations",
    "//v1/users/a/recommendations",
  ])
    expect(parseListUrl(url)).toBe(undefined)
})
