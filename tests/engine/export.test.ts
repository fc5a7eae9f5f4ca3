/** What is exported while ids leave: every event, under the name it was told with. */

import { afterEach, beforeAll, describe, expect, test, vi } from "vitest"
import { FormerNames } from "../../src/engine/former-names.ts"
import type { LiveRecommender } from "../../src/engine/recommender.ts"
import { buildCommand } from "../support/command.ts"
import { useDirectories } from "../support/directories.ts"

/** While it says so, nothing that is written gets to the disk. */
const disk = vi.hoisted(() => ({ isHeld: (): boolean => false, fails: false }))
vi.mock("../../src/engine/disk.ts", async (importActual) => {
  const actual = await importActual<typeof import("../../src/engine/disk.ts")>()
  const syncData = async (file: number) => {
    while (disk.isHeld()) await new Promise((resolve) => setTimeout(resolve, 5))
    if (disk.fails) throw Object.assign(new Error("the disk failed"), { code: "EIO" })
    return actual.syncData(file)
  }
  return { ...actual, syncData }
})

const { folder, open } = useDirectories()
beforeAll(buildCommand)
// Before they are closed.
afterEach(() => {
  Object.assign(disk, { isHeld: () => false, fails: false })
})

/** Records of an export are read a few hundred at a time; these are more. */
const PAIRS = 600

type Action = (recommender: LiveRecommender) => Promise<unknown>

const LEAVING: { how: string; side: "user" | "item"; action: Action }[] = [
  { how: "an item is deleted", side: "item", action: (recommender) => recommender.deleteItems("item 599") },
  { how: "a user is erased", side: "user", action: (recommender) => recommender.forget("user 599") },
  {
    how: "ids leave",
    side: "user",
    async action(recommender) {
      // Seconds count whole.
      await new Promise((resolve) => setTimeout(resolve, 2200))
      await recommender.observe({ user: "user 0", item: "item 0" })
      await recommender.drain()
    },
  },
]

describe("an export", () => {
  test.each(
    LEAVING.flatMap((one) => [
      { ...one, disk: "slow", fails: false },
      { ...one, disk: "broken", fails: true },
    ]),
  )("has every event while $how and the disk is $disk", async ({ side, action, fails }) => {
    const recommender = await open(folder(), { idle: { leave: 1000 }, segment: 2000 })
    const told = Array.from({ length: PAIRS }, (_, n) => `user ${n} item ${n}`)
    for (let n = 0; n < PAIRS; n++) await recommender.observe({ user: `user ${n}`, item: `item ${n}` })
    const seen: string[] = []
    const events = recommender.events()
    const see = (event: { user: string; item: string }) => seen.push(`${event.user} ${event.item}`)
    see((await events.next()).value as { user: string; item: string })
    disk.isHeld = () => !recommender.has(side, `${side} 599`)
    const acting = action(recommender).catch((error: unknown) => error)
    await expect.poll(() => recommender.has(side, `${side} 599`), { timeout: 10_000 }).toBe(false)
    for await (const event of events) see(event)
    expect(seen.slice(0, PAIRS)).toEqual(told)
    Object.assign(disk, { isHeld: () => false, fails })
    const outcome = await acting
    if (fails) await expect.poll(() => recommender.state).toBe("refusing")
    else expect(outcome).not.toBeInstanceOf(Error)
  })

  test("confuses no ids where one leaves before all that left earlier are read", () => {
    const former = new FormerNames()
    const left = (name: string) => ({ kind: "left" as const, user: [7], item: [], names: { user: [name], item: [] } })
    former.add(300, left("Charles"))
    former.add(100, left("Ada"))
    former.add(200, left("Bob"))
    former.add(300, left("Charles"))
    const names = [50, 150, 250, 350].map((position) => former.find("user", 7, position))
    expect(names).toEqual(["Ada", "Bob", "Charles", undefined])
  })
})
