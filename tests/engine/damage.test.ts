/** One bit of a directory turns over: it comes back as it was, or says what to do. */

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, expect, test } from "vitest"
import { rebuild } from "../../src/engine/rebuild.ts"
import type { RecommenderOptions } from "../../src/engine/types.ts"
import { DessError } from "../../src/errors.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { exported, randomEvents, useDirectories } from "../support/directories.ts"

const { folder, open, powerCut } = useDirectories()
beforeAll(buildCommand)

/** A directory with closed files, two snapshots and a journal behind them, as a power cut leaves it. */
async function filled(options: RecommenderOptions) {
  const directory = folder()
  const recommender = await open(directory, options)
  await recommender.putItems({ item: "item 3", categories: ["c"] })
  for (let n = 0; n < 3; n++) {
    await recommender.observe(randomEvents(60, n))
    await recommender.snapshot()
  }
  await recommender.observe(randomEvents(50, 9))
  await recommender.drain()
  const copy = powerCut(directory)
  const events = await exported(recommender)
  const hash = await recommender.hash()
  await recommender.close()
  return { directory: copy, hash, events }
}

test.each(["all", "snapshots", "none"] as const)(
  "a bit that turned over anywhere changes nothing or is refused with what to do, and recovering goes on (journal kept: %s)",
  { timeout: 400_000 },
  async (keepJournal) => {
    const { directory, hash, events } = await filled({ keepJournal })
    const names = readdirSync(directory).filter((name) => !name.startsWith("lookup-"))
    const found = { same: 0, refused: 0, recovered: 0 }
    const trials = keepJournal === "all" ? 30 : 10
    for (let seed = 1; seed <= trials; seed++) {
      const random = new Random(seed, "one bit")
      // Each file has its turn, however small it is.
      const name = names[seed % names.length]
      const copy = powerCut(directory)
      const bytes = readFileSync(join(copy, name))
      const bit = random.integer(8 * bytes.length)
      bytes[bit >> 3] ^= 1 << (bit & 7)
      writeFileSync(join(copy, name), bytes)
      const where = `seed ${seed}: bit ${bit} of ${name}`
      const broken = powerCut(copy)
      try {
        const again = await open(copy)
        expect(await again.hash(), where).toBe(hash)
        expect(await exported(again), where).toEqual(events)
        found.same++
        await again.close()
        continue
      } catch (error) {
        expect(error, where).toBeInstanceOf(DessError)
        expect((error as DessError).message, where).toMatch(/--recover/)
        found.refused++
      }
      const again = await open(broken, { recover: true })
      const kept = await exported(again)
      expect(events, where).toEqual(expect.arrayContaining(kept))
      // A damaged description is taken from a snapshot: then nothing is gone.
      if (kept.length < events.length) expect(again.status().damaged?.length, where).toBeGreaterThan(0)
      if (name.startsWith("journal-")) expect(again.status().damaged?.join(), where).toContain(name)
      const accepted = again.status().events.accepted
      await again.observe(randomEvents(45, 100 + seed))
      await again.drain()
      expect(again.status().state, where).toBe("learning")
      expect(again.status().events.accepted, where).toBe(accepted + 45)
      const after = { hash: await again.hash(), list: await again.recommend("user 3") }
      const told = (again.status().damaged ?? []).filter((text) => !text.startsWith("snapshot"))
      await again.close()
      const later = await open(broken)
      expect(await later.hash(), where).toBe(after.hash)
      expect(await later.recommend("user 3"), where).toEqual(after.list)
      expect(later.status().damaged ?? [], where).toEqual(told)
      found.recovered++
      await later.close()
      rmSync(copy, { recursive: true, force: true })
      rmSync(broken, { recursive: true, force: true })
    }
    expect(found.same).toBeGreaterThan(2)
    expect(found.recovered).toBe(found.refused)
    expect(found.refused).toBeGreaterThan(2)
  },
)

test("what a recovery lost is told at later starts, also after a power cut or where rebuild recovered it", async () => {
  const { directory } = await filled({})
  const name = readdirSync(directory).filter((one) => one.startsWith("journal-"))[0]
  const bytes = readFileSync(join(directory, name))
  bytes[bytes.length >> 1] ^= 4
  writeFileSync(join(directory, name), bytes)
  const rebuilt = powerCut(directory)
  const recovered = await open(directory, { recover: true })
  const told = recovered.status().damaged
  expect(told?.join()).toMatch(/records .* are gone: \d+ events/)
  const cut = powerCut(directory)
  await recovered.close()
  const { gone } = await rebuild({ directory: rebuilt, out: folder(), recover: true })
  expect(gone).toEqual(told)
  for (const again of [cut, rebuilt, rebuilt]) {
    const later = await open(again)
    expect(later.status().damaged).toEqual(told)
    await later.close()
  }
}, 60_000)

test("where names are lost with a part of the journal, no id is taken for another", async () => {
  for (let seed = 1; seed <= 8; seed++) {
    const random = new Random(seed, "lost names")
    const directory = folder()
    const recommender = await open(directory, { idle: { leave: "1h" } })
    const met = new Map<string, Set<string>>()
    for (let n = 0; n < 12; n++) {
      const events = Array.from({ length: 10 }, () => ({
        user: `user ${random.integer(4) + 4 * n}`,
        item: `item ${random.integer(6) + 3 * n}`,
      }))
      for (const { user, item } of events) met.set(user, (met.get(user) ?? new Set()).add(item))
      await recommender.observe(events)
      if (n % 4 === 3) await recommender.forget(`user ${4 * n}`)
    }
    await recommender.abandon()
    for (const name of readdirSync(directory).filter((name) => name.startsWith("snapshot-")))
      rmSync(join(directory, name))
    const journals = readdirSync(directory).filter((name) => name.startsWith("journal-"))
    const path = join(directory, journals[random.integer(journals.length)])
    const bytes = readFileSync(path)
    bytes[random.integer(bytes.length)] ^= 16
    writeFileSync(path, bytes)
    const again = await open(directory, { recover: true })
    await again.observe(Array.from({ length: 30 }, (_, n) => ({ user: `new ${n}`, item: `thing ${n}` })))
    await again.drain()
    for (let n = 0; n < 30; n++) expect(again.history(`new ${n}`), `seed ${seed}`).toEqual([`thing ${n}`])
    for (const user of again.ids("user", { count: 1000 }))
      if (!user.startsWith("new"))
        for (const item of again.history(user)) expect(met.get(user)?.has(item), `seed ${seed}: ${user}`).toBe(true)
    for (const event of await exported(again)) {
      const { user, item } = JSON.parse(event) as { user: string; item: string }
      if (!user.startsWith("new")) expect(met.get(user)?.has(item), `seed ${seed}: ${event}`).toBe(true)
    }
    await again.close()
  }
})
