/** How well settings would have predicted what people did, by a replay of the journal. */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest"
import { estimateCommand } from "../../src/cli/estimate.ts"
import { Recommender } from "../../src/engine/open.ts"
import { Random } from "../../src/kernels/random.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-estimate-"))
const directory = join(folder, "shop")
let printed = ""

beforeAll(async () => {
  vi.spyOn(console, "log").mockImplementation((text) => {
    printed += `${text}\n`
  })
  // Forty people of two tastes, forty things: what is next is one of twenty, what is popular is of both.
  const random = new Random(3, "estimate")
  const recommender = await Recommender.open({ directory, types: { view: 0.5, purchase: 1 }, leaveOut: [] })
  await recommender.putItems(Array.from({ length: 40 }, (_, i) => ({ item: `i${i}`, categories: [`c${i % 2}`] })))
  await recommender.observe(
    Array.from({ length: 4000 }, (_, n) => {
      const user = random.integer(40)
      const item = `i${2 * random.integer(20) + (user % 2)}`
      return { user: `u${user}`, item, type: n % 4 === 0 ? "purchase" : "view", timestamp: 1_700_000_000 + n }
    }),
  )
  await recommender.close()
})
afterEach(() => {
  printed = ""
})
afterAll(() => {
  vi.restoreAllMocks()
  rmSync(folder, { recursive: true, force: true })
})

test("the lists of a model that knows tastes have more hits than what is popular, and nothing in the directory changes", async () => {
  const files = () => readdirSync(directory).filter((name) => !name.endsWith(".sock"))
  const journal = () =>
    files().map((name) => [name, name.includes("journal") && readFileSync(join(directory, name)).length])
  const before = journal()
  const seen = { seen: true }
  const variants = {
    model: { share: 0.25, options: seen },
    popular: { share: 0.25, list: "popular", options: seen },
    wrong: { share: 0.25, options: { ...seen, filter: { category: "c0" } } },
    off: { share: 0.25, list: "off" },
  }
  await estimateCommand(["--directory", directory, "--variants", JSON.stringify(variants), "--every", "3", "--json"])
  const { lists, users, settings } = JSON.parse(printed)
  expect(lists).toBe(267)
  expect(users).toBeGreaterThan(30)
  const [model, popular, wrong] = settings
  expect(settings).toHaveLength(3)
  // Ten of the twenty of one's own taste, or about five of them among ten of all.
  expect(model.hits.estimate).toBeGreaterThan(0.4)
  expect(popular.difference.high).toBeLessThan(0)
  expect(wrong.difference.high).toBeLessThan(0)
  expect(model.difference).toBeUndefined()
  expect(journal()).toEqual(before)
})

test("of one type alone, as a table that says what it is", async () => {
  await estimateCommand(["--directory", directory, "--of", "purchase", "--every", "20"])
  expect(printed).toMatch(
    /A list of 10 was made before each of \d+ events of \d+ users\. How many had the event's item:/,
  )
  expect(printed).toMatch(/model +\d+\.\d/)
  expect(printed).toContain("without seeing these lists")
})

test("each setting gives what the service would, and a sentence says what can be said", async () => {
  // Everybody has met everything, and no type leaves anything out: popular items are met ones, too.
  await estimateCommand(["--directory", directory, "--every", "3"])
  expect(printed).toMatch(/popular +[1-9]\d*\.\d \(/)
  expect(printed).toContain("popular has fewer hits than model.")
  expect(printed).toMatch(/2\d\d of these events are of items that their user had met before/)
  printed = ""
  await estimateCommand(["--directory", directory, "--last", "0.01", "--every", "40"])
  expect(printed).toMatch(/Whether popular or model has more hits cannot be said from so few events/)
  expect(printed).not.toMatch(/to [2-9]\d\d\.\d\)/)
  printed = ""
  const variants = { one: { share: 0.5 }, same: { share: 0.5 } }
  await estimateCommand(["--directory", directory, "--every", "20", "--variants", JSON.stringify(variants)])
  expect(printed).toContain("Whether same or one has more hits cannot be said from so few events")
})

test.each([
  [
    ["--of", "gift"],
    /expected events to predict, got none of type "gift" \((there are view, purchase|there are purchase, view)\)/,
  ],
  [["--variants", "{"], /--variants: expected JSON/],
  [["--variants", '{"a":{"share":1}}'], /variants: expected 2 to 16/],
  [["--last", "0"], /--last: expected more than 0/],
  [["--types", '{"view":"much"}'], /weight of type "view"/],
])("refuses %j", async (args, expected) => {
  await expect(estimateCommand(["--directory", directory, ...args])).rejects.toThrow(expected)
})
