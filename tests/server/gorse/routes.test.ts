import { Gorse } from "gorsejs"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { ExperimentsView } from "../../../src/engine/types.ts"
import { learned, openService, removeFolder, type TestService, temporaryFolder } from "../../support/service.ts"

const KEY = "gorse-secret-0123456789"
const folder = temporaryFolder()
const timestamp = "2022-08-07T00:26:46Z"
let service: TestService
let client: Gorse<string>

async function open(): Promise<void> {
  service = await openService({ flags: { directory: folder }, environment: { DESS_WRITE_KEY: KEY } })
  client = new Gorse({ endpoint: service.url, secret: KEY })
}
beforeAll(open)
afterAll(async () => {
  await service.stop()
  removeFolder(folder)
})

const status = (code: number) => expect.objectContaining({ name: "GorseException", code })
const isLearned = () => learned({ ...service, call: (m, p) => service.call(m, p, { headers: { "x-api-key": KEY } }) })

describe("the published client of Gorse", () => {
  test("inserts, reads, changes and deletes a user", async () => {
    const user = { UserId: "100", Labels: ["a", "b", "c"], Comment: "comment" }
    expect(await client.insertUser(user)).toBe(1)
    expect(await client.getUser("100")).toStrictEqual({ ...user, Subscribe: null })
    expect(await client.updateUser("100", { Comment: "other" } as never)).toBe(1)
    expect(await client.getUser("100")).toStrictEqual({ ...user, Comment: "other", Subscribe: null })
    expect(await client.deleteUser("100")).toBe(1)
    await expect(client.getUser("100")).rejects.toThrow(status(404))
    expect(await client.insertUsers([{ UserId: "101" }, { UserId: "102" }])).toBe(2)
  })

  test("inserts, reads, changes and deletes an item", async () => {
    const item = {
      ItemId: "100",
      IsHidden: true,
      Labels: ["a"],
      Categories: ["d", "e"],
      Timestamp: timestamp,
      Comment: "c",
    }
    expect(await client.upsertItem(item)).toBe(1)
    expect(await client.getItem("100")).toStrictEqual(item)
    expect(await client.insertItemCategory("100", "f")).toBe(1)
    expect(await client.deleteItemCategory("100", "d")).toBe(1)
    expect(await client.updateItem("100", { IsHidden: false } as never)).toBe(1)
    expect(await client.getItem("100")).toStrictEqual({ ...item, IsHidden: false, Categories: ["e", "f"] })
    expect(await client.deleteItem("100")).toBe(1)
    await expect(client.getItem("100")).rejects.toThrow(status(404))
  })

  test("sends feedback, once for each user, item and type, and gets recommendations in its forms", async () => {
    const items = Array.from({ length: 40 }, (_, i) => ({
      ItemId: `i${i}`,
      IsHidden: false,
      Timestamp: new Date(1.6e12 + 1e9 * i),
      Categories: i % 2 ? ["odd"] : ["even"],
    }))
    expect(await client.upsertItems(items)).toBe(40)
    const feedback = Array.from({ length: 200 }, (_, i) => ({
      FeedbackType: i % 3 ? "like" : "read",
      UserId: `u${i % 20}`,
      ItemId: `i${(i * 7) % 30}`,
      Timestamp: timestamp,
    }))
    expect(await client.insertFeedbacks(feedback)).toBe(200)
    expect(await client.insertFeedbacks(feedback)).toBe(200)
    expect(await client.upsertFeedbacks([{ ...feedback[0], Timestamp: "2022-08-08" }])).toBe(1)
    await isLearned()
    const { body } = await service.call("GET", "/v1/status", { headers: { "x-api-key": KEY } })
    const different = new Set(feedback.map((one) => `${one.FeedbackType} ${one.UserId} ${one.ItemId}`)).size
    expect(body).toMatchObject({ events: { accepted: different + 1 } })

    const list = await client.getRecommend({ userId: "u1", cursorOptions: { n: 8 } })
    expect(list).toHaveLength(8)
    const met = feedback.filter(({ UserId }) => UserId === "u1").map(({ ItemId }) => ItemId)
    for (const id of list) expect(met).not.toContain(id)
    expect(await client.getRecommend({ userId: "u1", cursorOptions: { n: 5, offset: 3 } })).toEqual(list.slice(3))
    const odd = await client.getRecommend({ userId: "u1", category: "odd" })
    expect(odd).toHaveLength(10)
    for (const id of odd) expect(Number(id.slice(1)) % 2).toBe(1)
    expect(await client.getRecommend({ userId: "a stranger" })).toHaveLength(10)
  })

  test("reads feedback back, one by one, by user, by item, by type, and a page at a time", async () => {
    const more = { Value: 0, Labels: null }
    const like = { FeedbackType: "like", UserId: "u1", ItemId: "i7", Timestamp: timestamp, Comment: "", ...more }
    expect(await client.getFeedback({ type: "like", userId: "u1", itemId: "i7" })).toEqual(like)
    await expect(client.getFeedback({ type: "star", userId: "u1", itemId: "i7" })).rejects.toThrow(status(404))
    await expect(client.getFeedback({ type: "like", userId: "nobody", itemId: "i7" })).rejects.toThrow(status(404))
    const ofUser = await client.getUserFeedback("u1")
    expect(ofUser).toContainEqual(like)
    expect(new Set(ofUser.map(({ UserId }) => UserId))).toEqual(new Set(["u1"]))
    const reads = await client.getUserFeedbackByType("u1", "read")
    expect(reads.length).toBeGreaterThan(0)
    expect(reads).toEqual(ofUser.filter(({ FeedbackType }) => FeedbackType === "read"))
    const ofItem = await client.getItemFeedback("i7")
    expect(ofItem).toContainEqual(like)
    expect(await client.getItemFeedbackByType("i7", "like")).toEqual(
      ofItem.filter(({ FeedbackType }) => FeedbackType === "like"),
    )
    expect(await client.getItemFeedback("unknown")).toEqual([])
    for (const type of [undefined, "read"]) {
      const all: { FeedbackType: string; UserId: string; ItemId: string }[] = []
      let cursor = ""
      do {
        const page = await client.getFeedbacks(type as string, { n: 7, Cursor: cursor })
        all.push(...(page as unknown as { Feedback: typeof all }).Feedback)
        cursor = page.Cursor
      } while (cursor !== "")
      expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(all.length)
      expect(all.length).toBeGreaterThan(type ? 19 : 59)
      if (type) expect(new Set(all.map(({ FeedbackType }) => FeedbackType))).toEqual(new Set([type]))
    }
  })

  test("deletes feedback: an item with some left counts as met, one without may be recommended again", async () => {
    const both = ["like", "read"].map((FeedbackType) => ({
      FeedbackType,
      UserId: "fickle",
      ItemId: "i3",
      Timestamp: timestamp,
    }))
    const api = (method: string, path: string) => service.call(method, path, { headers: { "x-api-key": KEY } })
    await client.insertFeedbacks([...both, { ...both[0], ItemId: "i4" }])
    expect((await api("GET", "/api/feedback/fickle/i3")).body).toHaveLength(2)
    expect(await client.deleteFeedback({ type: "like", userId: "fickle", itemId: "i3" })).toEqual({ RowAffected: 1 })
    expect(await client.deleteFeedback({ type: "like", userId: "fickle", itemId: "i3" })).toEqual({ RowAffected: 0 })
    expect((await api("GET", "/v1/users/fickle")).body).toMatchObject({ events: 2 })
    expect((await api("DELETE", "/api/feedback/fickle/i3")).body).toEqual({ RowAffected: 1 })
    expect((await api("GET", "/v1/users/fickle")).body).toMatchObject({ events: 1 })
    expect(await client.getRecommend({ userId: "fickle", cursorOptions: { n: 100 } })).toContain("i3")
    expect(await client.insertFeedbacks([both[0]])).toBe(1)
    expect(await client.getUserFeedback("fickle")).toHaveLength(2)
  })

  test("gets neighbours of a user", async () => {
    const near = (await client.getUserNeighbors({ userId: "u1", cursorOptions: { n: 5 } })) as unknown as {
      Id: string
      Score: number
    }[]
    expect(near).toHaveLength(5)
    expect(near.map(({ Id }) => Id)).not.toContain("u1")
    expect(near.map(({ Score }) => Score)).toEqual(near.map(({ Score }) => Score).sort((a, b) => b - a))
    await expect(client.getUserNeighbors({ userId: "nobody" })).rejects.toThrow(status(404))
  })

  test("has what was recommended written back, so that it does not come again", async () => {
    const first = await client.getRecommend({ userId: "u2", writeBackType: "read", cursorOptions: { n: 5 } })
    const second = await client.getRecommend({ userId: "u2", cursorOptions: { n: 5 } })
    for (const id of second) expect(first).not.toContain(id)
    const later = await client.getRecommend({
      userId: "u2",
      writeBackType: "read",
      writeBackDelay: "0h0m1s",
      cursorOptions: { n: 5 },
    })
    // What was written back first may be learned meanwhile, and the order change.
    const still = await client.getRecommend({ userId: "u2", cursorOptions: { n: 100 } })
    expect(still).toEqual(expect.arrayContaining(later))
    await new Promise((resolve) => setTimeout(resolve, 1200))
    for (const id of await client.getRecommend({ userId: "u2", cursorOptions: { n: 5 } }))
      expect(later).not.toContain(id)
  })

  test("gets what is popular, what is latest, neighbours, and a list for a session", async () => {
    const popular = await client.getPopular({ cursorOptions: { n: 6 } })
    expect(popular).toHaveLength(6)
    expect(popular[0]).toEqual({ Id: expect.any(String), Score: expect.any(Number) })
    expect(popular.map(({ Score }) => Score)).toEqual(popular.map(({ Score }) => Score).sort((a, b) => b - a))
    const latest = await client.getLatest({ category: "even", cursorOptions: { n: 3 } })
    expect(latest.map(({ Id }) => Id)).toEqual(["i38", "i36", "i34"])
    const near = (await client.getItemNeighbors({ itemId: "i1", cursorOptions: { n: 4 } })) as unknown as {
      Id: string
    }[]
    expect(near).toHaveLength(4)
    const session = (await client.getSessionRecommend(
      [{ FeedbackType: "like", UserId: "new", ItemId: "i1", Timestamp: timestamp }],
      { cursorOptions: { n: 4 } },
    )) as { Id: string }[]
    const guest = { headers: { "x-api-key": KEY }, body: { items: ["i1"], count: 4 } }
    const { body } = await service.call("POST", "/v1/recommendations", guest)
    expect(session).toEqual(
      (body as { item: string; score: number }[]).map(({ item: Id, score: Score }) => ({ Id, Score })),
    )
    expect(session.map(({ Id }) => Id)).not.toContain("i1")
    await expect(client.getUser("new")).rejects.toThrow(status(404))
  })

  test("pages through users and items", async () => {
    for (const [name, get] of [
      ["Items", (Cursor: string) => client.getItems({ n: 7, Cursor })],
      ["Users", (Cursor: string) => client.getUsers({ n: 7, Cursor })],
    ] as const) {
      const ids: string[] = []
      let cursor = ""
      do {
        const page = (await get(cursor)) as unknown as Record<string, { UserId?: string; ItemId?: string }[]> & {
          Cursor: string
        }
        for (const { UserId, ItemId } of page[name]) ids.push(UserId ?? ItemId ?? "")
        cursor = page.Cursor
      } while (cursor !== "")
      expect(new Set(ids).size, name).toBe(ids.length)
      expect(ids, name).toEqual(expect.arrayContaining(name === "Items" ? ["i0", "i39"] : ["u0", "u19", "101", "102"]))
      expect(ids).not.toContain("100")
    }
  })

  test("may say that a request without a body is JSON, as many clients do", async () => {
    await client.insertFeedbacks([{ FeedbackType: "like", UserId: "brief", ItemId: "i1", Timestamp: timestamp }])
    const send = async (method: string, path: string) => {
      const headers = { "content-type": "application/json", "x-api-key": KEY }
      const response = await fetch(`${service.url}/api/${path}`, { method, headers })
      return [response.status, await response.json()]
    }
    expect(await send("DELETE", "feedback/like/brief/i1")).toEqual([200, { RowAffected: 1 }])
    expect(await send("DELETE", "user/brief")).toEqual([200, { RowAffected: 1 }])
    expect(await send("POST", "user")).toMatchObject([400, { message: "body: expected JSON, got nothing" }])
  })

  test("may send a deleted user's feedback again", async () => {
    const feedback = { FeedbackType: "like", UserId: "again", ItemId: "i1", Timestamp: timestamp }
    await client.insertFeedbacks([feedback])
    expect(await client.deleteUser("again")).toBe(1)
    await expect(client.getUser("again")).rejects.toThrow(status(404))
    await client.insertFeedbacks([feedback])
    expect(await client.getUser("again")).toMatchObject({ UserId: "again" })
  })

  test("is refused without the key, and with what is not a record", async () => {
    const stranger = new Gorse({ endpoint: service.url, secret: "another-secret-0123" })
    await expect(stranger.getPopular({})).rejects.toThrow(status(401))
    await expect(client.insertFeedbacks([{ FeedbackType: "like" } as never])).rejects.toThrow(status(400))
    const future = { FeedbackType: "like", UserId: "u", ItemId: "i", Timestamp: "2100-01-01" }
    await expect(client.insertFeedbacks([future])).rejects.toThrow(status(400))
  })

  test("finds everything again after a restart, and a deleted user's words are in no file", async () => {
    await client.insertUser({ UserId: "gone", Comment: "a secret word" })
    await client.insertFeedbacks([{ FeedbackType: "whispers", UserId: "gone", ItemId: "i1", Timestamp: timestamp }])
    const deleted = await service.call("DELETE", "/v1/users/gone", { headers: { "x-api-key": KEY } })
    expect(deleted.body).toMatchObject({ found: true, events: 1 })
    await service.stop()
    await open()
    expect(await client.getItem("i3")).toMatchObject({ Categories: ["odd"], Timestamp: "2020-10-18T05:46:40.000Z" })
    expect(await client.getUser("101")).toMatchObject({ UserId: "101" })
    expect(await client.getFeedback({ type: "like", userId: "fickle", itemId: "i4" })).toMatchObject({
      UserId: "fickle",
    })
    expect(await client.getUserFeedback("again")).toHaveLength(1)
    await expect(client.getUser("gone")).rejects.toThrow(status(404))
    const { readdirSync, readFileSync } = await import("node:fs")
    for (const name of readdirSync(folder).filter((name) => !name.endsWith(".sock")))
      for (const word of ["secret word", "whispers"])
        expect(readFileSync(`${folder}/${name}`).includes(word), `${word} in ${name}`).toBe(false)
  })
})

describe("requests of the 0.5 API description", () => {
  const call = async (method: string, path: string, { body, version }: { body?: unknown; version?: string } = {}) => {
    const headers = { "x-api-key": KEY, ...(version === undefined ? {} : { "X-API-Version": version }) }
    const { status, body: answer } = await service.call(method, path, { headers, ...(body ? { body } : {}) })
    expect({ status, answer }).toMatchObject({ status: 200 })
    return answer as never
  }
  const scored = (list: { Id: string; Score: number }[]) => {
    for (const one of list) expect(one).toStrictEqual({ Id: expect.any(String), Score: expect.any(Number) })
    return list.map(({ Id }) => Id)
  }

  beforeAll(async () => {
    const feedback = Array.from({ length: 600 }, (_, n) => ({
      FeedbackType: "star",
      UserId: `reader ${n % 20}`,
      ItemId: `book ${(n * n + (n % 20)) % 31}`,
      Timestamp: timestamp,
    }))
    await call("POST", "/api/feedback", { body: feedback })
    await isLearned()
  })

  test("a feedback keeps its value, labels and comment", async () => {
    const given = {
      FeedbackType: "watch",
      UserId: "ada",
      ItemId: "dune",
      Value: 42.5,
      Labels: { device: "phone" },
      Timestamp: timestamp,
      Comment: "late",
    }
    expect(await call("POST", "/api/feedback", { body: [given] })).toEqual({ RowAffected: 1 })
    expect(await call("GET", "/api/feedback/watch/ada/dune")).toMatchObject(given)
    expect(await call("GET", "/api/user/ada/feedback")).toMatchObject([given])
    const plain = { FeedbackType: "watch", UserId: "ada", ItemId: "solaris", Timestamp: timestamp, Comment: "" }
    await call("POST", "/api/feedback", { body: [plain] })
    expect(await call("GET", "/api/feedback/watch/ada/solaris")).toEqual({ ...plain, Value: 0, Labels: null })
  })

  test("says whether it is well", async () => {
    const well = { Ready: true, DataStoreConnected: true, CacheStoreConnected: true }
    const health = { ...well, DataStoreError: null, CacheStoreError: null }
    for (const kind of ["live", "ready"]) expect(await call("GET", `/api/health/${kind}`)).toEqual(health)
  })

  test("recommendations have scores with version 2 of the API, and are ids without", async () => {
    const ids: string[] = await call("GET", "/api/recommend/reader%203?n=4")
    expect(ids).toHaveLength(4)
    expect(scored(await call("GET", "/api/recommend/reader%203?n=4", { version: "2" }))).toEqual(ids)
    expect(scored(await call("GET", "/api/collaborative-filtering/reader%203?n=4"))).toEqual(ids)
  })

  test("lists for everybody, items like an item, users like a user", async () => {
    const popular = scored(await call("GET", "/api/non-personalized/most_starred_weekly?n=5"))
    expect(popular).toHaveLength(5)
    expect(scored(await call("GET", "/api/non-personalized/latest?n=3"))).toHaveLength(3)
    const unmet = scored(await call("GET", "/api/non-personalized/popular?n=5&user-id=reader%203"))
    const theirs = ((await call("GET", "/api/user/reader%203/feedback")) as { ItemId: string }[]).map(
      ({ ItemId }) => ItemId,
    )
    expect(unmet.filter((id) => theirs.includes(id))).toEqual([])
    const near = scored(await call("GET", "/api/item-to-item/neighbors/book%203?n=6"))
    expect(near).toHaveLength(6)
    expect(near).not.toContain("book 3")
    const left = scored(await call("GET", "/api/item-to-item/neighbors/book%203?n=6&user-id=reader%203"))
    expect(left.filter((id) => theirs.includes(id))).toEqual([])
    expect(scored(await call("GET", "/api/user-to-user/neighbors/reader%203?n=4"))).toHaveLength(4)
  })

  test("searches items", async () => {
    const { Items }: { Items: { ItemId: string }[] } = await call("GET", "/api/items?q=book%2012&n=5")
    expect(Items.map(({ ItemId }) => ItemId)).toContain("book 12")
  })
})

test("what is popular is nobody's list: it is the same where users are split, and counts as no list for a user", async () => {
  const off = { share: 0.5, list: "off" }
  const variants = { one: off, other: off }
  const own = await openService({ flags: { variants: JSON.stringify(variants) } })
  try {
    const FeedbackType = "star"
    const feedback = [0, 1, 2].map((i) => ({ FeedbackType, UserId: `u${i}`, ItemId: `i${i}`, Timestamp: timestamp }))
    expect((await own.call("POST", "/api/feedback", { body: feedback })).status).toBe(200)
    await learned(own)
    for (const path of ["/api/popular?n=3", "/api/non-personalized/popular?n=3"])
      expect((await own.call("GET", path)).body).toHaveLength(3)
    const kinds = recommendedKinds((await own.call("GET", "/v1/experiments")).body as ExperimentsView)
    expect(kinds).not.toContain("recommend")
  } finally {
    await own.stop()
  }
})

const recommendedKinds = ({ variants }: ExperimentsView) =>
  variants.flatMap(({ lists }) => lists.map(({ kind }) => kind))
