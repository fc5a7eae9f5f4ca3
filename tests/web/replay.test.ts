/** The replay page in a real browser. */

import { readFileSync } from "node:fs"
import type { Server } from "node:http"
import { afterAll, beforeAll, expect, test } from "vitest"
import { runStream } from "../../src/learning/loop.ts"
import type { RunOptions } from "../../src/learning/options.ts"
import type { RunResult, SegmentReport } from "../../src/learning/report.ts"
import { synthetic } from "../../src/stream/synthetic/synthetic.ts"
import { describeInBrowser, expectNoOverflow, expectSteady, photograph } from "../support/browser.ts"
import { addressOf, startServer } from "../support/web-server.ts"

interface Saved {
  result: RunResult
  segments: SegmentReport[]
}

/** The same run in Node. */
async function runInNode(options: RunOptions, interactions: number): Promise<Saved> {
  const segments: SegmentReport[] = []
  const run = runStream(synthetic({ interactions, seed: options.seed ?? 1 }), options)
  for (;;) {
    const { value, done } = await run.next()
    if (done) return { result: value, segments }
    segments.push(value)
  }
}

/** Everything but what a clock says. */
const timeless = ({ result, segments }: Saved) => {
  const { milliseconds: _, interactionsPerSecond: __, ...figures } = result
  return { figures, segments: segments.map(({ milliseconds: ___, ...report }) => report) }
}

describeInBrowser("the replay", (browser) => {
  let server: Server
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(() => server.close())

  for (const [method, recipe, kernels] of [
    ["dess-cv", "calibrated", "plain TypeScript"],
    ["dess-fre", "paper", "kernels (WebAssembly)"],
    ["plain-factor-4", "calibrated", "plain TypeScript"],
  ] as const)
    test(`runs ${method} (${recipe}) to the end, and every figure is the Node run's to the last bit`, async () => {
      const page = await browser.open(`${addressOf(server)}replay.html`)
      await page.getByLabel("Method").selectOption(method)
      await page.getByLabel("Recipe").selectOption(recipe)
      await page.getByLabel("Events").selectOption("10000")
      await page.getByLabel("Seed").fill("3")
      await page.getByLabel("Speed").selectOption("fastest")
      await page.getByRole("button", { name: "Play" }).click()
      await page.getByText(/^Done: /).waitFor()
      expect(await page.locator("#message").textContent()).toContain(kernels)
      const download = page.waitForEvent("download")
      await page.getByRole("button", { name: "Save figures" }).click()
      const saved = JSON.parse(readFileSync(await (await download).path(), "utf8")) as Saved
      const node = await runInNode({ method, recipe, seed: 3 }, 10_000)
      expect(timeless(saved)).toEqual(JSON.parse(JSON.stringify(timeless(node))))
      const row = page.locator("#runs tbody tr")
      await expect(row.locator("td").nth(4).textContent()).resolves.toBe(
        (100 * Number(node.result.accuracy)).toFixed(2),
      )
      browser.calm()
      await page.close()
    })

  test("plays, pauses, changes its speed, starts anew, and keeps a table of the runs", async () => {
    const page = await browser.open(`${addressOf(server)}replay.html`)
    const message = page.locator("#message")
    expect(await page.locator("#figures").isHidden()).toBe(true)
    await page.getByLabel("Seed").fill("-5")
    await page.getByRole("button", { name: "Play" }).click()
    expect(await page.locator("#figures").isHidden()).toBe(true)
    await page.getByLabel("Seed").fill("1")
    await page.getByLabel("Method").selectOption("esapn")
    expect(await page.getByLabel("Recipe").inputValue()).toBe("paper")
    await page.getByLabel("Method").selectOption("dess-cv")
    expect(await page.getByLabel("Recipe").inputValue()).toBe("calibrated")
    await page.getByLabel("Events").selectOption("50000")
    await page.getByRole("button", { name: "Play" }).click()
    await page.getByText(/^Segment ([3-9]|\d\d),/).waitFor()
    await page.getByRole("button", { name: "Pause" }).click()
    await page.waitForTimeout(500)
    const paused = await message.textContent()
    await page.waitForTimeout(1000)
    expect(await message.textContent()).toBe(paused)
    await page.getByLabel("Speed").selectOption("fastest")
    await page.getByRole("button", { name: "Play" }).click()
    await page.getByText(/^Done: /).waitFor()
    expect(await page.locator("#learning svg").count()).toBe(2)
    await expectSteady(page)
    await photograph(page, "replay")
    await expectNoOverflow(page)
    await page.getByLabel("Method").selectOption("fixed-128")
    await page.getByText("Press play.").waitFor()
    await page.getByLabel("Events").selectOption("10000")
    await page.getByRole("button", { name: "Play" }).click()
    await page.getByText(/^Done: /).waitFor()
    const methods = page.locator("#runs tbody td:first-child")
    expect(await methods.allTextContents()).toEqual(["dess-cv", "fixed-128"])
    const place = (await page.locator("#runs thead th").allTextContents()).findIndex((head) => head.includes("Memory"))
    const memory = async () => {
      await page.getByRole("button", { name: "Memory kB" }).click()
      const texts = await page.locator(`#runs tbody td:nth-child(${place + 1})`).allTextContents()
      return texts.map((text) => Number(text.replaceAll(/[^\d.]/g, "")))
    }
    const [one, other] = [await memory(), await memory()]
    expect(new Set(one).size).toBe(2)
    expect(other).toEqual(one.toReversed())
    expect(await page.locator("#decisions").textContent()).toContain("decides nothing")
    browser.calm()
    await page.close()
  })
})
