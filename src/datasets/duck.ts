/** DuckDB, loaded when data are prepared or prepared data are read, and nowhere else. */

import type { DuckDBAppender, DuckDBDataChunk, DuckDBValue, DuckDBVector } from "@duckdb/node-api"
import { DessError, missingPackage } from "../errors.ts"
import type { TextFile } from "./bytes.ts"

export interface DuckOptions {
  memoryBytes: number
  threads: number
  /** Where it may put what does not fit in memory. */
  temporary: string
}

export interface Duck {
  /** Runs one statement. */
  run(sql: string): Promise<void>
  /** Runs one statement and returns how many rows it changed. */
  change(sql: string): Promise<number>
  /** The first value of the first row, as a number. */
  number(sql: string): Promise<number>
  /** The columns of the rows, some thousand at a time, in the order of the query, held in constant memory. */
  stream(sql: string): AsyncGenerator<DuckChunk>
  /** Opens a table for writing. */
  write(table: string, types: readonly DuckType[]): Promise<DuckWriter>
  /** A value for a column of type FLOAT[]. */
  list(values: ArrayLike<number>): DuckDBValue
  /** Stops what is running. */
  interrupt(): void
  close(): void
}

export type DuckType = "INTEGER" | "FLOAT" | "DOUBLE" | "VARCHAR" | "FLOAT[]"

export interface DuckChunk {
  length: number
  columns: DuckDBVector[]
}

/** A DuckDB in memory, with bounds. */
export async function openDuck({ memoryBytes, threads, temporary }: DuckOptions): Promise<Duck> {
  const duckdb = await loadDuck()
  const instance = await duckdb.DuckDBInstance.create(":memory:", {
    memory_limit: `${Math.round(memoryBytes / 1e6)}MB`,
    threads: String(threads),
    temp_directory: temporary,
    preserve_insertion_order: "true",
    autoinstall_known_extensions: "false",
    autoload_known_extensions: "false",
  })
  const connection = await instance.connect()
  const open = new Set([connection])

  // A new statement silently ends the open stream of its connection, so each stream has a connection of its own.
  async function* stream(sql: string): AsyncGenerator<DuckChunk> {
    const own = await instance.connect()
    open.add(own)
    try {
      const result = await own.stream(sql)
      for (let chunk = await result.fetchChunk(); chunk !== null; chunk = await result.fetchChunk()) {
        const { rowCount: length, columnCount } = chunk
        if (length === 0) return
        yield { length, columns: Array.from({ length: columnCount }, (_, c) => chunk.getColumnVector(c)) }
      }
    } catch (error) {
      throw duckError(error)
    } finally {
      open.delete(own)
      own.closeSync()
    }
  }

  async function execute(sql: string) {
    try {
      return await connection.run(sql)
    } catch (error) {
      throw duckError(error)
    }
  }

  return {
    stream,
    async run(sql) {
      await execute(sql)
    },
    async change(sql) {
      return (await execute(sql)).rowsChanged
    },
    async write(table, types) {
      const known = { ...duckdb, "FLOAT[]": duckdb.LIST(duckdb.FLOAT) }
      const appender = await connection.createAppender(table)
      return new DuckWriter(appender, () =>
        duckdb.DuckDBDataChunk.create(
          types.map((type) => known[type]),
          CHUNK_ROWS,
        ),
      )
    },
    async number(sql) {
      for await (const { columns } of stream(sql)) return Number(columns[0].getItem(0))
      return Number.NaN
    },
    list: (values) => duckdb.listValue(Array.from(values)),
    interrupt() {
      for (const one of open) one.interrupt()
    },
    close() {
      connection.closeSync()
      instance.closeSync()
    },
  }
}

const CHUNK_ROWS = 2048

/** Adds rows to a table, a chunk at a time. */
export class DuckWriter {
  readonly #appender: DuckDBAppender
  readonly #createChunk: () => DuckDBDataChunk
  #chunk: DuckDBDataChunk
  #vectors: DuckDBVector[] = []
  #length = 0

  constructor(appender: DuckDBAppender, createChunk: () => DuckDBDataChunk) {
    this.#appender = appender
    this.#createChunk = createChunk
    this.#chunk = this.#open()
  }

  add(...values: DuckDBValue[]): void {
    for (let c = 0; c < values.length; c++) this.#vectors[c].setItem(this.#length, values[c])
    this.#length++
    if (this.#length === CHUNK_ROWS) this.#flush()
  }

  finish(): void {
    this.#flush()
    try {
      this.#appender.closeSync()
    } catch (error) {
      throw duckError(error)
    }
  }

  #open(): DuckDBDataChunk {
    const chunk = this.#createChunk()
    this.#vectors = Array.from({ length: chunk.columnCount }, (_, c) => chunk.getColumnVector(c))
    this.#length = 0
    return chunk
  }

  #flush(): void {
    if (this.#length === 0) return
    for (const vector of this.#vectors) vector.flush()
    this.#chunk.rowCount = this.#length
    try {
      this.#appender.appendDataChunk(this.#chunk)
    } catch (error) {
      throw duckError(error)
    }
    this.#chunk = this.#open()
  }
}

/** A text file whose bytes DuckDB unpacks: zstd, which Node.js before 22.15 does not know. */
export function duckTextFile({ stream }: Duck, path: string): TextFile {
  // One row per line: the delimiter occurs in no text. From the first line that is not UTF-8 on, the file is read as latin-1, which keeps the bytes.
  const sql = (encoding: string) => `SELECT line FROM read_csv(${quote(path)}, columns = {'line': 'VARCHAR'},
    compression = 'zstd', encoding = '${encoding}', delim = '\u0001\u0002\u0003\u0004', quote = '', escape = '',
    header = false, auto_detect = false, strict_mode = false, max_line_size = ${16 << 20})`
  async function* chunks(): AsyncGenerator<Buffer> {
    let done = 0
    for (const encoding of ["utf-8", "latin-1"] as const) {
      try {
        for await (const { length, columns } of stream(`${sql(encoding)} OFFSET ${done}`)) {
          let text = ""
          for (let row = 0; row < length; row++) text += `${columns[0].getItem(row) ?? ""}\n`
          yield Buffer.from(text, encoding === "utf-8" ? "utf8" : "latin1")
          done += length
        }
        return
      } catch (error) {
        if (!/invalid unicode|not (utf|latin)-\d+ encoded/i.test(messagesOf(error))) throw error
        if (encoding === "latin-1")
          throw new DessError(
            "INVALID_DATA",
            `data file: expected UTF-8 text, got other bytes (${path}); unpack it first: zstd -d ${path}`,
            { cause: error },
          )
      }
    }
  }
  return { path, chunks }
}

/** What an error says, with what caused it. */
function messagesOf(error: unknown): string {
  return error instanceof Error ? `${error.message} ${messagesOf(error.cause)}` : ""
}

/** A text in SQL. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

/** A name in SQL. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** A DessError for an error of DuckDB. */
function duckError(error: unknown): unknown {
  if (error instanceof DessError || !(error instanceof Error)) return error
  const [line] = error.message.split("\n")
  if (/no space left|disk full|not enough disk|max_temp_directory_size/i.test(error.message)) {
    return fullDisk(line, error)
  }
  if (/^out of memory/i.test(error.message)) {
    return new DessError("UNSUPPORTED", `memory: DuckDB needs more than it may take (${line}); raise --memory`, {
      cause: error,
    })
  }
  if (/^interrupt/i.test(error.message)) return new DessError("INTERRUPTED", "interrupted", { cause: error })
  return new DessError("INVALID_DATA", `data: DuckDB cannot read it: ${line}`, { cause: error })
}

/** The error of a disk without room. */
export function fullDisk(got: string, cause: unknown): DessError {
  return new DessError("UNSUPPORTED", `disk: expected room for the result, got ${JSON.stringify(got)}`, { cause })
}

async function loadDuck(): Promise<typeof import("@duckdb/node-api")> {
  try {
    return await import("@duckdb/node-api")
  } catch (cause) {
    throw missingPackage("DuckDB", "@duckdb/node-api", cause)
  }
}
