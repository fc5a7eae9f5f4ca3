/**
 * New rows of a Postgres table or query, in the order of a column that only grows, each once.
 *
 * Transactions end in another order than their numbers were given: row 7 may become visible after row 8 was read. So a
 * position is a cursor behind which everything is settled, and the rows beyond it that were taken already. The cursor moves
 * on once every transaction that ran when a row was read has ended.
 */

import { createHash } from "node:crypto"
import type { Client, QueryConfig } from "pg"
import { DessError, show } from "../errors.ts"

export interface RowsOptions {
  /** A table's name or a query. */
  table: string
  /** The column that only grows. */
  cursor: string
  /** Rows read at a time. */
  batch: number
  /** What tells a row from others with its cursor. Other columns may be added or updated, it stays the same row. */
  identify: (fields: Record<string, unknown>) => readonly unknown[]
  /** Milliseconds the server may take for what asks nothing of it. */
  patience: number
}

export interface Row {
  /** Distinguishes it from the other rows beyond the settled cursor. */
  id: string
  fields: Record<string, unknown>
}

/** Where reading goes on, as JSON. */
interface Position {
  /** Everything up to here is taken and settled. */
  settled: string | null
  /** Rows beyond it that are taken. */
  taken: string[]
  /** Up to `cursor` all is settled when transactions before `transaction` have ended, and it is later than `time`. */
  next: { cursor: string; transaction: string; time: number } | null
}

interface Found extends Row {
  cursor: string
  isBeforeNext: boolean
}

/** Rows beyond the settled cursor that may be taken: a transaction that stays open for long must not fill the memory. */
const MOST_TAKEN = 5000
/** Milliseconds a number may have been given out before the transaction that has it is seen to run. */
const SETTLING = 2000

/** Rows that are new behind a position. */
export interface Portion {
  rows: Row[]
  /** Whether there are more right now. */
  isMore: boolean
  /** Whether not all were read, or some have to wait. */
  isBehind: boolean
  /** When rows that wait for an open transaction began to. */
  waitingSince: number | undefined
  /** The position once rows with these ids are taken; with all of them the settled cursor moves on. */
  after(ids: readonly string[]): string
}

export async function readPortion(client: Client, options: RowsOptions, given: string | undefined): Promise<Portion> {
  const before: Position = given === undefined ? { settled: null, taken: [], next: null } : JSON.parse(given)
  const limit = options.batch + before.taken.length
  const { found, oldest, newest } = await query(client, { ...options, limit }, before)
  const isCut = found.length >= limit
  const isOver = before.next !== null && BigInt(oldest) >= BigInt(before.next.transaction)
  const isSettled = isOver && (isCut || Date.now() >= (before.next?.time ?? 0))
  const known = new Set(before.taken)
  // What is settled is known by the cursor, the rest by ids.
  const isById = (row: Found) => !isSettled || !row.isBeforeNext
  const kept = found.filter((row) => isById(row) && known.has(row.id)).map(({ id }) => id)
  let room = MOST_TAKEN - kept.length
  const fresh = found.filter((row) => !known.has(row.id))
  const rows = fresh.filter((row) => !isById(row) || room-- > 0)
  const last = found.findLast((row) => known.has(row.id) || rows.includes(row))?.cursor
  const settled = isSettled
    ? ((isCut ? undefined : before.next?.cursor) ?? lastBefore(found) ?? before.settled)
    : before.settled
  const waits = !isSettled && before.next !== null
  const isNew = last !== undefined && last !== settled
  const fromHere = isNew ? { cursor: last, transaction: newest, time: Date.now() + SETTLING } : null
  const next = waits ? before.next : fromHere
  return {
    rows,
    isMore: isCut && rows.length > 0,
    isBehind: isCut || rows.length < fresh.length,
    waitingSince: rows.length < fresh.length ? before.next?.time : undefined,
    after(ids) {
      if (ids.length < rows.length) return JSON.stringify({ ...before, taken: [...before.taken, ...ids] })
      const byId = rows.filter(isById).map(({ id }) => id)
      return JSON.stringify({ settled, taken: [...kept, ...byId], next })
    },
  }
}

const lastBefore = (found: readonly Found[]) => found.findLast((row) => row.isBeforeNext)?.cursor

async function query(client: Client, options: RowsOptions & { limit: number }, { settled, next }: Position) {
  const { table, cursor, limit, identify } = options
  const from = /^\s*(select|with|values)\b/i.test(table) ? `(${table.replace(/;\s*$/, "")})` : quoteTable(table)
  const column = `rows.${quoteName(cursor)}`
  const values: string[] = []
  const value = (text: string) => `$${values.push(text)}`
  const isBeforeNext = next === null ? "false" : `${column} <= ${value(next.cursor)}`
  const where = settled === null ? `${column} IS NOT NULL` : `${column} > ${value(settled)}`
  const text = `SELECT rows.*, ${column}::text AS "dess cursor",
    ${isBeforeNext} AS "dess before" FROM ${from} AS rows WHERE ${where}
    ORDER BY ${column} FETCH FIRST ${limit} ROWS WITH TIES`
  const soon = (text: string): QueryConfig & { query_timeout: number } => ({ text, query_timeout: options.patience })
  await client.query(soon("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
  const { rows: running } = await client.query<{ oldest: string; newest: string }>(soon(RUNNING))
  const { rows } = await client.query<Record<string, unknown>>(text, values)
  // After an error the connection is given up, and the transaction with it.
  await client.query(soon("ROLLBACK"))
  const seen = new Map<string, number>()
  const found = rows.map((row): Found => {
    const { "dess cursor": at, "dess before": isBeforeNext, ...fields } = row
    const same = `${at}/${hashOf(identify(fields))}`
    const count = (seen.get(same) ?? 0) + 1
    seen.set(same, count)
    const id = count === 1 ? same : `${same}/${count}`
    return { id, cursor: String(at), isBeforeNext: isBeforeNext === true, fields }
  })
  return { found, ...running[0] }
}

function hashOf(values: readonly unknown[]): string {
  const text = JSON.stringify(values.map((value) => (value === null || value === undefined ? null : String(value))))
  return createHash("sha256").update(text).digest("hex").slice(0, 8)
}

/** Transactions before `oldest` have ended; those from `newest` on have not begun. */
const RUNNING = `SELECT txid_snapshot_xmin(txid_current_snapshot())::text AS oldest,
  txid_snapshot_xmax(txid_current_snapshot())::text AS newest`

/** A name, or a schema's name and a name. */
function quoteTable(name: string): string {
  const parts = name.split(".")
  if (parts.length <= 2 && parts.every((part) => part.trim() !== "")) return parts.map(quoteName).join(".")
  throw new DessError("INVALID_ARGUMENT", `source table: expected a name, schema.name or a query, got ${show(name)}`)
}

function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
