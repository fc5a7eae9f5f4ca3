/** Tests in a real browser: Debian's Chromium, driven by Playwright. Where there is none they are skipped, loudly. */

import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type BrowserContext, chromium, type Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, test } from "vitest"

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium"
const SCREENSHOTS = join(import.meta.dirname, "../../screenshots")
export const WIDTHS = [390, 1440]

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
]

/** Adds up how far things move that nobody has asked to. */
const WATCH_SHIFTS = `
globalThis.shifted = 0
new PerformanceObserver((list) => {
  for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shifted += value
}).observe({ type: "layout-shift", buffered: true })
`

export interface Browser {
  /** A new page; whatever it complains about fails the test that calls `calm`. */
  open(address: string, width?: number): Promise<Page>
  /** Expects that no page so far has logged an error or asked for anything from elsewhere. */
  calm(): void
}

/** A suite with a browser of its own. With CI=true a missing browser is a failure. */
export function describeInBrowser(name: string, body: (browser: Browser) => void): void {
  if (!existsSync(CHROMIUM)) {
    if (process.env.CI === "true")
      test(name, () => {
        throw new Error(`browser: expected Chromium at ${CHROMIUM}, got none`)
      })
    else {
      console.warn(`SKIPPED: ${name} – there is no Chromium at ${CHROMIUM} (apt-get install chromium)`)
      describe.skip(name, () => body(undefined as never))
    }
    return
  }
  describe(name, () => {
    const profile = mkdtempSync(join(tmpdir(), "dess-browser-"))
    const complaints: string[] = []
    let context: BrowserContext

    beforeAll(async () => {
      context = await chromium.launchPersistentContext(profile, {
        executablePath: CHROMIUM,
        headless: true,
        args: FLAGS,
        acceptDownloads: true,
      })
      context.setDefaultTimeout(15_000)
    })
    afterAll(async () => {
      await context?.close()
      rmSync(profile, { recursive: true, force: true })
    })

    body({
      async open(address, width = 1440) {
        const page = await context.newPage()
        await page.setViewportSize({ width, height: 900 })
        page.on("console", (message) => {
          if (message.type() === "error") complaints.push(message.text())
        })
        page.on("pageerror", (error) => complaints.push(error.message))
        page.on("request", (request) => {
          const url = new URL(request.url())
          if (url.protocol !== "data:" && url.protocol !== "blob:" && url.origin !== new URL(address).origin)
            complaints.push(`asks for ${url}`)
        })
        await page.addInitScript(WATCH_SHIFTS)
        await page.goto(address)
        return page
      },
      calm: () => expect(complaints).toEqual([]),
    })
  })
}

/** Pictures of the page at both widths and in both themes, for people to look at. */
export async function photograph(page: Page, name: string): Promise<void> {
  mkdirSync(SCREENSHOTS, { recursive: true })
  for (const theme of ["light", "dark"]) {
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 })
      await page.waitForTimeout(150)
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${width}-${theme}.png`), fullPage: true })
    }
    await page.getByRole("button", { name: theme === "light" ? "Use dark colours" : "Use light colours" }).click()
  }
}

/** Nothing sticks out of the page at a telephone's width. */
export async function expectNoOverflow(page: Page): Promise<void> {
  await page.setViewportSize({ width: 390, height: 900 })
  const width = await page.evaluate("document.documentElement.scrollWidth")
  expect(width).toBeLessThanOrEqual(390)
}

/** Things have stayed where they were: 0.1 is what browsers' makers call good, this is a fifth of a line of text. */
export async function expectSteady(page: Page): Promise<void> {
  expect(await page.evaluate("shifted")).toBeLessThan(0.005)
}
