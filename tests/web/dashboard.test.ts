/** The dashboard in a real browser, before the real service. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { ExperimentsView, Status } from "../../src/engine/types.ts"
import { describeInBrowser, expectNoOverflow, expectSteady, photograph, WIDTHS } from "../support/browser.ts"
import { buildCommand } from "../support/command.ts"
import { killServices, type Running, serve } from "../support/serve.ts"
import { until } from "../support/service.ts"

const EVIL = '<img src=x onerror="document.title=1">/../"\'&lt;'
const KEYS = { DESS_READ_KEY: "the-key-to-read-0", DESS_WRITE_KEY: "the-key-to-write-0" }
/** For a machine with better things to do. */
const PATIENCE = { timeout: 45_000, interval: 200 }
const DEMO = ["--demo", "--rate", "300", "--threads", "1"]

const ask = async <T>(url: string, options?: RequestInit) => (await (await fetch(url, options)).json()) as T

describeInBrowser("the dashboard", (browser) => {
  let demo: Running

  beforeAll(async () => {
    buildCommand()
    demo = await serve(DEMO)
    await until(async () => (await ask<Status>(`${demo.url}/v1/status`)).segments > 8)
  }, 180_000)
  afterAll(killServices)

  test("draws every live view from what the service has learned and learns", { timeout: 120_000 }, async () => {
    const page = await browser.open(demo.url)
    await expect.poll(() => page.locator("#connection").textContent(), PATIENCE).toContain("Connected")
    expect(await page.locator("#live .lead").first().textContent()).toContain("recommends items to people")
    const verdict = () => page.locator("#verdict").textContent()
    await expect
      .poll(verdict, PATIENCE)
      .toMatch(
        /better than showing everybody the most popular items: \d+ % of what people chose next was in their list/,
      )
    await expect.poll(() => page.locator("#quality svg path[d*='L']").count(), PATIENCE).toBeGreaterThan(1)
    await expect.poll(() => page.locator("#example li").count(), PATIENCE).toBeGreaterThan(8)
    // Titles, no ids; and no word of the method.
    expect(await page.locator("#example li").allTextContents()).not.toContainEqual(expect.stringMatching(/film-/))
    expect(await page.locator("#live").textContent()).not.toMatch(/regret|rent\b|keep|dess-fre|segment/)
    expect(await page.title()).toBe("dess – overview")
    await expectSteady(page)
    await photograph(page, "live")
    await page.setViewportSize({ width: 390, height: 900 })
    expect(await page.evaluate("document.documentElement.scrollHeight")).toBeLessThan(1800)
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.goto(`${demo.url}/#method`)
    for (const id of ["learning", "sizes", "bytes", "outlook", "decisions", "regret", "health"]) {
      const figure = page.locator(`#${id}`)
      const marks = () => figure.locator("svg path[d*='L'], svg rect").count()
      await expect.poll(marks, { ...PATIENCE, message: id }).toBeGreaterThan(1)
      expect(await figure.locator("figcaption b").textContent()).toMatch(/\?$/)
    }
    for (const text of ["Recall", "Loss", "most popular"])
      expect(await page.locator("#learning").textContent()).toContain(text)
    expect(await page.title()).toBe("dess – method")
    expect(await page.locator("#method dl").textContent()).toContain("regret")
    const paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    console.log(`first contentful paint after ${Math.round(Number(paint))} ms`)
    const tile = (name: string) => page.locator("#tiles .tile", { hasText: name }).first().locator("b").textContent()
    await expect.poll(() => tile("State"), PATIENCE).toBe("learning")
    for (const name of ["Events/s", "Freshness", "Queue", "Requests"])
      await expect.poll(() => tile(name), { ...PATIENCE, message: name }).toMatch(/^\d/)
    const events = await tile("Events")
    await expect.poll(() => tile("Events"), PATIENCE).not.toBe(events)
    await photograph(page, "method")
    await expectNoOverflow(page)
    browser.calm()
    await page.close()
  })

  for (const width of WIDTHS)
    test(`nothing moves by itself in any view, ${width} pixels wide`, { timeout: 120_000 }, async () => {
      const [user] = await ask<string[]>(`${demo.url}/v1/users?count=1`)
      const [item] = await ask<string[]>(`${demo.url}/v1/items?count=1`)
      const places = {
        live: "#example li",
        method: "#learning svg",
        explore: ".chips a",
        try: "#try .list li:nth-child(12)",
      }
      const ids = { [`explore/user/${user}`]: ".answer tbody", [`explore/item/${item}`]: ".answer tbody" }
      for (const [place, filled] of Object.entries({ ...places, ...ids })) {
        const page = await browser.open(`${demo.url}/#${place}`, width)
        await page.locator(filled).first().waitFor(PATIENCE)
        await page.waitForTimeout(1500)
        expect(await page.evaluate("shifted"), place).toBeLessThan(0.005)
        expect(await page.evaluate("scrollY"), place).toBe(0)
        await page.close()
      }
    })

  test("a value that is read stays in sight while pictures are drawn anew", { timeout: 120_000 }, async () => {
    const page = await browser.open(`${demo.url}/#method`)
    const picture = page.locator("#bytes .picture").first()
    const drawn = () => page.evaluate("document.querySelector('#bytes svg').dataset.old === undefined")
    const redraw = async () => {
      await page.evaluate("document.querySelector('#bytes svg').dataset.old = ''")
      await expect.poll(drawn, PATIENCE).toBe(true)
    }
    await expect.poll(() => picture.locator("path[d*='L']").count(), PATIENCE).toBeGreaterThan(1)
    const read = async () => Number((await picture.locator(".tip b").textContent())?.replaceAll(/[^\d]/g, ""))
    await picture.locator("svg").focus()
    const values: number[] = []
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press("ArrowRight")
      values.push(await read())
      if (i % 2 === 1) await redraw()
    }
    expect(values).toEqual([...new Set(values)].toSorted((a, b) => a - b))
    expect(values).toHaveLength(6)
    expect(await page.locator("#spoken").textContent()).toContain("embeddings: ")
    await page.keyboard.press("Escape")
    expect(await picture.locator(".tip").count()).toBe(0)
    await picture.locator("svg").hover()
    await redraw()
    expect(await picture.locator(".tip").count()).toBe(1)
    await page.close()
  })

  test("explores an id that was picked, and previews without teaching", { timeout: 120_000 }, async () => {
    const page = await browser.open(`${demo.url}/#explore`)
    const first = page.locator("#explore .chips a").first()
    const user = await first.textContent(PATIENCE)
    await photograph(page, "explore-start")
    await page.setViewportSize({ width: 1440, height: 900 })
    await first.click()
    await page.getByRole("heading", { name: `User ${user}` }).waitFor(PATIENCE)
    const answer = page.locator("#explore .answer")
    expect(await answer.getByText("What did they choose lately?").count()).toBe(1)
    expect(await answer.locator("section").nth(0).locator("li").count()).toBeGreaterThan(0)
    await page.getByText("How the model holds it").click()
    const steps = answer.locator("details section tbody tr")
    expect(await steps.first().textContent()).toContain("first met")
    expect(await steps.nth(1).textContent()).toMatch(/(worth it|tried).*: grow \S+, at most [\d.e-]+; keep [\d.e-]+/)
    await answer.locator("details svg").press("ArrowRight")
    expect(await answer.locator("section .tip").textContent()).toContain("first met")
    await page.getByText("Who is like them?").waitFor(PATIENCE)
    expect(await answer.locator("section").nth(2).locator("tbody a").count()).toBe(10)
    expect(await answer.locator("section").nth(1).locator("tbody tr").count()).toBe(10)
    expect(await answer.locator("section").nth(1).textContent()).toContain("model")
    const [, item] = await ask<string[]>(`${demo.url}/v1/items?count=2`)
    await page.locator(".preview [name=item]").fill(item)
    await page.getByRole("button", { name: "Preview" }).click()
    await page.getByText("Nothing was learned.").waitFor(PATIENCE)
    expect(await page.locator(".preview tbody tr").count()).toBe(10)
    await photograph(page, "explore")
    // An item is found by its title.
    const [{ title }] = await ask<{ title: string }[]>(`${demo.url}/v1/items?query=${item}&count=1`)
    await page.locator(".preview [name=item]").fill(title)
    const asked = page.waitForRequest(
      (request) => /\/preview$/.test(request.url()) && !!request.postDataJSON().items[0],
    )
    await page.getByRole("button", { name: "Preview" }).click()
    expect((await asked).postDataJSON().items).toEqual([{ item }])
    await page.getByText("Nothing was learned.").waitFor(PATIENCE)
    await page.locator(".preview [name=item]").fill("no such film")
    await page.getByRole("button", { name: "Preview" }).click()
    await page.getByText('There is no item "no such film" yet.').waitFor(PATIENCE)
    // A chance that is tiny is not shown as none.
    await page.route(/\/preview$/, (route) => route.fulfill({ json: [{ item, score: 4e-8, source: "model" }] }))
    await page.locator(".preview [name=item]").fill(item)
    await page.getByRole("button", { name: "Preview" }).click()
    await page.locator(".preview td", { hasText: "< 0.0001" }).waitFor(PATIENCE)
    await page.unroute(/\/preview$/)
    await expectNoOverflow(page)
    await answer.locator("section").nth(1).locator("tbody a").first().click()
    await page.getByText("What is like it?").waitFor(PATIENCE)
    expect(await answer.locator("section").nth(0).locator("tbody tr").count()).toBe(10)
    await photograph(page, "explore-item")
    browser.calm()
    await page.locator("#explore [name=id]").fill("nobody")
    await page.getByRole("button", { name: "Explore" }).click()
    await page.getByText(/There is no item "nobody/).waitFor(PATIENCE)
    await page.close()
  })

  test("changes the list as a visitor picks, and writes nothing", { timeout: 120_000 }, async () => {
    const page = await browser.open(`${demo.url}/#try`)
    const list = page.locator("#try .list li")
    await list.first().waitFor(PATIENCE)
    expect(await list.first().textContent()).toContain("trending")
    const picked: (string | null)[] = []
    for (const likes of ["1 like", "2 likes", "3 likes"]) {
      picked.push(await list.first().locator("a").textContent())
      await list.first().getByRole("button").click()
      await page.getByText(`The list after ${likes}.`).waitFor(PATIENCE)
    }
    expect(await page.locator("#try .liked li").allTextContents()).toEqual(picked)
    expect(await list.first().textContent()).toContain("chance")
    await photograph(page, "try")
    // An item that is named is one there is, and is shown by its title.
    const name = async (text: string) => {
      await page.locator("#try [name=item]").fill(text)
      await page.getByRole("button", { name: "Like it" }).click()
    }
    await name("no such film")
    await page.getByText('There is no item "no such film" yet.').waitFor(PATIENCE)
    await name("the")
    await page.getByText("Several items have these words: ").waitFor(PATIENCE)
    expect(await page.locator("#try .liked li").count()).toBe(3)
    const [last] = await ask<{ item: string; title: string }[]>(
      `${demo.url}/v1/new?count=1&include=title&counted=false`,
    )
    await name(last.title)
    await page.getByText("The list after 4 likes.").waitFor(PATIENCE)
    expect(await page.locator("#try .liked li").last().textContent()).toBe(last.title)
    await name(last.item)
    expect(await page.locator("#try .liked li").count()).toBe(4)
    // By key: the focus stays in the list, so that the next one can be picked.
    await list.nth(2).getByRole("button").press("Enter")
    await page.getByText("The list after 5 likes.").waitFor(PATIENCE)
    expect(
      await page.evaluate(
        "[...document.activeElement.closest('ol').children].indexOf(document.activeElement.closest('li'))",
      ),
    ).toBe(2)
    expect(await ask<string[]>(`${demo.url}/v1/users?count=10000`)).not.toContainEqual(expect.stringMatching(/visitor/))
    await expectNoOverflow(page)
    await page.close()
  })

  test("replays under the service's content security policy", { timeout: 120_000 }, async () => {
    const page = await browser.open(`${demo.url}/replay.html`)
    // The way back has the names it has there.
    expect(await page.locator("header nav a").allTextContents()).toEqual([
      ...["Overview", "Explore", "Try it", "Method", "Replay"],
    ])
    await page.getByLabel("Events").selectOption("10000")
    await page.getByLabel("Speed").selectOption("fastest")
    await page.getByRole("button", { name: "Play" }).click()
    await page.getByText(/^Done: /).waitFor(PATIENCE)
    await page.goto(`${demo.url}/#experiments`)
    await page.getByText("Lists are not counted here. Start the service with --tracking").waitFor(PATIENCE)
    await page.close()
  })

  test("connects again after the service was restarted, and shows the new one's reports", {
    timeout: 180_000,
  }, async () => {
    const page = await browser.open(demo.url)
    const connection = page.locator("#connection")
    await expect.poll(() => connection.textContent(), PATIENCE).toContain("Connected")
    const accepted = () => page.locator("#tiles .tile", { hasText: "Events" }).first().locator("b").textContent()
    await expect.poll(accepted, PATIENCE).toMatch(/^\d/)
    const before = Number((await accepted())?.replaceAll(",", ""))
    demo.child.kill("SIGTERM")
    expect(await demo.exit).toBe(0)
    await expect.poll(() => connection.textContent(), PATIENCE).toContain("lost")
    const state = page.locator("#tiles .tile").first().locator("b")
    expect(await state.textContent()).toBe("offline")
    await page.goto(`${demo.url}/#experiments`)
    await page.getByText("The service does not answer. Try again in a moment.").waitFor(PATIENCE)
    await page.goto(`${demo.url}/#live`)
    demo = await serve([...DEMO, "--port", new URL(demo.url).port])
    await expect.poll(() => connection.textContent(), PATIENCE).toContain("Connected")
    const now = async () => Number((await accepted())?.replaceAll(",", ""))
    await expect.poll(now, PATIENCE).toBeLessThan(before)
    await expect.poll(() => state.textContent(), PATIENCE).toBe("learning")
    await page.close()
  })
})

describeInBrowser("the dashboard of a service with keys and hostile ids", (browser) => {
  let guarded: Running
  const authorization = `Bearer ${KEYS.DESS_WRITE_KEY}`
  const headers = { authorization, "content-type": "application/json" }
  const status = () => ask<Status>(`${guarded.url}/v1/status`, { headers })

  beforeAll(async () => {
    buildCommand()
    guarded = await serve(["--delay", "50ms", "--threads", "1"], KEYS)
    const items = [EVIL, "i1", "i2", "i3", "i4"]
    const events = ["u1", "u2", "u3", EVIL].flatMap((user, u) =>
      items.filter((_, i) => (u + i) % 3 > 0).map((item) => ({ user, item })),
    )
    const body = JSON.stringify(events)
    expect((await fetch(`${guarded.url}/v1/interactions`, { method: "POST", headers, body })).status).toBe(200)
    await until(async () => (await status()).events.queue === 0)
  }, 180_000)
  afterAll(killServices)

  test("asks for a key, refuses a wrong one, and keeps it for the tab only", { timeout: 120_000 }, async () => {
    const page = await browser.open(guarded.url)
    const give = async (key: string) => {
      await page.locator("dialog input").fill(key)
      await page.getByRole("button", { name: "Use it" }).click()
    }
    await page.getByText("This service asks for a key.").waitFor(PATIENCE)
    await page.screenshot({ path: "screenshots/key-1440.png" })
    // What no header can carry is not even kept.
    await give("schlüssel✓")
    await page.getByText("got another character").waitFor(PATIENCE)
    expect(await page.evaluate("sessionStorage.length")).toBe(0)
    await give("wrong")
    await page.getByText("That key was refused.").waitFor(PATIENCE)
    await give(` ${KEYS.DESS_READ_KEY}\n`)
    await expect.poll(() => page.locator("#connection").textContent(), PATIENCE).toContain("Connected")
    expect(await page.evaluate("localStorage.length")).toBe(0)
    // Reading is all this key is for, and all that trying needs.
    await page.goto(`${guarded.url}/#try`)
    await page.locator("#try .list li button").first().click()
    await page.getByText("The list after 1 like.").waitFor(PATIENCE)
    await page.getByRole("button", { name: "Forget key" }).click()
    await page.getByText("This service asks for a key.").waitFor(PATIENCE)
    const other = await browser.open(guarded.url)
    await other.getByText("This service asks for a key.").waitFor(PATIENCE)
    await Promise.all([page.close(), other.close()])
  })

  test("shows hostile ids as text wherever they stand", { timeout: 120_000 }, async () => {
    const page = await browser.open(`${guarded.url}/#explore`)
    await page.locator("dialog input").fill(KEYS.DESS_WRITE_KEY)
    await page.getByRole("button", { name: "Use it" }).click()
    await page.locator("#explore .chips a", { hasText: EVIL }).click(PATIENCE)
    await page.getByRole("heading", { name: `User ${EVIL}` }).waitFor(PATIENCE)
    await page.locator(".preview [name=item]").fill("i1")
    const { events } = await status()
    await page.getByRole("button", { name: "Preview" }).click()
    await page.getByText("Nothing was learned.").waitFor(PATIENCE)
    expect((await status()).events).toEqual(events)
    await page.goto(`${guarded.url}/#explore/item/i1`)
    await page.getByText("What is like it?").waitFor(PATIENCE)
    await page.locator("#explore .answer table a", { hasText: EVIL }).click(PATIENCE)
    await page.getByRole("heading", { name: `Item ${EVIL}` }).waitFor(PATIENCE)
    await photograph(page, "hostile")
    await expectNoOverflow(page)
    await page.goto(`${guarded.url}/#try`)
    await page.locator("#try .list li", { hasText: EVIL }).getByRole("button").click(PATIENCE)
    await page.getByText("The list after 1 like.").waitFor(PATIENCE)
    expect(await page.locator("#try .liked li").allTextContents()).toEqual([EVIL])
    expect(await page.locator("img").count()).toBe(0)
    expect(await page.title()).toBe("dess – try it")
    await page.goto(`${guarded.url}/#explore/user/..`)
    await page.getByText("expected one that can be part of an address").waitFor(PATIENCE)
    await page.close()
  })
})

describeInBrowser("the dashboard of a shop that is restarted and counts its lists", (browser) => {
  const directory = mkdtempSync(join(tmpdir(), "dess-dashboard-"))
  const variants = JSON.stringify({ model: { share: 0.5 }, popular: { share: 0.5, list: "popular" } })
  const options = ["--directory", directory, "--variants", variants, "--delay", "50ms", "--threads", "1"]
  afterAll(() => {
    killServices()
    rmSync(directory, { recursive: true, force: true })
  })

  test("says that there are no events, then keeps its charts through a restart, and shows what lists led to", {
    timeout: 180_000,
  }, async () => {
    buildCommand()
    let shop = await serve(options)
    const empty = await browser.open(shop.url)
    await expect.poll(() => empty.locator("#verdict").textContent(), PATIENCE).toContain("No events yet")
    await empty.locator("#quality .empty", { hasText: "no events yet" }).waitFor(PATIENCE)
    await empty.goto(`${shop.url}/#try`)
    // No room is kept for a list that does not come.
    await expect
      .poll(() => empty.locator("#try .list").evaluate((list) => list.clientHeight), PATIENCE)
      .toBeLessThan(99)
    const post = (body: unknown) =>
      fetch(`${shop.url}/v1/interactions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })
    // The first events make charts of one value; their ticks are round nevertheless.
    await post([{ user: "u1", item: "i1" }])
    await until(async () => (await ask<Status>(`${shop.url}/v1/status`)).segments === 1)
    await post([{ user: "u1", item: "i1" }])
    await until(async () => (await ask<Status>(`${shop.url}/v1/status`)).segments === 2)
    await empty.goto(`${shop.url}/#live`)
    const ticks = async () =>
      (await empty.locator("#quality svg [aria-label$='tick label'] text").allTextContents()).filter(
        (tick) => tick !== "",
      )
    await expect.poll(async () => (await ticks()).join(" "), PATIENCE).toMatch(/^0\.0 0\.2 0\.4 0\.6 0\.8 1\.0( \d)+$/)
    await expect
      .poll(() => empty.locator("#tiles .tile", { hasText: "Events" }).first().textContent(), PATIENCE)
      .toContain("1 user, 1 item")
    await empty.close()
    for (let round = 0; round < 4; round++) {
      const events = Array.from({ length: 200 }, (_, n) => ({ user: `u${n % 40}`, item: `i${(7 * n + round) % 31}` }))
      expect((await post(events)).status).toBe(200)
      await until(async () => (await ask<Status>(`${shop.url}/v1/status`)).events.queue === 0)
    }
    let ofPopular = ""
    for (let n = 0; n < 40; n++) {
      const response = await fetch(`${shop.url}/v1/users/u${n}/recommendations`)
      if (response.headers.get("dess-variant") === "popular") ofPopular = `u${n}`
      const [first] = (await response.json()) as { item: string }[]
      if (n % 3 === 0)
        await post([{ user: `u${n}`, item: first.item, list: response.headers.get("dess-list"), place: 1 }])
    }
    await until(async () => (await ask<Status>(`${shop.url}/v1/status`)).events.queue === 0)
    shop.child.kill("SIGTERM")
    expect(await shop.exit).toBe(0)
    shop = await serve(options)
    const page = await browser.open(`${shop.url}/#method`)
    for (const id of ["learning", "sizes", "bytes", "outlook", "decisions", "regret", "health"])
      await expect
        .poll(() => page.locator(`#${id} svg`).locator("path[d*='L'], rect").count(), { ...PATIENCE, message: id })
        .toBeGreaterThan(1)
    await page.locator("#nav-experiments").click()
    const rows = page.locator("#experiments .answer table").first().locator("tbody tr")
    await expect.poll(() => rows.count(), PATIENCE).toBe(2)
    expect(await rows.first().textContent()).toMatch(/^model.*\d %.*50 %/)
    expect(await page.locator("#experiments .answer").textContent()).toContain("Against model")
    await photograph(page, "experiments")
    await expectNoOverflow(page)
    // Looking at lists on the dashboard is no impression.
    const given = async () =>
      (await ask<ExperimentsView>(`${shop.url}/v1/experiments`)).variants.flatMap(({ name, lists }) =>
        lists.map(({ kind, impressions }) => [name, kind, impressions]),
      )
    const before = await given()
    expect(before.map(([, kind]) => kind)).toEqual(["recommend", "recommend"])
    await page.goto(`${shop.url}/#explore/user/${ofPopular}`)
    const list = page.locator("#explore section", { hasText: "What are they recommended?" }).locator("tbody tr")
    await expect.poll(() => list.count(), PATIENCE).toBeGreaterThan(0)
    for (const row of await list.allTextContents()) expect(row).toMatch(/trending$/)
    await page.goto(`${shop.url}/#explore/item/i1`)
    await page.getByText("What is like it?").waitFor(PATIENCE)
    await page.goto(`${shop.url}/#try`)
    await page.locator("#try .list button").first().click(PATIENCE)
    await page.getByText("Nothing was written").waitFor(PATIENCE)
    await page.waitForTimeout(1500)
    expect(await given()).toEqual(before)
    browser.calm()
    await page.close()
  })
})
