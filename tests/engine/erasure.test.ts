/** Erasing users: no trace in any file, nobody taken for anybody else, and done in the end whatever is in the way. */

import { mkdirSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { beforeAll, describe, expect, test, vi } from "vitest"
import { openDirectory } from "../../src/engine/directory.ts"
import { findTraces } from "../../src/engine/erasure.ts"
import { hashName } from "../../src/engine/intake.ts"
import { eventsOf, GONE, type LogRecord } from "../../src/engine/records.ts"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand } from "../support/command.ts"
import { exported, filesWith, randomEvents, useDirectories } from "../support/directories.ts"

const { folder, open, powerCut } = useDirectories()
beforeAll(buildCommand)

/** Folders in the way of every snapshot. */
const OBSTACLES = Array.from({ length: 1000 }, (_, n) => `snapshot-${String(n).padStart(12, "0")}.safetensors.part`)

function block(directory: string): void {
  for (const name of OBSTACLES) mkdirSync(join(directory, name))
}

function unblock(directory: string): void {
  for (const name of OBSTACLES) rmSync(join(directory, name), { recursive: true })
}

const users = async (recommender: Parameters<typeof exported>[0]) =>
  (await exported(recommender)).map((event) => (JSON.parse(event) as { user: string }).user)

/** What Ada leaves in every place: a name, feedback with a comment, a note, events in closed files and in the open one. */
function lifeOf(name: string, item: string) {
  return {
    user: name,
    item,
    type: "like",
    comment: `comment by ${name}`,
    key: `${name} ${item}`,
    timestamp: 1_600_000_000,
  }
}

describe("erased users", () => {
  test.each(["none", "snapshots", "all"] as const)(
    "leave no trace in any file: no name, note or comment (journal kept: %s)",
    async (keepJournal) => {
      const directory = folder()
      const recommender = await open(directory, { keepJournal })
      const gone = ["Ada Lovelace", "Émilie du Châtelet", "Grace Hopper"]
      for (let round = 0; round < 3; round++) {
        await recommender.observe(randomEvents(50, round))
        await recommender.observe(gone.map((name) => lifeOf(name, `item ${round}`)))
        await recommender.observe(lifeOf("Bob", `item ${round}`))
        if (round === 1) await recommender.snapshot()
      }
      const notes = [...gone, "Bob", "only noted"].map((id) => ({ id, note: { comment: `note on ${id}` } }))
      await recommender.putNotes("user", notes)
      for (const name of gone) expect(filesWith(directory, name), name).not.toEqual([])
      const receipts = await Promise.all([...gone, "only noted", "nobody"].map((name) => recommender.forget(name)))
      expect(receipts.map(({ status }) => status)).toEqual(new Array(5).fill("done"))
      expect(receipts.map(({ found }) => found)).toEqual([true, true, true, true, false])
      if (keepJournal === "all") expect(receipts.map(({ events }) => events)).toEqual([3, 3, 3, 0, 0])
      expect(receipts.map(({ history }) => history)).toEqual([3, 3, 3, 0, 0])
      for (const name of [...gone, "only noted"]) {
        expect(filesWith(directory, name), name).toEqual([])
        expect(recommender.note("user", name)).toBeUndefined()
        expect(recommender.has("user", name)).toBe(false)
      }
      expect(recommender.status().erasures).toEqual({ pending: 0 })
      expect(recommender.note("user", "Bob")).toEqual({ comment: "note on Bob" })
      const feedback = await recommender.feedback({ count: 100 })
      expect(feedback.feedback.map(({ user }) => user)).toEqual(["Bob", "Bob", "Bob"])
      const hash = await recommender.hash()
      await recommender.close()
      for (const name of gone) expect(filesWith(directory, name), name).toEqual([])
      const again = await open(directory, { keepJournal })
      expect(await again.hash()).toBe(hash)
      expect(await users(again)).not.toContain("Ada Lovelace")
      // An event sent again is not taken again, though nobody is known by it.
      expect(await again.observe(lifeOf("Ada Lovelace", "item 1"))).toEqual({ accepted: 0, duplicates: 1 })
    },
  )

  test("users who come back under the same name keep what is new, and lose only that when erased again", async () => {
    const directory = folder()
    const recommender = await open(directory)
    await recommender.observe([lifeOf("Ada", "old"), { user: "Bob", item: "cake" }])
    await recommender.putNotes("user", [{ id: "Ada", note: { comment: "first" } }])
    block(directory)
    expect(await recommender.forget("Ada")).toMatchObject({ status: "pending" })
    expect(recommender.note("user", "Ada")).toBeUndefined()
    // While the first is pending, and once it is done.
    await recommender.observe({ user: "Ada", item: "new" })
    await recommender.putNotes("user", [{ id: "Ada", note: { comment: "second" } }])
    unblock(directory)
    await expect.poll(() => recommender.status().erasures?.pending, { timeout: 10_000 }).toBe(0)
    const check = async (one: typeof recommender) => {
      expect(one.history("Ada")).toEqual(["new"])
      expect(one.note("user", "Ada")).toEqual({ comment: "second" })
      expect(await users(one)).toEqual(["Bob", "Ada"])
    }
    await check(recommender)
    expect(filesWith(directory, "comment by Ada")).toEqual([])
    await recommender.abandon()
    const again = await open(directory)
    await check(again)
    expect(await again.forget("Ada")).toMatchObject({ status: "done", events: 1 })
    expect(await users(again)).toEqual(["Bob"])
    await again.close()
    expect(filesWith(directory, "Ada")).toEqual([])
  })

  test("are pending while the disk fails, also when asked for again, done after a restart, and their index is not reused before", async () => {
    const directory = folder()
    let recommender = await open(directory)
    await recommender.observe(["a", "b", "c"].map((user) => ({ user, item: `item of ${user}` })))
    await recommender.drain()
    block(directory)
    expect(await recommender.forget("a")).toMatchObject({ status: "pending", found: true, row: true, history: 1 })
    expect(await recommender.forget("a")).toMatchObject({ status: "pending", found: true })
    expect(recommender.status().erasures).toMatchObject({ pending: 1, failure: expect.stringMatching(/snapshot/) })
    expect(recommender.has("user", "a")).toBe(false)
    await recommender.observe({ user: "d", item: "item of d" })
    expect(recommender.ids("user"), "in order of their index").toEqual(["b", "c", "d"])
    expect(await users(recommender)).toEqual(["b", "c", "d"])
    await recommender.observe({ user: "e", item: "item of e" })
    expect(recommender.ids("user")).toEqual(["b", "c", "d", "e"])
    expect(await recommender.forget("a")).toMatchObject({ status: "pending" })
    await recommender.abandon()
    // What was in the way goes with the start.
    recommender = await open(directory)
    await expect.poll(() => recommender.status().erasures, { timeout: 10_000 }).toEqual({ pending: 0 })
    expect(await recommender.forget("a")).toMatchObject({ status: "done", found: false })
    expect(filesWith(directory, "item of a"), "an item is nobody's").not.toEqual([])
    await recommender.observe({ user: "f", item: "item of f" })
    expect(recommender.ids("user"), "free again").toEqual(["f", "b", "c", "d", "e"])
    expect(recommender.history("f")).toEqual(["item of f"])
    expect(await users(recommender)).toEqual(["b", "c", "d", "e", "f"])
    const hash = await recommender.hash()
    await recommender.close()
    expect(await (await open(directory)).hash()).toBe(hash)
  })

  test("are counted and nobody from the first answer of a start on, also before the replay gets to them", async () => {
    const directory = folder()
    const recommender = await open(directory, { snapshotEvents: 1_000_000 })
    const life = (user: string, item: string) => ({ ...lifeOf(user, item), timestamp: undefined })
    await recommender.observe([life("early", "item 1"), life("guest", "item 2"), life("Bob", "item 3")])
    const note = (id: string) => ({ id, note: { comment: `note on ${id}` } })
    await recommender.putNotes("user", ["early", "Bob"].map(note))
    await recommender.snapshot()
    for (let n = 0; n < 10; n++) await recommender.observe(randomEvents(500, n))
    await recommender.observe(life("late", "item 4"))
    await recommender.merge("guest", "early")
    await recommender.observe(randomEvents(500, 10))
    block(directory)
    for (const name of ["early", "late"]) expect(await recommender.forget(name)).toMatchObject({ status: "pending" })
    await recommender.observe([{ user: "late", item: "item 5" }, ...randomEvents(500, 11)])
    await recommender.putNotes("user", [note("late")])
    await recommender.abandon()
    const again = await open(directory, { replay: "behind", snapshotEvents: 1_000_000 })
    expect(again.has("user", "Bob"), "from the snapshot").toBe(true)
    expect(again.has("user", "late")).toBe(false)
    let looks = 0
    for (; again.state === "replaying"; looks++) {
      expect(again.status().erasures).toEqual({ pending: 2 })
      // Who came back may be read again, but for what was before.
      const hasReturned = again.has("user", "late")
      const names = ["early", "guest", ...(hasReturned ? [] : ["late"])]
      for (const name of names) {
        expect(again.has("user", name), name).toBe(false)
        expect(again.history(name)).toEqual([])
        await expect(again.explain("user", name)).rejects.toMatchObject({ code: "NOT_FOUND" })
        expect((await again.recommend(name)).filter(({ source }) => source === "model")).toEqual([])
        expect(again.note("user", name)).toBeUndefined()
      }
      expect(again.history("late")).not.toContain("item 4")
      const told = [
        ...again.ids("user", { count: 1000 }),
        ...again.notedIds("user"),
        ...(await again.feedback({ count: 1000 })).feedback.map(({ user }) => user),
        ...(await again.similarUsers("Bob", { count: 1000 })).map(({ user }) => user),
      ]
      expect(told.filter((name) => names.includes(name))).toEqual([])
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(looks).toBeGreaterThan(5)
    await again.caughtUp()
    await expect.poll(() => again.status().erasures, { timeout: 10_000 }).toEqual({ pending: 0 })
    expect(again.history("late")).toEqual(["item 5"])
    for (const trace of ["early", "guest", "comment by late"]) expect(filesWith(directory, trace), trace).toEqual([])
    expect(await users(again)).not.toContain("early")
  })

  test("asked for twice at the same time are erased once, and two newcomers are two", async () => {
    for (const directory of [undefined, folder()]) {
      const recommender = await open(directory)
      await recommender.observe(["a", "b"].map((user) => ({ user, item: `item of ${user}` })))
      await recommender.drain()
      const receipts = await Promise.all(["a", "a", "a"].map((user) => recommender.forget(user)))
      expect(receipts.map(({ status }) => status)).toEqual(["done", "done", "done"])
      await recommender.observe(["x", "y", "z"].map((user) => ({ user, item: `item of ${user}` })))
      for (const user of ["x", "y", "z"]) expect(recommender.history(user)).toEqual([`item of ${user}`])
      expect(recommender.status().users.known).toBe(4)
    }
  })

  test("are told what was removed of them, whoever else is being erased just then", async () => {
    const recommender = await open(folder())
    const pairs = Array.from({ length: 8 }, (_, n) => [`one ${n}`, `other ${n}`])
    for (let round = 0; round < 3; round++)
      await recommender.observe(pairs.flat().map((name) => lifeOf(name, `item ${round}`)))
    for (const [n, [one, other]] of pairs.entries()) {
      const first = recommender.forget(one)
      // So much later that it is on disk when the first one's erasure looks what is pending.
      for (let later = 0; later <= n; later++) await Promise.resolve()
      const receipts = await Promise.all([first, recommender.forget(other)])
      expect(
        receipts.map(({ status, events }) => `${status} ${events}`),
        `${n} later`,
      ).toEqual(["done 3", "done 3"])
    }
  })

  test("are never shown under another name by an export, whenever it began", async () => {
    const directory = folder()
    const recommender = await open(directory, { segment: 5 })
    const truth = new Set<string>()
    const observe = async (user: string, item: string) => {
      truth.add(`${user} ${item}`)
      await recommender.observe({ user, item })
    }
    for (let n = 0; n < 40; n++) await observe(`user ${n % 8}`, `of ${n % 8}, ${n}`)
    const early = recommender.events()
    const seen: string[] = []
    const take = async (from: AsyncIterable<{ user: string; item: string }>, most: number) => {
      for await (const { user, item } of from) {
        seen.push(`${user} ${item}`)
        if (--most === 0) return
      }
    }
    const first = await early.next()
    seen.push(`${(first.value as { user: string }).user} ${(first.value as { item: string }).item}`)
    for (let n = 0; n < 4; n++) {
      await recommender.forget(`user ${n}`)
      for (let m = 0; m < 5; m++) await observe(`other ${n}`, `of other ${n}, ${m}`)
      await take(recommender.events(), 1000)
    }
    await take(early, 1000)
    expect(seen.length).toBeGreaterThan(100)
    expect(seen.filter((one) => !truth.has(one))).toEqual([])
  })

  test("take no event with them that was accepted meanwhile: it is learned, and after a restart all is the same", async () => {
    const directory = folder()
    const recommender = await open(directory)
    for (let n = 0; n < 30; n++) await recommender.observe(randomEvents(20, n))
    let sent = 0
    let isDone = false
    const sending = (async () => {
      for (let n = 0; !isDone; n++) {
        await recommender.observe(randomEvents(3, 1000 + n))
        sent += 3
      }
    })()
    for (let n = 0; n < 4; n++) expect(await recommender.forget(`user ${n}`)).toMatchObject({ status: "done" })
    isDone = true
    await sending
    expect(sent).toBeGreaterThan(10)
    await recommender.drain()
    const copy = powerCut(directory)
    const { accepted } = recommender.status().events
    const hash = await recommender.hash()
    expect(recommender.status().events).toMatchObject({ accepted, learned: accepted, queue: 0 })
    const again = await open(copy)
    expect(await again.hash()).toBe(hash)
    expect(again.status().events).toMatchObject({ accepted, learned: accepted, queue: 0 })
  })
})

test("what is erased from a journal equals what a plain scan of all indices finds", async () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = new Random(seed, "lives")
    // Indices are given to one name after the other; some are erased, some leave and come back.
    const journal: LogRecord[] = []
    const owner = new Map<number, string>()
    const truth: { position: number; user: string }[] = []
    const erasures = new Map<
      number,
      { user: number | null; former: { index: number; before: number }[]; hash: string }
    >()
    const lefts: { index: number; before: number; name: string }[] = []
    const erasedUntil = new Map<string, number>()
    const pending = new Set<number>()
    for (let step = 0; step < 80; step++) {
      const index = random.integer(8)
      const name = owner.get(index)
      // A pending index is given to nobody.
      if (pending.has(index)) continue
      if (name === undefined) {
        const free = ["ada", "bob", "carl", "dora", "emil", "fay"].filter((one) => ![...owner.values()].includes(one))
        if (free.length === 0) continue
        const next = free[random.integer(free.length)]
        owner.set(index, next)
        journal.push({ kind: "names", names: [{ side: "user", index, name: next }] })
      } else if (random.integer(3) > 0) {
        truth.push({ position: journal.length, user: name })
        journal.push(eventsOf([{ user: index, item: 0, rating: 5, timestamp: 1 }]))
      } else if (random.integer(5) > 1) {
        owner.delete(index)
        lefts.push({ index, before: journal.length, name })
        journal.push({ kind: "left", user: [index], item: [], names: { user: [name], item: [] } })
      } else {
        const former = lefts.filter((one) => one.name === name).map(({ index, before }) => ({ index, before }))
        const erasure = { user: index, former, hash: hashName(name) }
        erasures.set(journal.length, erasure)
        erasedUntil.set(name, journal.length)
        owner.delete(index)
        pending.add(index)
        journal.push({ kind: "forget", ...erasure })
      }
    }
    const placed = journal.map((record, position) => ({ position, record }))
    const traces = await findTraces(placed, erasures)
    const changed = placed.filter((one) => traces.clean(one) !== one.record)
    expect(traces.touched, `seed ${seed}`).toEqual(expect.arrayContaining(changed.map(({ position }) => position)))
    const kept = placed.flatMap(({ position, record }) => {
      const clean = traces.clean({ position, record })
      return clean.kind === "events" ? [...clean.user].flatMap((user) => (user === GONE ? [] : position)) : []
    })
    const right = truth
      .filter(({ position, user }) => !(position < (erasedUntil.get(user) ?? -1)))
      .map((one) => one.position)
    expect(kept, `seed ${seed}`).toEqual(right)
    const removed = [...traces.rows.values()].reduce((sum, count) => sum + count, 0)
    expect(removed, `seed ${seed}`).toBe(truth.length - right.length)
    for (const [name, until] of erasedUntil)
      for (const { position, record } of placed)
        if (position < until)
          expect(JSON.stringify(traces.clean({ position, record })).includes(`"${name}"`), `seed ${seed}`).toBe(false)
  }
})

test("an erasure that is done leaves no hash of the name in the journal", async () => {
  const directory = folder()
  const recommender = await open(directory)
  await recommender.observe({ user: "Ada", item: "a loom" })
  await recommender.forget("Ada")
  await recommender.close()
  const opened = await openDirectory(directory, { readOnly: true })
  const records = Array.from(opened.files.read(0), ({ record }) => record)
  await opened.close()
  expect(records.filter(({ kind }) => kind === "forget")).toEqual([{ kind: "forget", user: 0, former: [], hash: null }])
  expect(JSON.stringify(records)).not.toContain(hashName("Ada"))
  expect(readdirSync(directory).filter((name) => name.endsWith(".part"))).toEqual([])
})

test("closing does not wait for an erasure: it is pending, nothing is half written, and the next start finishes it", async () => {
  const directory = folder()
  const first = await open(directory)
  const note = { comment: "x".repeat(4000) }
  for (let n = 0; n < 3000; n += 500)
    await first.putNotes(
      "user",
      Array.from({ length: 500 }, (_, k) => ({ id: `guest ${n + k}`, note })),
    )
  await first.observe(Array.from({ length: 400 }, (_, n) => ({ user: `user ${n % 8}`, item: `item ${n % 9}` })))
  await first.putNotes("user", [{ id: "guest seven", note }])
  expect(filesWith(directory, "guest seven")).not.toEqual([])
  const erased = first.forget("guest seven")
  first.suspendErasures()
  expect(await erased).toMatchObject({ found: true, status: "pending" })
  await first.close()
  expect(readdirSync(directory).filter((name) => name.endsWith(".part"))).toEqual([])
  const second = await open(directory)
  await vi.waitFor(() => expect(second.status().erasures?.pending).toBe(0), { timeout: 60_000, interval: 50 })
  await second.close()
  expect(filesWith(directory, "guest seven")).toEqual([])
})
