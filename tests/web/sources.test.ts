/** What is written in web/ and what is built of it. */

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { beforeAll, expect, test } from "vitest"
import { PALETTE, sizeColour } from "../../src/figures/palette.ts"
import { CALIBRATED_SIZES } from "../../src/models/model.ts"
import { buildCommand } from "../support/command.ts"

const ROOT = join(import.meta.dirname, "../..")
const filesOf = (folder: string, end: string) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(end))
    .map((name) => ({ name, text: readFileSync(join(ROOT, folder, name), "utf8") }))

beforeAll(buildCommand)

test("no source of the pages makes HTML or code of a text", () => {
  const sources = filesOf("web", ".ts")
  expect(sources.length).toBeGreaterThan(15)
  for (const { name, text } of sources)
    expect(text, name).not.toMatch(/(inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc/)
})

test("the pages have strict policies and neither inline scripts nor styles", () => {
  for (const name of ["index.html", "replay.html"]) {
    const page = readFileSync(join(ROOT, "dist/web", name), "utf8")
    const [, policy] = /Content-Security-Policy" content="([^"]*)"/.exec(page) ?? []
    expect(policy).toContain("default-src 'none'; script-src 'self'")
    expect(policy).not.toMatch(/unsafe-inline|'unsafe-eval'|https?:|\*/)
    expect(page).not.toMatch(
      /<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|(src|href)="(?!\.\/|#|data:,|replay\.html)/,
    )
  }
})

test("no page has more than 300 kB of script, zipped, and none names Node's modules", () => {
  const scripts = filesOf("dist/web", ".js")
  const bytes = (names: RegExp) =>
    scripts.filter(({ name }) => names.test(name)).reduce((sum, { text }) => sum + gzipSync(text).length, 0)
  expect(bytes(/^assets\//)).toBeGreaterThan(50_000)
  expect(bytes(/^assets\//)).toBeLessThan(300_000)
  expect(bytes(/^report\.js$/)).toBeLessThan(150_000)
  for (const { name, text } of scripts) expect(text, name).not.toMatch(/from\s*["']node:|require\(["']node:(?!worker)/)
})

test("the page's light colours are those of the palette", () => {
  const theme = readFileSync(join(ROOT, "web/theme.css"), "utf8")
  const found = [...theme.matchAll(/--(\w+): light-dark\((#[0-9a-f]+), #[0-9a-f]+\);/g)].map(([, name, light]) => {
    return [name, light.length === 4 ? light.replace(/[0-9a-f]/g, "$&$&") : light]
  })
  expect(Object.fromEntries(found)).toMatchObject(PALETTE)
})

test("sizes have colours from light to dark, however many there are; each of the default's ladder has its own", () => {
  const names = ["size0", "size1", "size2", "size3", "size4", "size5", "size6"]
  expect(names.map((_, step) => sizeColour(step, CALIBRATED_SIZES.length))).toEqual(names)
  expect([sizeColour(0, 1), sizeColour(0, 2), sizeColour(1, 2), sizeColour(11, 12)]).toEqual([
    "size6",
    "size0",
    "size6",
    "size6",
  ])
})
