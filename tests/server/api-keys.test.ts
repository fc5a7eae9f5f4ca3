import { writeFileSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { completeOptions } from "../../src/engine/options.ts"
import { configure, describeConfiguration } from "../../src/server/configuration.ts"
import { openService, removeFolder, type TestService, temporaryFolder } from "../support/service.ts"

const READ = "read-key-0123456789"
const WRITE = "write-key-0123456789"
const environment = { DESS_READ_KEY: READ, DESS_WRITE_KEY: WRITE }
const event = { user: "ada", item: "dune" }

describe("with keys", () => {
  let service: TestService
  const folder = temporaryFolder()
  beforeAll(async () => {
    writeFileSync(join(folder, "index.html"), "<title>dess</title>")
    writeFileSync(join(folder, "main.js"), "1")
    writeFileSync(join(folder, "secret.txt"), "not a page's file")
    service = await openService({ environment, page: folder })
  })
  afterAll(async () => {
    await service.stop()
    removeFolder(folder)
  })

  const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
  const status = async (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
    (await service.call(method, path, { headers, body })).status

  test("nothing is read or written without a key, or with a wrong one", async () => {
    for (const headers of [
      {},
      bearer("wrong-key-0123456789"),
      bearer(`${READ}x`),
      { "x-api-key": "" },
      bearer(READ.slice(1)),
    ]) {
      for (const path of ["/v1/status", "/v1/events", "/metrics", "/api/users", "/v1/users/ada/recommendations"])
        expect(await status("GET", path, headers as Record<string, string>), path).toBe(401)
      expect(await status("POST", "/v1/interactions", headers as Record<string, string>, event)).toBe(401)
    }
    const { headers } = await service.call("GET", "/v1/status")
    expect(headers.get("www-authenticate")).toContain("Bearer")
  })

  test("the key for reading reads and does not write; the key for writing does both", async () => {
    expect(await status("GET", "/v1/status", bearer(READ))).toBe(200)
    expect(await status("GET", "/metrics", { "x-api-key": READ })).toBe(200)
    expect(await status("POST", "/v1/predictions", bearer(READ), event)).toBe(200)
    const writes: [string, string, unknown?][] = [
      ["POST", "/v1/interactions", event],
      ["PUT", "/v1/items", { item: "dune" }],
      ["DELETE", "/v1/users/ada"],
      ["POST", "/v1/snapshots"],
      ["POST", "/api/feedback", []],
      ["DELETE", "/api/item/dune"],
    ]
    for (const [method, path, body] of writes) expect(await status(method, path, bearer(READ), body), path).toBe(403)
    expect(await status("POST", "/v1/interactions", bearer(WRITE), event)).toBe(200)
    expect(await status("GET", "/v1/status", { "x-api-key": WRITE })).toBe(200)
    expect(await status("GET", "/api/recommend/x?write-back-type=read", { "x-api-key": READ })).toBe(403)
    expect(await status("GET", "/api/recommend/x?write-back-type=read", { "x-api-key": WRITE })).toBe(200)
  })

  test("health, the description and the page need none, and only the page's files are found", async () => {
    for (const path of ["/health/live", "/health/ready", "/openapi.json", "/", "/main.js"])
      expect(await status("GET", path, {}), path).toBe(200)
    const page = await service.call("GET", "/")
    expect(page.headers.get("content-security-policy")).toContain("script-src 'self' 'wasm-unsafe-eval'")
    expect(page.headers.get("content-type")).toContain("text/html")
    const again = await fetch(`${service.url}/`, { headers: { "if-none-match": page.headers.get("etag") ?? "" } })
    expect(again.status).toBe(304)
    const head = await service.call("HEAD", "/")
    expect([head.status, head.body]).toEqual([200, ""])
    for (const name of ["content-security-policy", "content-type", "content-length", "etag", "cache-control"])
      expect(head.headers.get(name), name).toBe(page.headers.get(name))
    for (const path of [
      "/secret.txt",
      "/..%2fpackage.json",
      "/main.js%00",
      "//etc/passwd",
      "/%2e%2e/%2e%2e/etc/passwd",
    ])
      expect(await status("GET", path, {}), path).toBe(404)
  })

  test("a page of another site is refused, whatever key it has", async () => {
    const headers = { ...bearer(WRITE), origin: "https://elsewhere.example" }
    expect(await status("POST", "/v1/interactions", headers, event)).toBe(403)
    expect(await status("GET", "/v1/status", { ...bearer(WRITE), origin: "null" })).toBe(403)
    expect(await status("GET", "/v1/status", { ...bearer(WRITE), origin: service.url })).toBe(200)
  })

  test("keys appear in no answer and no log", async () => {
    const texts = await Promise.all(
      ["/openapi.json", "/metrics", "/v1/status", "/v1/nowhere"].map(async (path) =>
        JSON.stringify((await service.call("GET", path, { headers: bearer(WRITE) })).body),
      ),
    )
    for (const text of [...texts, ...service.errors]) expect(text).not.toMatch(/-key-0123456789/)
  })
})

test("without keys, a request that calls this machine by another name is refused", async () => {
  const service = await openService()
  const { port } = new URL(service.url)
  const answer = await new Promise<number>((resolve, reject) =>
    request({ port, path: "/v1/status", headers: { host: "rebound.example" } }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on("error", reject)
      .end(),
  )
  expect(answer).toBe(403)
  await service.stop()
})

describe("the configuration", () => {
  test("refuses an address beyond this machine as long as there is no key", () => {
    for (const host of ["0.0.0.0", "::", "192.168.1.7", "example.com", "127.0.0.1.example.com"])
      expect(() => configure({ host }, {}), host).toThrow(/loopback/)
    for (const host of ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
      expect(configure({ host }, {}).settings.host).toBe(host)
    expect(configure({ host: "0.0.0.0" }, environment).settings.host).toBe("0.0.0.0")
  })

  test("takes keys from the environment or a file, not both, and refuses short, equal or lonely ones", () => {
    const folder = temporaryFolder()
    const file = join(folder, "key")
    writeFileSync(file, `${WRITE}\n`)
    expect(configure({ "write-key-file": file }, {}).keys).toEqual({ read: undefined, write: WRITE })
    expect(() => configure({ "write-key-file": file }, environment)).toThrow(/both/)
    expect(() => configure({ "write-key-file": join(folder, "none") }, {})).toThrow(/readable file/)
    expect(() => configure({}, { DESS_WRITE_KEY: "short" })).toThrow(/at least 16/)
    expect(() => configure({}, { DESS_WRITE_KEY: "with a space in the key" })).toThrow(/write key/)
    expect(() => configure({}, { DESS_READ_KEY: READ })).toThrow(/write key/)
    expect(() => configure({}, { DESS_READ_KEY: READ, DESS_WRITE_KEY: READ })).toThrow(/the same/)
    removeFolder(folder)
  })

  test("is shown without its keys", () => {
    const text = JSON.stringify(describeConfiguration(configure({}, environment), completeOptions({})))
    expect(text).not.toMatch(/-key-0123456789/)
    expect(text).toContain('"writeKey":"set"')
  })
})
