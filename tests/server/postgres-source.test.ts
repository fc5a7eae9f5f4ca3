/** Rows of a Postgres table as events, each once. */

import { spawn } from "node:child_process"
import { connect as connectTo, createServer, type Socket } from "node:net"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"
import pg from "pg"
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest"
import { Recommender } from "../../src/engine/open.ts"
import { followPostgres, type PostgresSourceOptions } from "../../src/server/postgres-source.ts"
import { buildCommand } from "../support/command.ts"
import { describeWithPostgres, type Postgres, startPostgres } from "../support/postgres.ts"
import { killServices, serve } from "../support/serve.ts"
import { removeFolder, temporaryFolder, until } from "../support/service.ts"

describeWithPostgres("a Postgres source", () => {
  const folder = temporaryFolder()
  let server: Postgres
  let client: pg.Client
  const ends: (() => Promise<void>)[] = []

  beforeAll(async () => {
    buildCommand()
    server = await startPostgres()
    client = await connect()
  }, 120_000)
  afterEach(async () => {
    for (const end of ends.splice(0)) await end()
    await killServices()
  })
  afterAll(async () => {
    await client?.end().catch(() => {})
    await server?.remove()
    removeFolder(folder)
  })

  async function connect(): Promise<pg.Client> {
    const one = new pg.Client({ connectionString: server.url })
    one.on("error", () => {})
    await one.connect()
    return one
  }

  async function table(name: string, columns = "user_id text, item_id text"): Promise<void> {
    await client.query(
      `CREATE TABLE ${name} (id bigserial PRIMARY KEY, ${columns}, created_at timestamptz DEFAULT now())`,
    )
  }

  const insert = (name: string, from: number, count: number, user = "user_id") =>
    client.query(
      `INSERT INTO ${name} (${user}, item_id) SELECT 'u' || n % 50, 'i' || n FROM generate_series(${from}, ${from + count - 1}) n`,
    )

  /** Follows a table with a recommender in a directory, until `stop`. */
  async function follow(directory: string, options: Partial<PostgresSourceOptions>) {
    const recommender = await Recommender.open({ directory: join(folder, directory) })
    const stopping = new AbortController()
    const errors: string[] = []
    const following = followPostgres(recommender, {
      url: server.url,
      events: { table: directory, cursor: "id" },
      columns: {},
      every: 10,
      signal: stopping.signal,
      onError: (error) => errors.push((error as Error).message),
      ...options,
    })
    const stop = async () => {
      stopping.abort()
      await following
      await recommender.close()
    }
    ends.push(stop)
    return { recommender, errors, accepted: () => recommender.status().events.accepted }
  }

  /** Follows it no longer, as at the end of a process. */
  const leave = () => ends.pop()?.()

  async function itemsOf(recommender: Recommender): Promise<string[]> {
    const items: string[] = []
    for await (const { item } of recommender.events()) items.push(item)
    return items
  }

  /** Writes about 50 rows a second through a server that comes and goes; `stop` gives how many there are. */
  function writeOn(name: string): { stop(): Promise<number> } {
    let [rows, isWriting] = [0, true]
    const written = (async () => {
      while (isWriting) {
        let writer: pg.Client | undefined
        try {
          writer = await connect()
          // Whether the last ones are there is asked, not guessed.
          const { rows: found } = await writer.query(`SELECT count(*)::int AS count FROM ${name}`)
          rows = found[0].count
          while (isWriting) {
            await writer.query(
              `INSERT INTO ${name} (user_id, item_id) SELECT 'u' || n % 50, 'i' || n FROM generate_series(${rows}, ${rows + 1}) n`,
            )
            rows += 2
            await wait(40)
          }
        } catch {
          await wait(20)
        }
        await writer?.end().catch(() => {})
      }
    })()
    return {
      async stop() {
        isWriting = false
        await written
        return rows
      },
    }
  }

  /** A line to a server that may go silent, as when a machine between the two is switched off. */
  async function wire(to: number) {
    let isCut = false
    const sockets = new Set<Socket>()
    const line = createServer((from) => {
      const there = connectTo(to, "127.0.0.1")
      for (const [one, other] of [
        [from, there],
        [there, from],
      ]) {
        sockets.add(one)
        one.on("error", () => {})
        one.on("data", (bytes) => isCut || other.write(bytes))
        one.on("close", () => isCut || other.destroy())
      }
    })
    await new Promise<void>((resolve) => line.listen(0, "127.0.0.1", resolve))
    return {
      port: (line.address() as { port: number }).port,
      cut() {
        isCut = true
      },
      /** For new connections: what went silent stays so. */
      mend() {
        for (const socket of sockets) socket.removeAllListeners("data").pause()
        isCut = false
      },
      async close() {
        for (const socket of sockets) socket.destroy()
        await new Promise((resolve) => line.close(resolve))
      },
    }
  }

  test("takes what there is and what comes, each row once, with its time", async () => {
    await table("simple")
    await insert("simple", 0, 3000)
    const { recommender, accepted } = await follow("simple", {})
    await until(async () => accepted() === 3000)
    await insert("simple", 3000, 7)
    await until(async () => accepted() === 3007)
    await wait(100)
    const items = await itemsOf(recommender)
    expect(items).toEqual(Array.from({ length: 3007 }, (_, n) => `i${n}`))
  })

  test("takes rows whose transactions end late, in whatever order their numbers were given", async () => {
    await table("late")
    const { recommender, accepted } = await follow("late", {})
    const other = await connect()
    try {
      await other.query("BEGIN")
      await other.query("INSERT INTO late (user_id, item_id) VALUES ('slow', 'first')")
      await insert("late", 0, 20)
      await until(async () => accepted() === 20)
      await wait(2500)
      await insert("late", 20, 5)
      await until(async () => accepted() === 25)
      await other.query("COMMIT")
      await until(async () => accepted() === 26)
      await insert("late", 25, 1)
      await until(async () => accepted() === 27)
      await wait(2500)
    } finally {
      await other.end()
    }
    const items = await itemsOf(recommender)
    expect(new Set(items).size).toBe(27)
    expect(items).toHaveLength(27)
  })

  test("takes a query, columns by name, ratings and times; a cursor that is a time may have ties", async () => {
    await table("ratings", "customer text, sku text, stars int")
    await client.query(
      "INSERT INTO ratings (customer, sku, stars, created_at) SELECT 'u' || n, 'i' || n, 1 + n % 5, timestamptz '2024-01-01' + n / 700 * interval '1 day' FROM generate_series(0, 2499) n",
    )
    const { recommender, accepted } = await follow("ratings", {
      events: { table: "SELECT customer, sku, stars, created_at FROM ratings", cursor: "created_at" },
      columns: { user: "customer", item: "sku" },
    })
    await until(async () => accepted() === 2500)
    await wait(100)
    expect(accepted()).toBe(2500)
    for await (const event of recommender.events()) {
      expect(event).toMatchObject({ user: "u0", rating: 1, timestamp: Date.UTC(2024, 0, 1) / 1000 })
      break
    }
  })

  test("passes over a row that is no event, says which, and takes the rest", async () => {
    await table("bad", "user_id text, item_id text, rating real")
    await client.query(
      "INSERT INTO bad (user_id, item_id, rating) SELECT 'u', 'i' || n, 4 FROM generate_series(1, 99) n",
    )
    await client.query("UPDATE bad SET rating = 77 WHERE id = 40")
    await client.query("UPDATE bad SET user_id = NULL WHERE id = 41")
    const { accepted, errors } = await follow("bad", {})
    await until(async () => accepted() === 97)
    expect(errors).toEqual([
      expect.stringMatching(/row 40 is passed over: .*rating/),
      expect.stringMatching(/row 41 is passed over: .*user/),
    ])
  })

  test("takes back what the second cursor names: a pair, a user, an item", async () => {
    await table("events")
    await table("gone", "user_id text, item_id text, type text")
    await client.query(
      "INSERT INTO events (user_id, item_id) SELECT 'u' || n, 'i' || m FROM generate_series(0, 3) n, generate_series(0, 3) m",
    )
    const { recommender, accepted } = await follow("events", {
      deletes: { table: "gone", cursor: "id" },
    })
    await until(async () => accepted() === 16)
    await recommender.drain()
    await client.query("INSERT INTO gone (user_id, item_id) VALUES ('u1', NULL), (NULL, 'i2')")
    await until(async () => !recommender.has("user", "u1") && !recommender.has("item", "i2"))
    expect(recommender.has("user", "u2") && recommender.has("item", "i1")).toBe(true)
  })

  test("says what is wrong with a changed schema or a lost server, and goes on when it is mended", async () => {
    await table("changing")
    await insert("changing", 0, 10)
    const { accepted, errors } = await follow("changing", {})
    await until(async () => accepted() === 10)
    await client.query("ALTER TABLE changing RENAME COLUMN id TO number")
    await until(async () => errors.length === 1)
    expect(errors[0]).toMatch(/expected the table, query and columns it was set up with, got: .*id.*42703/)
    await client.query("ALTER TABLE changing RENAME COLUMN number TO id")
    await insert("changing", 10, 10)
    await until(async () => accepted() === 20)
    await until(async () => errors.length === 2)
    expect(errors[1]).toMatch(/read again/)
    await server.kill()
    await until(async () => errors.length === 3)
    expect(errors[2]).toMatch(/expected a Postgres that answers/)
    await server.start()
    await client.end().catch(() => {})
    client = await connect()
    await insert("changing", 20, 10)
    await until(async () => accepted() === 30)
    expect(errors.join()).not.toContain("shop@")
  })

  test("a connection that has gone silent is given up, told and made again; stopping waits for nobody", async () => {
    await table("silent")
    await insert("silent", 0, 10)
    const line = await wire(Number(new URL(server.url).port))
    const url = server.url.replace(/:\d+\//, `:${line.port}/`)
    const { recommender, accepted, errors } = await follow("silent", {
      url,
      events: { table: "silent", cursor: "id" },
      patience: 300,
    })
    await until(async () => accepted() === 10)
    line.cut()
    await insert("silent", 10, 10)
    await until(async () => errors.length === 1)
    expect(errors[0]).toMatch(/expected a Postgres that answers, got: Query read timeout/)
    line.mend()
    await until(async () => accepted() === 20)
    await until(async () => errors.at(-1)?.includes("read again") === true)
    expect(await itemsOf(recommender)).toHaveLength(20)
    // While it connects to nobody, and while a query takes long.
    line.cut()
    await until(async () => errors.length > 2)
    const stopping = performance.now()
    await leave()
    const slow = "SELECT *, pg_sleep(60) AS pause FROM silent"
    await follow("silent", { events: { table: slow, cursor: "id" } })
    await wait(200)
    await leave()
    expect(performance.now() - stopping).toBeLessThan(5000)
    await line.close()
  })

  test("a transaction that stays open is told when rows wait for its end", async () => {
    await table("held")
    await table("held_gone", "user_id text")
    const slow = await connect()
    await slow.query("BEGIN")
    await slow.query("INSERT INTO held (user_id, item_id) VALUES ('slow', 'slow')")
    await insert("held", 0, 5500)
    await client.query("INSERT INTO held_gone (user_id) VALUES ('u1')")
    const { recommender, accepted, errors } = await follow("held", {
      deletes: { table: "held_gone", cursor: "id" },
      patience: 300,
    })
    const forget = vi.spyOn(recommender, "forget")
    await until(async () => errors.length === 1)
    expect(errors[0]).toMatch(/expected transactions to end, got one that stays open; new rows wait/)
    expect([accepted(), forget.mock.calls.length]).toEqual([5000, 0])
    await slow.query("COMMIT")
    await slow.end()
    await until(async () => accepted() === 5501)
    await until(async () => !recommender.has("user", "u1"))
    await until(async () => errors.at(-1)?.includes("read again") === true)
  })

  test("deletes come after the events they take back, however many wait", async () => {
    await table("bulk")
    await table("bulk_gone", "user_id text, item_id text")
    await insert("bulk", 0, 4000)
    await client.query("INSERT INTO bulk_gone (user_id) VALUES ('u7')")
    const { recommender, accepted } = await follow("bulk", { deletes: { table: "bulk_gone", cursor: "id" } })
    await until(async () => accepted() === 4000)
    await until(async () => !recommender.has("user", "u7"))
    await wait(300)
    const users: unknown[] = []
    for await (const { user } of recommender.events()) users.push(user)
    expect([users.length, users.includes("u7")]).toEqual([3920, false])
  })

  test("rows wait while the column of the users or items has another name: none is passed over, nobody is erased", async () => {
    await table("renamed")
    await table("renamed_gone", "user_id text, item_id text, type text")
    await insert("renamed", 0, 10)
    await client.query("INSERT INTO renamed_gone (user_id, item_id) VALUES ('u3', 'none')")
    const { recommender, accepted, errors } = await follow("renamed", {
      deletes: { table: "renamed_gone", cursor: "id" },
    })
    await until(async () => accepted() === 10)
    await recommender.drain()
    await client.query("ALTER TABLE renamed RENAME COLUMN user_id TO somebody")
    await insert("renamed", 10, 10, "somebody")
    await until(async () => errors.length === 1)
    expect(errors[0]).toMatch(/user column: expected one of .*got .*"somebody"/)
    await wait(300)
    expect([accepted(), errors.length]).toEqual([10, 1])
    await client.query("ALTER TABLE renamed RENAME COLUMN somebody TO user_id")
    await until(async () => accepted() === 20)
    await until(async () => errors.length === 2)
    await client.query("ALTER TABLE renamed_gone RENAME COLUMN item_id TO article")
    await client.query("INSERT INTO renamed_gone (user_id, article) VALUES ('u1', 'i1')")
    await until(async () => errors.length === 3)
    expect(errors[2]).toMatch(/deletes: expected the columns it began with/)
    expect(recommender.has("user", "u1")).toBe(true)
    await client.query("ALTER TABLE renamed_gone RENAME COLUMN article TO item_id")
    await until(async () => errors.length === 4)
    expect(recommender.has("user", "u1")).toBe(true)
  })

  test("after a restart, deletes that lost a column wait too; one that is of no concern may come", async () => {
    await table("kept")
    await table("kept_gone", "user_id text, item_id text")
    await insert("kept", 0, 10)
    const deletes = { table: "kept_gone", cursor: "id" }
    const first = await follow("kept", { deletes })
    const retract = vi.spyOn(first.recommender, "retract")
    await until(async () => first.accepted() === 10)
    await client.query("INSERT INTO kept_gone (user_id, item_id) VALUES ('u3', 'i3')")
    await until(async () => retract.mock.calls.length === 1)
    await client.query("ALTER TABLE kept_gone ADD COLUMN reason text DEFAULT 'returned'")
    await client.query("INSERT INTO kept_gone (user_id, item_id) VALUES ('u4', 'i4')")
    await until(async () => retract.mock.calls.length === 2)
    expect(first.errors).toEqual([])
    await leave()
    await client.query("ALTER TABLE kept_gone RENAME COLUMN item_id TO article")
    await client.query("INSERT INTO kept_gone (user_id, article) VALUES ('u1', 'i1')")
    const { recommender, errors } = await follow("kept", { deletes })
    const again = vi.spyOn(recommender, "retract")
    await until(async () => errors.length === 1)
    expect(errors[0]).toMatch(/deletes: expected the columns it began with \(user, item\)/)
    expect(recommender.has("user", "u1")).toBe(true)
    await client.query("ALTER TABLE kept_gone RENAME COLUMN article TO item_id")
    await until(async () => again.mock.calls.some(([user, item]) => user === "u1" && item === "i1"))
    expect(recommender.has("user", "u1")).toBe(true)
  })

  test("a row stays the same when columns that are not read are added or updated", async () => {
    await table("growing", "user_id text, item_id text, status text")
    // Numbers are given out and not committed: nothing behind them is settled, and rows are known one by one.
    const slow = await connect()
    await slow.query("BEGIN")
    await slow.query("INSERT INTO growing (user_id, item_id) VALUES ('slow', 'slow')")
    await insert("growing", 0, 20)
    const { recommender, accepted, errors } = await follow("growing", {})
    await until(async () => accepted() === 20)
    await client.query("UPDATE growing SET status = 'paid'")
    await insert("growing", 20, 1)
    await until(async () => accepted() >= 21)
    await slow.query("COMMIT")
    await slow.end()
    await until(async () => (await itemsOf(recommender)).includes("slow"))
    await client.query("ALTER TABLE growing ADD COLUMN note text DEFAULT 'none'")
    await insert("growing", 21, 1)
    await until(async () => (await itemsOf(recommender)).includes("i21"))
    await wait(500)
    expect(errors).toEqual([])
    const items = await itemsOf(recommender)
    expect([items.length, new Set(items).size]).toEqual([23, 23])
  })

  test("applies every row once though each side is killed 50 times while rows are written and followed", {
    timeout: 900_000,
  }, async () => {
    await table("torture")
    const writer = writeOn("torture")
    const directory = join(folder, "tortured")
    const script = join(import.meta.dirname, "../support/follow-child.mjs")
    let problems = ""
    let met = 0
    for (let kill = 0; kill < 50; kill++) {
      const child = spawn(process.execPath, [script, directory, server.url, "torture"])
      let accepted = 0
      child.stdout.on("data", (text) => {
        accepted = Number(String(text).trim().split("\n").pop())
      })
      child.stderr.on("data", (text) => {
        problems += text
      })
      const end = new Promise((resolve) => child.once("exit", resolve))
      /** Until it takes rows that nobody has taken before. */
      const follows = async () => {
        const before = Math.max(accepted, met)
        await until(async () => accepted > before || child.exitCode !== null).catch(() => {})
        if (accepted <= before) throw new Error(`kill ${kill}: expected more than ${before} rows\n${problems}`)
      }
      await follows()
      await wait((37 * kill) % 50)
      await server.kill()
      // Every third time it never sees the server come again.
      const isLeftAlone = kill % 3 === 2
      if (!isLeftAlone) {
        await server.start()
        await follows()
        await wait((53 * kill) % 50)
      }
      met = accepted
      child.kill("SIGKILL")
      await end
      if (isLeftAlone) await server.start()
    }
    const rows = await writer.stop()
    await client.end().catch(() => {})
    client = await connect()
    const { recommender, accepted } = await follow("tortured", { events: { table: "torture", cursor: "id" } })
    await until(async () => accepted() >= rows)
    await wait(300)
    const items = await itemsOf(recommender)
    expect([items.length, new Set(items).size], problems).toEqual([rows, rows])
    expect(problems).toContain("expected a Postgres that answers")
  })

  test("the service follows a table by its settings, and hides the password", async () => {
    await table("served")
    await insert("served", 0, 30)
    const url = server.url.replace("shop@", "shop:secret@")
    const words = ["--source", url, "--source-table", "served", "--source-every", "20ms"]
    const service = await serve(words)
    await until(async () => {
      const status = (await (await fetch(`${service.url}/v1/status`)).json()) as { events: { accepted: number } }
      return status.events.accepted === 30
    })
    await until(async () => service.stderr().includes("source: columns: user from"))
    expect(service.stderr()).not.toContain("secret")
  })
})
