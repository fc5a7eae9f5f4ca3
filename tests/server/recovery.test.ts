/** A service that has much to replay: it gives lists meanwhile, says how far it is, and can be stopped. */

import { readdirSync } from "node:fs"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { buildCommand } from "../support/command.ts"
import { killServices, serve, start } from "../support/serve.ts"
import { removeFolder, temporaryFolder, until } from "../support/service.ts"

const folder = temporaryFolder()
beforeAll(buildCommand)
afterEach(killServices)
afterAll(() => removeFolder(folder))

const EVENTS = 60_000
const OPTIONS = ["--threads", "1", "--snapshot-events", "1000000"]

/** A directory with one small snapshot and a long journal behind it, as kill -9 leaves it. */
async function makeLongJournal(directory: string): Promise<void> {
  const { child, url } = await serve(["--directory", directory, "--queue", "1000000", ...OPTIONS])
  const send = async (count: number, from: number) => {
    const events = Array.from({ length: count }, (_, n) => ({
      user: `u${(7 * (from + n)) % 400}`,
      item: `i${((from + n) * (from + n)) % 301}`,
    }))
    const body = JSON.stringify(events)
    const answer = await fetch(`${url}/v1/interactions`, {
      ...{ method: "POST", headers: { "content-type": "application/json" }, body },
    })
    expect(answer.status).toBe(200)
  }
  await send(500, 0)
  expect((await fetch(`${url}/v1/snapshots`, { method: "POST" })).status).toBe(200)
  for (let sent = 500; sent < EVENTS; sent += 5000) await send(Math.min(5000, EVENTS - sent), sent)
  const gone = new Promise((resolve) => child.once("exit", resolve))
  child.kill("SIGKILL")
  await gone
}

const ready = async (url: string) => {
  const answer = await fetch(`${url}/health/ready`)
  return { code: answer.status, ...((await answer.json()) as { status: string; replay?: { share: number } }) }
}

test("during a replay lists come from the snapshot, progress is reported everywhere, and SIGTERM keeps what is done", async () => {
  const directory = join(folder, "long")
  await makeLongJournal(directory)
  const service = await start(["--directory", directory, ...OPTIONS])
  await until(async () => ((await ready(service.url)).replay?.share ?? 0) > 0.02)
  const list = await fetch(`${service.url}/v1/users/u7/recommendations?count=3&seen=true`)
  expect(list.status).toBe(200)
  expect(list.headers.get("dess-state")).toBe("replaying")
  expect(((await list.json()) as unknown[]).length).toBe(3)
  const health = await ready(service.url)
  expect(health).toMatchObject({
    ...{ code: 503, status: "replaying" },
    replay: { events: expect.any(Number), remaining: expect.any(Number) },
  })
  const metrics = await (await fetch(`${service.url}/metrics`)).text()
  expect(metrics).toMatch(/^dess_replaying 1$/m)
  expect(metrics).toMatch(/^dess_replayed_ratio 0\.\d+$/m)
  expect(metrics).toMatch(/^dess_replay_remaining_seconds \d/m)
  const refused = await fetch(`${service.url}/v1/interactions`, {
    ...{ method: "POST", headers: { "content-type": "application/json" }, body: '{"user":"u","item":"i"}' },
  })
  expect(refused.status).toBe(503)
  expect(await refused.json()).toMatchObject({ error: "CLOSED" })
  service.child.kill("SIGTERM")
  expect(await service.exit).toBe(0)
  expect(service.stderr()).toMatch(/stopping: the replay is interrupted at \d+ % of the journal, [\d,]+ events\n/)
  // The snapshot that was there, and one of what was done.
  const snapshots = readdirSync(directory).filter((name) => name.startsWith("snapshot-"))
  expect(snapshots.length).toBe(2)
  const told: number[] = []
  const recommender = await Recommender.open({ directory, threads: 1, onReplay: ({ share }) => told.push(share) })
  expect(recommender.status().events).toMatchObject({ accepted: EVENTS, learned: EVENTS })
  expect(told.at(-1)).toBe(1)
  expect(told).toEqual([...told].sort((a, b) => a - b))
  await recommender.close()
})
