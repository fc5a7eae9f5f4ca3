/** Follows a Postgres table: its rows are observed, each once, through any crash of either side. */

import { Socket } from "node:net"
import { setTimeout as wait } from "node:timers/promises"
import type { Client } from "pg"
import { type ColumnChoice, describeColumns, readIdHeader } from "../datasets/header.ts"
import { createEventReader } from "../datasets/live-events.ts"
import type { Event, Recommender } from "../engine/types.ts"
import { DessError, missingPackage } from "../errors.ts"
import { observePatiently } from "./lines.ts"
import { type Portion, type Row, readPortion } from "./postgres-rows.ts"

export interface FollowedTable {
  /** A table's name or a query. */
  table: string
  /** A column that only grows. */
  cursor: string
}

export interface PostgresSourceOptions {
  url: string
  events: FollowedTable
  /** Rows of what is taken back: a user and an item, a user alone (erased), or an item alone (deleted). */
  deletes?: FollowedTable | undefined
  columns: ColumnChoice
  /** Milliseconds between two looks. */
  every: number
  /** Milliseconds a server may be silent before the connection counts as lost. */
  patience?: number | undefined
  signal: AbortSignal
  /** Something is wrong and tried again, or is well again. */
  onError(error: unknown): void
  /** Called with what was read from which columns. */
  say?: ((text: string) => void) | undefined
}

const BATCH = 1000
/** Milliseconds before the connection is tried again: doubled each time up to the longest. */
const FIRST_PAUSE = 100
const LONGEST_PAUSE = 10_000
const PATIENCE = 30_000
/** Milliseconds a server has to take leave. */
const LEAVING = 1000

/** Resolves when the signal says so. Whatever fails is told and tried again. */
export async function followPostgres(recommender: Recommender, options: PostgresSourceOptions): Promise<void> {
  const { Client } = await loadPackage()
  const { signal, onError, url, patience = PATIENCE } = options
  // What they know of the columns outlives a connection.
  const observing = observer(recommender, options)
  const removing = remover(recommender, options)
  let pause = FIRST_PAUSE
  let reported = ""
  const report = (problem?: DessError) => {
    const { message } = problem ?? { message: "" }
    if (message !== reported) onError(problem ?? new DessError("CLOSED", "source: it is read again"))
    reported = message
  }
  while (!signal.aborted) {
    const socket = new Socket()
    const client = new Client({
      ...{ connectionString: url, application_name: "dess", stream: () => socket },
      // Nothing else says that the other machine is gone.
      ...{ connectionTimeoutMillis: patience, keepAlive: true, keepAliveInitialDelayMillis: patience },
    })
    // Without a listener a lost connection would end the process; the next query says it, too.
    client.on("error", () => {})
    // An error ends what is under way, connecting and a long query, too.
    const leave = () => socket.destroy(new Error("it is stopping"))
    signal.addEventListener("abort", leave)
    try {
      await client.connect()
      await follow(client, recommender, {
        ...{ ...options, patience, observing, removing },
        onRead(problem) {
          report(problem)
          pause = FIRST_PAUSE
        },
      })
    } catch (error) {
      if (signal.aborted) break
      report(describe(error))
      await wait(pause, undefined, { signal }).catch(() => {})
      pause = Math.min(LONGEST_PAUSE, 2 * pause)
    } finally {
      signal.removeEventListener("abort", leave)
      await disconnect(client, socket)
    }
  }
}

/** Takes leave of a server that may not be there any more. */
async function disconnect(client: Client, socket: Socket): Promise<void> {
  const late = setTimeout(() => socket.destroy(), LEAVING)
  await client.end().catch(() => {})
  clearTimeout(late)
}

interface Following extends PostgresSourceOptions {
  patience: number
  observing: Taker
  removing: Taker
  /** Called after each look, with what is wrong although the server answers. */
  onRead(problem: DessError | undefined): void
}

async function follow(client: Client, recommender: Recommender, options: Following): Promise<void> {
  const { every, signal, onRead, observing, removing, patience, url } = options
  const read = (followed: FollowedTable, taker: Taker) =>
    lookAt(client, recommender, { ...followed, name: nameOf(url, followed), taker, patience })
  while (!signal.aborted) {
    // Deletes are read before the events and applied after them: what they take back is there by then.
    const deletes = options.deletes && (await read(options.deletes, removing))
    const events = await read(options.events, observing)
    await events.take()
    const { isBehind } = events.portion
    if (!isBehind) await deletes?.take()
    onRead(problemOf(events.portion, patience))
    const isMore = events.portion.isMore || (deletes?.portion.isMore === true && !isBehind)
    if (!isMore) await wait(every, undefined, { signal }).catch(() => {})
  }
}

/** Rows that wait for a transaction that does not end. */
function problemOf({ waitingSince }: Portion, patience: number): DessError | undefined {
  if (waitingSince === undefined || Date.now() < waitingSince + patience) return undefined
  return new DessError(
    "BUSY",
    "source: expected transactions to end, got one that stays open; new rows wait for its end, as it may write rows that come before them (pg_stat_activity and pg_prepared_xacts show it)",
  )
}

interface Taker {
  /** What a row is known by, beside its cursor. */
  identify(fields: Row["fields"]): readonly unknown[]
  apply(rows: readonly Row[], source: { name: string; portion: Portion }): Promise<void>
}

/** The rows that are new, and what takes them. */
async function lookAt(
  client: Client,
  recommender: Recommender,
  { name, taker, ...followed }: FollowedTable & { name: string; taker: Taker; patience: number },
) {
  const portion = await readPortion(
    client,
    { ...followed, batch: BATCH, identify: taker.identify },
    recommender.source(name),
  )
  const take = async () => {
    if (portion.rows.length > 0) await taker.apply(portion.rows, { name, portion })
    const position = portion.after(portion.rows.map(({ id }) => id))
    if (recommender.source(name) !== position) await recommender.observe([], { source: { name, position } })
  }
  return { portion, take }
}

/** Observes rows with their position, so that both are kept or neither. A row that is no event is told and passed over. */
function observer(recommender: Recommender, { columns: choice, signal, onError, say }: PostgresSourceOptions): Taker {
  const reader = createEventReader(choice)
  let described = ""
  const apply: Taker["apply"] = async (rows, { name, portion }) => {
    // Columns that are no longer there are no fault of the rows: they wait until somebody mends it.
    const columns = reader.describe(rows[0].fields)
    if (columns !== described) say?.(`source: ${columns}`)
    described = columns
    const taken: string[] = []
    const observe = async (some: readonly Row[]): Promise<void> => {
      const ids = some.map(({ id }) => id)
      const source = { name, position: portion.after([...taken, ...ids]) }
      try {
        const events: Event[] = some.flatMap(
          ({ id, fields }) => reader.read(plain(fields), () => `row ${id.split("/")[0]}`) ?? [],
        )
        await observePatiently(recommender, events, { signal, source, replace: true })
      } catch (error) {
        if (!(error instanceof DessError) || error.code !== "INVALID_DATA") throw error
        if (some.length > 1) {
          const half = some.length >> 1
          await observe(some.slice(0, half))
          return observe(some.slice(half))
        }
        onError(new DessError(error.code, `source: row ${ids[0].split("/")[0]} is passed over: ${error.message}`))
        await recommender.observe([], { source })
      }
      taken.push(...ids)
    }
    await observe(rows)
  }
  return { identify: (fields) => reader.identify(fields), apply }
}

/** Takes back what rows name. Doing it twice is the same as once, so the position may come after. */
function remover(recommender: Recommender, { columns: choice, say }: PostgresSourceOptions): Taker {
  let described = ""
  const readingOf = (fields: Row["fields"]) => readIdHeader(Object.keys(fields), { choice, where: "deletes" })
  const apply: Taker["apply"] = async (rows, { name }) => {
    const reading = readingOf(rows[0].fields)
    const columns = describeColumns(reading)
    await refuseLost(recommender, { name, columns, roles: Object.keys(reading.taken) })
    if (columns !== described) say?.(`source: deletes: ${columns}`)
    described = columns
    const { taken } = reading
    for (const { fields } of rows) {
      const textOf = (name: string | undefined) => {
        const value = name === undefined ? undefined : fields[name]
        return value === null || value === undefined ? undefined : String(value)
      }
      const [user, item, type] = [textOf(taken.user), textOf(taken.item), textOf(taken.type)]
      if (user !== undefined && item !== undefined) await recommender.retract(user, item, type)
      else if (user !== undefined) await recommender.forget(user)
      else if (item !== undefined) await recommender.deleteItems(item)
    }
  }
  const identify = (fields: Row["fields"]) => {
    const { user, item, type } = readingOf(fields).taken
    return [user, item, type].map((column) => (column === undefined ? undefined : fields[column]))
  }
  return { identify, apply }
}

/**
 * Refuses deletes that lack a column they had once: without its item a pair would be read as a user to be erased. What
 * they had is kept with the position, so that it is known after a restart.
 */
async function refuseLost(
  recommender: Recommender,
  { name, columns, roles }: { name: string; columns: string; roles: readonly string[] },
): Promise<void> {
  const place = `columns of ${name}`.slice(0, 512)
  const kept = recommender.source(place)
  const before = kept === undefined ? [] : kept.split(",")
  if (before.some((role) => !roles.includes(role)))
    throw new DessError(
      "INVALID_DATA",
      `source: deletes: expected the columns it began with (${before.join(", ")}), got others (${columns}); nothing is taken back until they are there; a table or query of another name may have others`,
    )
  const position = roles.join(",")
  if (position !== kept) await recommender.observe([], { source: { name: place, position } })
}

/** Numbers of 64 bits and dates as the reader takes them. */
function plain(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value instanceof Date ? value.getTime() / 1000 : value]),
  )
}

/** What the position is kept under: where the rows come from, without who reads them. */
function nameOf(url: string, { table, cursor }: FollowedTable): string {
  const { hostname, port, pathname } = new URL(url)
  return `postgres:${hostname}:${port || 5432}${pathname}:${cursor}:${table}`.slice(0, 512)
}

const MISSING = new Set(["42703", "42P01", "42883"])

function describe(error: unknown): DessError {
  if (error instanceof DessError) return error
  const { code, message } = error as { code?: string; message: string }
  const reason = `${message || "no answer"}${code ? ` (${code})` : ""}`
  if (code !== undefined && MISSING.has(code))
    return new DessError(
      "INVALID_DATA",
      `source: expected the table, query and columns it was set up with, got: ${reason}; nothing is lost, it goes on once they are there`,
    )
  return new DessError("CLOSED", `source: expected a Postgres that answers, got: ${reason}; it is tried again`)
}

async function loadPackage(): Promise<{ Client: typeof Client }> {
  try {
    const { default: pg } = await import("pg")
    return pg
  } catch (cause) {
    throw missingPackage("source", "pg", cause)
  }
}
