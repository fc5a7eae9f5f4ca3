/** The report of the built command in a real browser, from disk. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import type { Page } from "playwright-core"
import { afterAll, beforeAll, expect, test } from "vitest"
import { ResultsFolder } from "../../src/experiments/results.ts"
import { describeInBrowser, expectNoOverflow, photograph } from "../support/browser.ts"
import { buildCommand, dess } from "../support/command.ts"
import { makeRecords } from "../support/experiments.ts"

const EVIL = '<img src="x" onerror="document.title=1">\u202e&lt;b&gt;</script><script>document.title=2</script>'

describeInBrowser("a report", (browser) => {
  const folder = mkdtempSync(join(tmpdir(), "dess-report-browser-"))
  const address = pathToFileURL(join(folder, "report.html")).href
  let page: Page

  beforeAll(async () => {
    buildCommand()
    const methods = { "fixed-128": 4000, "dess-fre": 2000, "dess-cv": 1500, "plain-bias": 20, "uniform-2": 300 }
    const records = [
      ...Object.entries(methods).flatMap(([method, bytes], i) =>
        makeRecords({ method, bytes }, [0.6 + 0.02 * i, 0.61 + 0.02 * i]),
      ),
      ...makeRecords({ method: EVIL, data: EVIL }, [0.5, 0.55]),
      ...makeRecords({ method: "dess-fre", data: EVIL }, [0.5, 0.6]),
    ]
    const results = new ResultsFolder(join(folder, "results"))
    for (const record of records) results.append(record)
    results.close()
    const { code, stderr } = await dess(["report", join(folder, "results"), "--out", folder])
    expect([code, stderr]).toEqual([0, ""])
    page = await browser.open(address)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  test("opens from disk, draws its figures and asks for nothing", async () => {
    await page.locator("figure svg").first().waitFor()
    const figures = await page.locator("figure").count()
    expect(figures).toBeGreaterThan(7)
    for (let i = 0; i < figures; i++)
      expect(await page.locator("figure").nth(i).locator("svg").count()).toBeGreaterThan(0)
    await page.getByText("Configuration").first().click()
    await photograph(page, "report")
    browser.calm()
  })

  test("sorts a table up, down and back, by click and by key", async () => {
    const table = page.locator("table").first()
    const methods = () => table.locator("tbody td:first-child").allTextContents()
    const before = await methods()
    const head = table.getByRole("columnheader", { name: "Accuracy %" }).last()
    await head.getByRole("button").click()
    expect(await head.getAttribute("aria-sort")).toBe("descending")
    const known = (await table.locator("tbody td:nth-child(4)").allTextContents()).map(Number.parseFloat)
    const numbers = known.filter((value) => !Number.isNaN(value))
    expect(numbers.length).toBeGreaterThan(4)
    expect(numbers).toEqual(numbers.toSorted((a, b) => b - a))
    expect(known.slice(numbers.length).every(Number.isNaN)).toBe(true)
    await head.getByRole("button").press("Enter")
    expect(await head.getAttribute("aria-sort")).toBe("ascending")
    expect(await methods()).not.toEqual(before)
    await head.getByRole("button").press("Enter")
    expect(await methods()).toEqual(before)
  })

  test("names the points of the frontier under the pointer and by the arrow keys", async () => {
    await page.setViewportSize({ width: 1440, height: 900 })
    const frontier = page.locator("figure[id$=-frontier]").first()
    const svg = frontier.locator("svg")
    const names: string[] = []
    await svg.focus()
    for (let i = 0; i < 6; i++) {
      await svg.press("ArrowRight")
      names.push(String(await frontier.locator(".tip b").textContent()))
    }
    expect(names).toEqual(["majority class", "plain-bias", "uniform-2", "dess-cv", "dess-fre", "fixed-128"])
    await svg.press("Escape")
    expect(await frontier.locator(".tip").count()).toBe(0)
    await frontier.locator("g[aria-label=dot] path").first().hover()
    const tip = await frontier.locator(".tip").textContent()
    expect(names.some((name) => tip?.startsWith(name))).toBe(true)
    expect(tip).toMatch(/± .* accuracy %.* embedding kB/)
    browser.calm()
  })

  test("shows hostile names as text", async () => {
    expect(await page.title()).toBe("DESS and its controls")
    expect(await page.locator("img").count()).toBe(0)
    expect(await page.locator("td", { hasText: EVIL.slice(0, 20) }).count()).toBeGreaterThan(0)
    const names = await page.locator("td:first-child").allTextContents()
    expect(names).toContain(EVIL)
    const frontier = page.locator("figure[id$=-frontier]").nth(1)
    await frontier.locator("svg").focus()
    await frontier.locator("svg").press("ArrowRight")
    await frontier.locator("svg").press("ArrowRight")
    expect([EVIL, "dess-fre"]).toContain(await frontier.locator(".tip b").textContent())
    browser.calm()
  })

  test("gives its raw figures as files", async () => {
    for (const [role, name] of [
      ["link", "runs.csv"],
      ["link", "summary.csv"],
      ["button", "figures.json"],
    ] as const) {
      const download = page.waitForEvent("download")
      await page.getByRole(role, { name }).click()
      const text = readFileSync(await (await download).path(), "utf8")
      if (name.endsWith("csv")) expect(text).toBe(readFileSync(join(folder, name), "utf8"))
      else expect(JSON.parse(text)[0].title).toBe("Is the accuracy worth the memory?")
    }
  })

  test("fits a telephone", async () => {
    await expectNoOverflow(page)
  })
})
