import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, expect, test } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { buildCommand, dess } from "../support/command.ts"
import { killServices, serve } from "../support/serve.ts"
import { removeFolder, temporaryFolder, until } from "../support/service.ts"

const folder = temporaryFolder()
beforeAll(buildCommand)
afterEach(killServices)
afterAll(() => removeFolder(folder))

const post = (url: string, body: unknown) =>
  fetch(`${url}/v1/interactions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  })

test("SIGTERM under load: everything acknowledged is there afterwards, exactly once", async () => {
  const directory = join(folder, "term")
  const { url, child, exit, stderr } = await serve(["--directory", directory])
  let acknowledged = 0
  let sent = 0
  const load = async () => {
    for (;;) {
      const batch = Array.from({ length: 50 }, () => ({
        user: `u${sent % 30}`,
        item: `i${sent % 40}`,
        key: `k${sent++}`,
      }))
      const answer = await post(url, batch).catch(() => undefined)
      if (answer?.status !== 200) return
      acknowledged += ((await answer.json()) as { accepted: number }).accepted
    }
  }
  const clients = [load(), load(), load()]
  await until(async () => acknowledged > 2000)
  child.kill("SIGTERM")
  await Promise.all(clients)
  expect(await exit).toBe(0)
  expect(stderr()).toContain("stopped")
  const recommender = await Recommender.open({ directory, threads: 1 })
  const { events, snapshot } = recommender.status()
  // A batch whose answer was under way may be there too; nothing acknowledged is missing.
  expect(events.accepted).toBeGreaterThanOrEqual(acknowledged)
  expect(events.accepted).toBeLessThanOrEqual(acknowledged + 150)
  expect(snapshot).not.toBeNull()
  await recommender.close()
})

test("a directory that another process has open, and an address that is taken, give one clear line", async () => {
  const directory = join(folder, "locked")
  const { url } = await serve(["--directory", directory])
  const second = await dess(["serve", "--port", "0", "--directory", directory])
  expect(second.code).toBe(2)
  expect(second.stderr).toMatch(/dess: .*(open|lock)/i)
  const taken = await dess(["serve", "--port", new URL(url).port])
  expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining("address: expected a free one") })
})

test("--check prints the effective settings without the keys, --schema the schema, and a bad setting one line", async () => {
  const env = { DESS_WRITE_KEY: "a-very-secret-write-key", DESS_QUEUE: "5000" }
  const check = await dess(["serve", "--check", "--host", "0.0.0.0"], { env })
  expect(check.code).toBe(0)
  expect(JSON.parse(check.stdout)).toMatchObject({ host: "0.0.0.0", queue: 5000, writeKey: "set", readKey: "not set" })
  expect(JSON.parse(check.stdout), "defaults of the engine").toMatchObject({ task: "topk", segment: 500, delay: 1000 })
  expect(check.stdout + check.stderr).not.toContain("very-secret")
  const schema = await dess(["serve", "--schema"])
  expect(JSON.parse(schema.stdout)).toMatchObject({ type: "object", properties: { memoryBudget: {} } })
  const open = await dess(["serve", "--check", "--host", "0.0.0.0"])
  expect(open).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("loopback") })
  const method = await dess(["serve", "--check", "--method", "magic"])
  expect(method.code).toBe(2)
  expect((await dess(["serve", "--help"])).stdout).toContain("--memory-budget")
})

test("--demo feeds a simulated shop, and lists with titles come of it", async () => {
  const demo = join(folder, "demo")
  const { url, child, exit, stderr } = await serve(["--demo", "--rate", "2000", "--threads", "1", "--directory", demo])
  await until(async () => {
    const status = (await (await fetch(`${url}/v1/status`)).json()) as { segments: number }
    return status.segments >= 2
  })
  const list = await (await fetch(`${url}/v1/users/u1/recommendations?count=5&include=title`)).json()
  expect(list).toHaveLength(5)
  for (const { title } of list as { title: string }[]) expect(title).toMatch(/^[A-Z]/)
  expect(stderr()).toContain(`its users and items stay in ${demo}, use another for yours`)
  child.kill("SIGINT")
  expect(await exit).toBe(0)
  expect(stderr()).toContain("its first 50,000 events at once, then 2000 per second")
})

test("import to a running service, and refusals that name file and line", async () => {
  const { url } = await serve([])
  const file = join(folder, "ratings.csv")
  writeFileSync(file, "userId,movieId,rating,timestamp\n1,10,4.5,1112486027\n1,11,3,1112484676\n")
  expect((await dess(["import", file, "--url", url])).stdout).toContain("2 events taken")
  expect(await (await fetch(`${url}/v1/users/1`)).json()).toMatchObject({ events: 2 })
  // A second try doubles nothing, whatever the columns are called.
  const again = ["import", file, "--url", url, "--columns", "user=movieId,item=userId"]
  const second = await dess(again)
  expect(second.stdout).toContain("0 events taken, 2 known already")
  expect(second.stderr).toContain("2 of the rows were taken before (--again takes them once more), or repeat others")
  expect((await dess([...again, "--again"])).stdout).toContain("2 events taken")
  writeFileSync(file, "userId,movieId,rating\n1,10,4.5\n1,11,good\n")
  const bad = await dess(["import", file, "--url", url])
  expect(bad).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/rating: expected a number, got "good" .*line 3/),
  })
  const none = await dess(["import", file])
  expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("--directory or --url") })
  const missing = await dess(["export", join(folder, "x.csv"), "--directory", join(folder, "nowhere")])
  expect(missing.code).toBe(2)
  expect(existsSync(join(folder, "x.csv.new"))).toBe(false)
  expect((await dess(["export", join(folder, "x.xls"), "--directory", folder])).stderr).toContain(".parquet")
  expect(readFileSync(file, "utf8")).toContain("good")
})
