/** examples/shop as its visitors use it: a process of its own, asked by HTTP, and by a browser. */

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { ItemView, Recommendation } from "../src/engine/types.ts"
import { describeInBrowser } from "./support/browser.ts"
import { buildCommand, dess } from "./support/command.ts"

const SHOP = join(import.meta.dirname, "../examples/shop/shop.mjs")
const PATIENCE = { timeout: 30_000, interval: 100 }

type Listed = Recommendation & { why?: { items: { item: string }[] } }
type Lists = Record<"forYou" | "popular" | "fresh", Listed[]>

class Shop {
  readonly #directory = mkdtempSync(join(tmpdir(), "dess-shop-"))
  #process: ChildProcess | undefined
  url = ""

  /** As the example says, once. */
  async import(): Promise<void> {
    const of = (name: string) => join(SHOP, "..", name)
    const types = ["--types", '{"view":0.2,"cart":0.5,"purchase":1}']
    for (const args of [
      [of("products.ndjson"), "--items"],
      [of("purchases.csv"), ...types],
    ]) {
      const { code, stderr } = await dess(["import", ...args, "--directory", this.#directory])
      if (code !== 0) throw new Error(stderr)
    }
  }

  async open(): Promise<void> {
    const port = this.url === "" ? "0" : new URL(this.url).port
    const child = spawn(process.execPath, [SHOP, this.#directory, port], { stdio: ["ignore", "pipe", "inherit"] })
    this.#process = child
    for await (const line of createInterface({ input: child.stdout })) {
      this.url = /http:\S+/.exec(line)?.[0] ?? ""
      if (this.url) return
    }
    throw new Error("shop: expected it to say where it is, it ended")
  }

  async close(): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (!child || child.exitCode !== null) return
    child.kill("SIGTERM")
    await once(child, "exit")
  }

  async remove(): Promise<void> {
    await this.close()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async ask<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(this.url + path, { method, ...(body && { body: JSON.stringify(body) }) })
    const answer = await response.json()
    if (!response.ok) throw new Error((answer as { error: string }).error)
    return answer as T
  }

  home = (visitor: string, rules = "stock=1") => this.ask<Lists>("GET", `/api/home?visitor=${visitor}&${rules}`)
  product = (id: string, rules = "stock=1") =>
    this.ask<ItemView & { similar: Listed[] }>("GET", `/api/product?id=${id}&${rules}`)
  tell = (user: string, type: string, items: string[]) =>
    Promise.all(items.map((item) => this.ask("POST", "/api/event", { user, item, type })))
}

const idsOf = (list: readonly { item: string }[]) => list.map(({ item }) => item)
const priceOf = ({ properties }: Listed) => properties?.price as number

describe("the shop", () => {
  const shop = new Shop()
  beforeAll(async () => {
    buildCommand()
    await shop.import()
    await shop.open()
  }, 120_000)
  afterAll(() => shop.remove())

  test("has imported the purchase log: lists leave out what was bought, and are the customer's own", async () => {
    const { forYou, popular } = await shop.home("customer-1", "count=40")
    expect(forYou.length).toBeGreaterThan(30)
    expect(forYou.length).toBeLessThan(48)
    expect(idsOf(forYou)).not.toEqual(idsOf(popular).slice(0, forYou.length))
    expect(forYou[0]).toMatchObject({ title: expect.any(String), source: "model" })
  })

  test("knows three types of events: what was looked at stays in lists, what was bought does not", async () => {
    await shop.tell("ada", "view", ["plant-1", "plant-2"])
    await shop.tell("ada", "cart", ["plant-3"])
    await shop.tell("ada", "purchase", ["plant-4"])
    const { forYou } = await shop.home("ada", "count=48")
    const ids = idsOf(forYou)
    expect(ids).toEqual(expect.arrayContaining(["plant-1", "plant-2", "plant-3"]))
    expect(ids).not.toContain("plant-4")
    expect(forYou.slice(0, 8).filter(({ categories }) => categories?.includes("garden")).length).toBeGreaterThan(2)
    await expect(shop.tell("ada", "stare", ["plant-1"])).rejects.toThrow(/type/)
  })

  test("has a list for a guest by what was clicked on, and nothing is kept of it", async () => {
    const list = await shop.ask<Listed[]>("POST", "/api/guest", { items: ["book-1", "book-2"], count: 8 })
    expect(list).toHaveLength(8)
    expect(list.filter(({ categories }) => categories?.includes("books")).length).toBeGreaterThan(2)
  })

  test("shows nothing that is sold out, from the next list on", async () => {
    const before = await shop.product("toy-1")
    expect(before.similar.every(({ properties }) => properties?.inStock === true)).toBe(true)
    const [gone] = idsOf(before.similar)
    await shop.ask("PUT", "/api/product", { item: gone, properties: { inStock: false } })
    expect(idsOf((await shop.product("toy-1")).similar)).not.toContain(gone)
    const lists = await shop.home("customer-3", "stock=1&count=48")
    for (const list of Object.values(lists)) expect(idsOf(list)).not.toContain(gone)
    expect(idsOf((await shop.home("customer-3", "count=48")).fresh)).toContain(gone)
  })

  test("keeps to a price, puts a brand first and takes two of a kind, with as many as there are", async () => {
    const lists = await shop.home("customer-4", "stock=1&price=20&count=48")
    for (const list of Object.values(lists)) {
      expect(list.length).toBeGreaterThan(3)
      expect(list.every((one) => priceOf(one) <= 20)).toBe(true)
    }
    const alder = async (rules: string) =>
      (await shop.home("customer-4", rules)).forYou.filter(({ properties }) => properties?.brand === "Alder").length
    expect(await alder("count=10&boost=Alder")).toBeGreaterThan(await alder("count=10"))
    const { popular } = await shop.home("customer-4", "cap=2&count=12")
    expect(popular).toHaveLength(12)
    const counts = new Map<string, number>()
    for (const name of popular.flatMap(({ categories = [] }) => categories))
      counts.set(name, (counts.get(name) ?? 0) + 1)
    expect([...counts.values()]).toEqual([2, 2, 2, 2, 2, 2])
  })

  test("finds a new item within its first events", async () => {
    const properties = { price: 15, inStock: true, brand: "Cedar" }
    await shop.ask("PUT", "/api/product", { item: "lamp-9", title: "Moon lamp", categories: ["lighting"], properties })
    expect(idsOf((await shop.home("stranger")).fresh)[0]).toBe("lamp-9")
    expect(await shop.ask<ItemView[]>("GET", "/api/search?query=moon")).toMatchObject([{ item: "lamp-9" }])
    // Nobody knows it: a place that is kept for what is new has it, among other new things in turn.
    const last = async () => (await shop.home("customer-5", "stock=1&count=6&fresh=1")).forYou.at(-1)?.item
    await expect.poll(last, PATIENCE).toBe("lamp-9")
    await shop.tell("fan-0", "purchase", ["lamp-1", "lamp-2", "lamp-3"])
    for (let fan = 1; fan <= 4; fan++) await shop.tell(`fan-${fan}`, "purchase", ["lamp-1", "lamp-2", "lamp-9"])
    await expect
      .poll(async () => idsOf((await shop.home("fan-0", "stock=1&count=10")).forYou), PATIENCE)
      .toContain("lamp-9")
  })

  test("makes what a guest did the customer's who signs in", async () => {
    await shop.tell("guest-1", "view", ["chair-1", "chair-2"])
    await shop.tell("guest-1", "purchase", ["chair-3"])
    await shop.ask("POST", "/api/sign-in", { guest: "guest-1", user: "grace" })
    const { forYou } = await shop.home("grace", "count=48")
    expect(idsOf(forYou)).not.toContain("chair-3")
    await expect.poll(async () => (await shop.home("grace")).forYou[0].source, PATIENCE).toBe("model")
    expect(idsOf((await shop.home("guest-1", "count=48")).forYou)).toContain("chair-3")
  })

  test("says why: the customer's own items speak for an item", async () => {
    const { forYou } = await shop.home("ada", "count=5")
    const behind = forYou.flatMap(({ why }) => idsOf(why?.items ?? []))
    expect(behind.length).toBeGreaterThan(0)
    for (const item of behind) expect(["plant-1", "plant-2", "plant-3", "plant-4"]).toContain(item)
  })

  test("is the same after a restart, and forgets who asks for it", async () => {
    const rules = "stock=1&price=40&count=10"
    // Everything is learned before it ends, so that it may differ in nothing.
    await shop.close()
    await shop.open()
    const before = await shop.home("customer-2", rules)
    await shop.close()
    await shop.open()
    const after = await shop.home("customer-2", rules)
    for (const name of ["forYou", "popular", "fresh"] as const) expect(idsOf(after[name])).toEqual(idsOf(before[name]))
    expect((await shop.product("lamp-9")).title).toBe("Moon lamp")
    expect(await shop.ask("DELETE", "/api/user?id=ada")).toMatchObject({ status: "done", found: true })
    expect(idsOf((await shop.home("ada", "count=48")).forYou)).toContain("plant-4")
    expect(await shop.ask("DELETE", "/api/product?id=lamp-9")).toBe(1)
    await shop.close()
    await shop.open()
    expect(idsOf((await shop.home("ada", "count=48")).forYou)).toContain("plant-4")
    expect(await shop.ask<ItemView[]>("GET", "/api/search?query=moon")).toEqual([])
  })
})

describeInBrowser("the shop's page", (browser) => {
  const shop = new Shop()
  beforeAll(async () => {
    buildCommand()
    await shop.import()
    await shop.open()
  }, 120_000)
  afterAll(() => shop.remove())

  test("serves a guest, a customer who signs in, what is new, after a restart, and who wants to be forgotten", {
    timeout: 120_000,
  }, async () => {
    const page = await browser.open(shop.url)
    const titles = (list: string) => page.locator(`#${list} li a`).allTextContents()
    const notes = (list: string) => page.locator(`#${list} li .notes`).allTextContents()
    await expect.poll(() => titles("for-you"), PATIENCE).toHaveLength(6)
    expect(await page.locator("#visitor").textContent()).toBe("a guest")
    // Nothing sold out, then a price, two of a kind, a brand.
    for (const list of ["for-you", "popular", "new"]) expect((await notes(list)).join()).not.toContain("sold out")
    await page.fill("[name=price]", "20")
    await page.press("[name=price]", "Enter")
    const prices = async () => (await notes("popular")).map((text) => Number(/(\d+) €/.exec(text)?.[1]))
    await expect.poll(async () => Math.max(...(await prices())), PATIENCE).toBeLessThanOrEqual(20)
    await page.fill("[name=price]", "")
    await page.check("[name=cap]")
    const most = async () => {
      const kinds = (await notes("popular")).map((text) => text.split(",")[0])
      return Math.max(...kinds.map((kind) => kinds.filter((other) => other === kind).length))
    }
    await expect.poll(most, PATIENCE).toBeLessThanOrEqual(2)
    await page.uncheck("[name=cap]")
    await page.check("[name=boost]")
    await expect.poll(async () => (await notes("popular"))[0], PATIENCE).toContain("Alder")
    await page.uncheck("[name=boost]")
    // Looks at three plants, puts one into the cart and buys another.
    for (const id of ["plant-1", "plant-2", "plant-3"]) {
      await page.goto(`${shop.url}/#${id}`)
      await expect.poll(() => page.locator(`#product a[href="#${id}"]`).count(), PATIENCE).toBe(1)
      expect(await page.locator("#similar li").count()).toBeGreaterThan(3)
      expect((await notes("similar")).join()).not.toContain("sold out")
      if (id !== "plant-2") continue
      await page.click("#product .cart")
      await expect.poll(() => page.locator("#message").textContent(), PATIENCE).toContain("cart")
    }
    await page.click("#product .purchase")
    await expect.poll(() => page.locator("#message").textContent(), PATIENCE).toContain("bought")
    await page.goto(`${shop.url}/#home`)
    await expect.poll(async () => (await notes("because")).join(), PATIENCE).toContain("garden")
    await expect
      .poll(async () => (await page.locator("#for-you .why").allTextContents()).join(), PATIENCE)
      .toContain((await shop.product("plant-2")).title)
    const bought = (await shop.product("plant-3")).title as string
    expect(await titles("for-you")).not.toContain(bought)
    // Who comes straight to a product has looked at it; what is sold out cannot be bought, what there is not makes no item.
    await shop.ask("PUT", "/api/product", { item: "stool-9", title: "Tall stool", properties: { inStock: false } })
    const other = await browser.open(`${shop.url}/#stool-9`)
    await expect.poll(() => other.locator("#product button:disabled").count(), PATIENCE).toBe(2)
    expect(await other.evaluate("sessionStorage.clicks")).toBe('["stool-9"]')
    await other.reload()
    await expect.poll(() => other.locator("#product button:disabled").count(), PATIENCE).toBe(2)
    expect((await shop.product("stool-9")).events).toBe(1)
    await other.close()
    await expect(shop.tell("linus", "view", ["no such thing"])).rejects.toThrow("there is no such product")
    expect(await shop.ask("GET", "/api/search?query=no+such")).toEqual([])
    await shop.ask("DELETE", "/api/product?id=stool-9")
    // Signs in, out and in again: it is the same person.
    const signIn = async () => {
      await page.fill("[name=user]", "linus")
      await page.click("#sign-in [type=submit]")
      await expect.poll(() => page.locator("#visitor").textContent(), PATIENCE).toBe("linus")
    }
    await signIn()
    await page.click("#sign-out")
    await expect.poll(() => page.locator("#visitor").textContent(), PATIENCE).toBe("a guest")
    await expect.poll(() => page.locator("#for-you .why").count(), PATIENCE).toBe(0)
    await signIn()
    // Until then the guest's list stands there.
    await expect.poll(() => page.locator("#for-you .why").count(), PATIENCE).toBeGreaterThan(0)
    expect(await titles("for-you")).not.toContain(bought)
    // Something new is shown to those it may please, before anybody has met it, and found by them after a few events.
    const properties = { price: 15, inStock: true, brand: "Cedar" }
    await shop.ask("PUT", "/api/product", { item: "lamp-9", title: "Moon lamp", categories: ["lighting"], properties })
    const reload = async () => {
      await page.reload()
      await expect.poll(() => titles("for-you"), PATIENCE).toHaveLength(6)
      return titles("for-you")
    }
    await expect.poll(reload, PATIENCE).toContain("Moon lamp")
    expect((await titles("new"))[0]).toBe("Moon lamp")
    for (let fan = 1; fan <= 4; fan++) await shop.tell(`fan-${fan}`, "purchase", ["lamp-1", "lamp-2", "lamp-9"])
    await shop.tell("linus", "view", ["lamp-1", "lamp-2"])
    await expect.poll(reload, PATIENCE).toContain("Moon lamp")
    // The shop is opened again: everything is as it was.
    await shop.close()
    await shop.open()
    expect(await reload()).not.toContain(bought)
    expect(await page.locator("#visitor").textContent()).toBe("linus")
    expect(idsOf((await shop.home("linus", "count=48")).forYou)).not.toContain("plant-3")
    // Searches, and is forgotten.
    await page.fill("[name=query]", "lamp desk")
    await page.press("[name=query]", "Enter")
    await expect.poll(() => titles("found"), PATIENCE).toEqual(["Desk lamp"])
    // From a product's page, too.
    await page.goto(`${shop.url}/#plant-1`)
    await expect.poll(() => page.locator("#similar").count(), PATIENCE).toBe(1)
    await page.fill("[name=query]", "lamp floor")
    await page.press("[name=query]", "Enter")
    await expect.poll(() => titles("found"), PATIENCE).toEqual(["Floor lamp"])
    await page.click("#forget")
    await expect.poll(() => page.locator("#message").textContent(), PATIENCE).toBe("Forgotten: done")
    expect(idsOf((await shop.home("linus", "count=48")).forYou)).toContain("plant-3")
    browser.calm()
    await page.close()
  })
})
