/** Whether lists pay: what is counted, variants that never change, intervals that hold. */

import { cpSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { Experiments, ListCounts } from "../../src/engine/experiments.ts"
import { Recommender } from "../../src/engine/open.ts"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { RecommenderOptions, Variants } from "../../src/engine/types.ts"
import { Random } from "../../src/kernels/random.ts"

const folder = mkdtempSync(join(tmpdir(), "dess-experiments-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const HALVES: Variants = { a: { share: 0.5 }, b: { share: 0.5, list: "popular" } }
const settings = { variants: HALVES, conversions: ["purchase"] }

test("a user's variant follows from its id, and shares are kept", () => {
  const variants: Variants = { a: { share: 0.2 }, b: { share: 0.5 }, off: { share: 0.3, list: "off" } }
  const [one, other] = [1, 2].map(() => new Experiments({ variants, conversions: [] }, new ListCounts()))
  const counts: Record<string, number> = { a: 0, b: 0, off: 0 }
  for (let n = 0; n < 20_000; n++) {
    const variant = one.variantOf(`user ${n}`) as string
    expect(other.variantOf(`user ${n}`)).toBe(variant)
    counts[variant]++
  }
  for (const [name, { share }] of Object.entries(variants)) expect(counts[name] / 20_000).toBeCloseTo(share, 1)
})

/** A shop of users who differ: some come often, some click on everything, and a list of `b` is clicked more by `lift`. */
function simulate(seed: number, lift: number, counts = new ListCounts()): Experiments {
  const random = new Random(seed, "shop")
  const experiments = new Experiments(settings, counts)
  for (let n = 0; n < 400; n++) {
    const user = `shopper ${seed}-${n}`
    const taste = 0.3 * random.next()
    const visits = 1 + random.integer(30)
    for (let visit = 0; visit < visits; visit++) {
      const { id, variant } = experiments.give("recommend", user)
      const chance = taste + (variant === "b" ? lift : 0)
      if (random.next() < chance) experiments.observe({ user, type: undefined, list: id, place: 1 })
    }
  }
  counts.add(experiments.take())
  return experiments
}

test("intervals of two variants cover the true difference in about 95 of 100 runs", { timeout: 600_000 }, () => {
  const lift = 0.04
  let covered = 0
  for (let seed = 1; seed <= 200; seed++) {
    const { differences } = simulate(seed, lift).view()
    const { low, high } = differences.find(({ rate }) => rate === "click") as { low: number; high: number }
    if (low <= lift && lift <= high) covered++
  }
  // Of 200 runs at 95 %: 190 ± 3 σ.
  expect(covered).toBeGreaterThanOrEqual(181)
  expect(covered).toBeLessThanOrEqual(199)
})

async function shop(options: RecommenderOptions): Promise<Recommender> {
  const recommender = await Recommender.open({ types: { view: 0.2, purchase: 1 }, ...options })
  const events = Array.from({ length: 600 }, (_, n) => ({ user: `u${n % 30}`, item: `i${(n * n) % 41}`, type: "view" }))
  await recommender.observe(events)
  await recommender.drain()
  return recommender
}

test("lists have ids, and what names them is counted by kind, variant and place", async () => {
  const recommender = await shop({ variants: HALVES })
  const list = await recommender.recommend("u1", { count: 5 })
  expect(list).toHaveLength(5)
  expect(list.variant).toMatch(/^[ab]$/)
  await recommender.observe({ user: "u1", item: list[1].item, type: "view", list: list.id, place: 2 })
  await recommender.observe({ user: "u1", item: list[1].item, type: "purchase", list: list.id, place: 2 })
  await recommender.observe({ user: "u1", item: "i3", type: "purchase" })
  const similar = await recommender.similar("i1")
  await recommender.observe({ user: "u2", item: similar[0].item, type: "view", list: similar.id, place: 1 })
  const { variants, differences } = recommender.experiments?.() ?? { variants: [], differences: [] }
  const own = variants.find(({ name }) => name === list.variant)?.lists[0]
  expect(own).toMatchObject({ kind: "recommend", impressions: 1, clicks: 2, conversions: 1, outcomes: 2 })
  expect(own?.clicksByPlace).toEqual([0, 2])
  const nobodys = variants.find(({ name }) => name === "all")?.lists
  expect(nobodys).toMatchObject([{ kind: "similar", impressions: 1, clicks: 1 }])
  expect(differences.map(({ variant, against }) => [variant, against])).toEqual([
    ["b", "a"],
    ["b", "a"],
    ["b", "a"],
  ])
  await recommender.close()
})

test("a list that nobody is shown has no id and is not counted", async () => {
  const recommender = await shop({ variants: HALVES })
  const hidden = { counted: false, count: 3 }
  const lists = await Promise.all([
    recommender.recommend("u1", hidden),
    recommender.recommend({ items: ["i1"], ...hidden }),
    recommender.similar("i1", hidden),
    recommender.popular(hidden),
    recommender.newest(hidden),
  ])
  for (const list of lists) expect([list.id, list.variant]).toEqual([undefined, undefined])
  const { variants } = recommender.experiments?.() ?? { variants: [] }
  expect(variants.flatMap(({ lists }) => lists).map(({ impressions }) => impressions)).toEqual([])
  await expect(recommender.popular({ counted: "no" as never })).rejects.toThrow(/counted: expected true or false/)
  expect((await recommender.popular({ counted: true })).id).toBeDefined()
  await recommender.close()
})

test("a variant without lists gets none, one of what is popular that, and an event sent again counts once", async () => {
  const variants: Variants = { off: { share: 0.5, list: "off" }, popular: { share: 0.5, list: "popular" } }
  const recommender = await shop({ variants })
  const lists = await Promise.all(Array.from({ length: 20 }, (_, n) => recommender.recommend(`u${n}`, { count: 3 })))
  for (const list of lists)
    if (list.variant === "off") expect(list).toHaveLength(0)
    else expect(new Set(list.map(({ source }) => source))).not.toContain("model")
  expect(new Set(lists.map(({ variant }) => variant)).size).toBe(2)
  const event = { user: "u1", item: "i1", type: "purchase", list: lists[1].id, key: "once" }
  await recommender.observe(event)
  await recommender.observe(event)
  const clicks = recommender.experiments?.()?.variants.flatMap(({ lists }) => lists.map((list) => list.clicks))
  expect(clicks?.reduce((sum, n) => sum + n, 0)).toBe(1)
  await recommender.close()
})

test("counts are there after a crash and after a restart, and begin anew with other variants", async () => {
  const directory = join(folder, "shop")
  const first = await shop({ directory, variants: HALVES })
  const list = await first.recommend("u1")
  await first.observe({ user: "u1", item: list[0].item, type: "view", list: list.id })
  const before = first.experiments?.()
  const crashed = join(folder, "crashed")
  cpSync(directory, crashed, { recursive: true, filter: (path) => !path.endsWith(".sock") })
  await first.close()
  for (const path of [directory, crashed]) {
    const again = await Recommender.open({ directory: path, variants: HALVES })
    expect(again.experiments?.()).toEqual(before)
    expect((await again.recommend("u1")).variant).toBe(list.variant)
    await again.close()
  }
  const other = await Recommender.open({ directory, variants: { c: { share: 0.5 }, d: { share: 0.5 } } })
  expect(other.experiments?.()?.variants.map(({ lists }) => lists)).toEqual([[], []])
  await other.close()
})

test("counts survive who opens the directory without variants, and a rebuild", async () => {
  const directory = join(folder, "kept")
  const first = await shop({ directory, variants: HALVES })
  const list = await first.recommend("u1")
  await first.observe({ user: "u1", item: list[0].item, type: "view", list: list.id })
  await first.close()
  const other = await Recommender.open({ directory })
  await other.snapshot()
  await other.close()
  const out = join(folder, "rebuilt")
  await rebuild({ directory, out })
  for (const path of [directory, out]) {
    const again = await Recommender.open({ directory: path, variants: HALVES })
    const lists = again.experiments?.()?.variants.flatMap(({ lists }) => lists)
    expect(lists, path).toMatchObject([{ kind: "recommend", impressions: 1, clicks: 1 }])
    await again.close()
  }
})

test("a variant of what is popular or none checks what is asked for, and takes options of the model's lists", async () => {
  const variants: Variants = { off: { share: 0.5, list: "off" }, popular: { share: 0.5, list: "popular" } }
  const recommender = await shop({ variants })
  for (let n = 0; n < 8; n++) {
    const list = await recommender.recommend(`u${n}`, { count: 3, fresh: 1, why: true, lasting: true, seen: false })
    expect(list.length > 0).toBe(list.variant !== "off")
    const met = recommender.history(`u${n}`, { count: 1000 })
    for (const { item } of list) expect(met).not.toContain(item)
    await expect(recommender.recommend(`u${n}`, { count: 0 })).rejects.toThrow(/count: expected/)
    await expect(recommender.recommend(`u${n}`, { why: 1 as never })).rejects.toThrow(/why: expected/)
    await expect(recommender.recommend(`u${n}`, { wy: true } as never)).rejects.toThrow(/options: expected/)
  }
  await recommender.close()
})

test("without tracking lists have no ids", async () => {
  const recommender = await shop({})
  expect((await recommender.recommend("u1")).id).toBeUndefined()
  expect(recommender.experiments?.()).toBeUndefined()
  await recommender.close()
})

test.each([
  [{ variants: { a: { share: 1 } } }, /2 to 16/],
  [{ variants: { a: { share: 0.5 }, b: { share: 0.4 } } }, /add up to 1/],
  [{ variants: { a: { share: 0.5, more: 1 }, b: { share: 0.5 } } }, /share, list, options/],
  [{ variants: { a: { share: 0.5, list: "best" }, b: { share: 0.5 } } }, /model, popular or off/],
  [{ conversions: ["purchase"] }, /with tracking or variants only/],
])("refuses settings that are none: %j", async (options, expected) => {
  await expect(Recommender.open(options as RecommenderOptions)).rejects.toThrow(expected)
})

test("refuses a list and a place that are none", async () => {
  const recommender = await Recommender.open({ tracking: true })
  const event = { user: "ada", item: "dune" }
  await expect(recommender.observe({ ...event, list: "mine" })).rejects.toThrow(/event list: expected/)
  await expect(recommender.observe({ ...event, place: 1 })).rejects.toThrow(/event place: expected with a list/)
  expect(recommender.status().events.accepted).toBe(0)
  await recommender.close()
})

test("counts saved and added are the same", () => {
  const [counts, copied] = [new ListCounts(), new ListCounts()]
  const experiments = simulate(7, 0.1, counts)
  copied.add(counts.save())
  expect(new Experiments(settings, copied).view().variants).toEqual(experiments.view().variants)
})

test("a click is told of also where the list it came from was lost with a crash", () => {
  const counts = new ListCounts()
  const experiments = new Experiments(settings, counts)
  const { id, variant } = experiments.give("recommend", "ada")
  experiments.take()
  experiments.observe({ user: "ada", type: undefined, list: id, place: 1 })
  counts.add(experiments.take())
  const lists = () => experiments.view().variants.find(({ name }) => name === variant)?.lists
  expect(lists()).toMatchObject([{ kind: "recommend", impressions: 0, clicks: 1 }])
})
