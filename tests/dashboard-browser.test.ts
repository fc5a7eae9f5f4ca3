/** The dashboard in a real browser, before a stand-in for the service. */

import type { Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, expect, test } from "vitest"
import { describeInBrowser, expectNoOverflow, expectSteady, photograph } from "./support/browser.ts"
import { buildCommand } from "./support/command.ts"
import { makeReports, startFake } from "./support/fake-service.ts"
import { addressOf } from "./support/web-server.ts"

const EVIL = '<img src=x onerror="document.title=1">/../"\'&lt;'

describeInBrowser("the dashboard", (browser) => {
  let server: Server
  let reports: object[]
  const stop = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }

  beforeAll(async () => {
    buildCommand()
    reports = await makeReports(15_000)
    server = await startFake({ reports, item: EVIL })
  })
  afterAll(stop)

  test("draws every live view from the reports it hears", async () => {
    const page = await browser.open(addressOf(server))
    await page.getByText("Live", { exact: true }).last().waitFor()
    for (const id of ["learning", "sizes", "bytes", "outlook", "decisions", "regret", "health"]) {
      const figure = page.locator(`#${id}`)
      await expect.poll(() => figure.locator("svg path, svg rect").count(), { message: id }).toBeGreaterThan(1)
      expect(await figure.locator("figcaption b").textContent()).toMatch(/\?$/)
    }
    const tiles = await page.locator("#tiles").textContent()
    expect(tiles).toContain("learning")
    expect(tiles).toMatch(/Events\/s1,000/)
    expect(tiles).toMatch(/Requests3 ms/)
    await expectSteady(page)
    await photograph(page, "live")
    await expectNoOverflow(page)
    browser.calm()
    await page.close()
  })

  test("explores a hostile id as text, and follows links from one to the next", async () => {
    const page = await browser.open(`${addressOf(server)}#explore`)
    await page.getByRole("textbox", { name: "Id" }).fill(EVIL)
    await page.getByRole("button", { name: "Explore" }).click()
    await page.getByRole("heading", { name: `User ${EVIL}` }).waitFor()
    expect(await page.locator("#explore img").count()).toBe(0)
    expect(await page.title()).toBe("dess")
    expect(await page.locator("#explore .answer").textContent()).toContain("bound of grow led")
    await photograph(page, "explore")
    await page.getByRole("link", { name: EVIL }).click()
    await page.getByRole("heading", { name: `Item ${EVIL}` }).waitFor()
    await expectNoOverflow(page)
    browser.calm()
    await page.getByRole("textbox", { name: "Id" }).fill("nobody")
    await page.getByRole("button", { name: "Explore" }).click()
    await page.getByText("id: expected a known one, got nobody").waitFor()
    await page.close()
  })

  test("changes the list as a visitor picks", async () => {
    const page = await browser.open(`${addressOf(server)}#try`)
    const first = page.locator("#try .list li").first()
    await first.waitFor()
    expect(await first.locator("a").textContent()).toBe(EVIL)
    await first.getByRole("button").click()
    await page.getByText("The list after 1 like.").waitFor()
    expect(await first.locator("a").textContent()).toBe("i0")
    expect(await page.locator("#try .liked li").allTextContents()).toEqual([EVIL])
    await photograph(page, "try")
    await page.close()
  })

  test("connects again after the service was restarted", async () => {
    const page = await browser.open(addressOf(server))
    const connection = page.locator("#connection")
    await expect.poll(() => connection.textContent()).toBe("Live")
    const { port } = server.address() as AddressInfo
    await stop()
    await expect.poll(() => connection.textContent()).toContain("lost")
    server = await startFake({ reports: reports.slice(0, 20), item: EVIL, port })
    await expect.poll(() => connection.textContent(), { timeout: 10_000 }).toBe("Live")
    await page.close()
  })

  test("asks for a key where the service does, and forgets it with the tab", async () => {
    const guarded = await startFake({ reports, item: "i0", key: "s3cret" })
    const page = await browser.open(addressOf(guarded))
    await page.locator("dialog input").fill("wrong")
    await page.getByRole("button", { name: "Use it" }).click()
    await page.getByText("That key was refused.").waitFor()
    await page.locator("dialog input").fill("s3cret")
    await page.getByRole("button", { name: "Use it" }).click()
    await expect.poll(() => page.locator("#connection").textContent()).toBe("Live")
    expect(await page.evaluate("localStorage.length")).toBe(0)
    const other = await browser.open(addressOf(guarded))
    await other.getByText("This service asks for a key.").waitFor()
    await Promise.all([page.close(), other.close()])
    guarded.closeAllConnections()
    guarded.close()
  })
})
