/**
 * The journal on disk: files of frames, one after the other. Only the last is appended to; closed ones are packed
 * (many commits to a deflated frame), rewritten when a user is erased, and dropped when they are not to be kept.
 */

import {
  closeSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { deflateRaw } from "node:zlib"
import { DessError, show } from "../errors.ts"
import {
  diskError,
  FolderNames,
  isSystemError,
  makePrivate,
  replaceFile,
  replaceFileSlowly,
  syncData,
  syncFolder,
  tryTo,
  writeAll,
} from "./disk.ts"
import {
  damagedJournal,
  decodeFileHeader,
  encodeFileHeader,
  encodeFrame,
  encodeGap,
  FILE_HEADER_BYTES,
  type FileHeader,
  FrameReader,
  frameRecords,
  joinRecords,
  MOST_PAYLOAD,
} from "./frames.ts"
import { LostRecords } from "./lost-records.ts"
import { decodeRecord, encodeRecord, isLeaving, type LogRecord } from "./records.ts"
import { createPause, refuseAborted } from "./turns.ts"

const PATTERN = /^journal-(\d{12,})\.log$/
/** Bytes of records that are deflated together. */
const BLOCK_BYTES = 16_384
/** Files up to this size are rewritten even when the process is about to end: it takes a moment. */
const QUICK_BYTES = 4 * 2 ** 20
/** Closed files are joined up to this size. */
const JOINED_BYTES = 2 ** 22
/** The current file is closed at this size, so that reading or rewriting a whole file never takes long. */
const CLOSED_BYTES = 2 ** 24
/** Free bytes needed before writing goes on after a failure. */
const TRIAL = Buffer.alloc(65_536)
/** Maximum bytes of the length before a record. */
const RECORD_LENGTH_BYTES = 8
const deflated = promisify(deflateRaw)

export interface Placed {
  position: number
  record: LogRecord
}

interface Encoded {
  position: number
  bytes: Uint8Array
}

function decoded({ position, bytes }: Encoded): Placed {
  return { position, record: decodeRecord(bytes, position) }
}

interface JournalFile {
  path: string
  first: number
  /** Undefined for the current file. */
  end: number | undefined
  bytes: number
  isPacked: boolean
  hasLeft: boolean
}

function pathOf(directory: string, first: number): string {
  return join(directory, `journal-${String(first).padStart(12, "0")}.log`)
}

export class JournalFiles {
  readonly #directory: string
  readonly #id: string
  /** In order; the last is appended to. */
  #files: JournalFile[] = []
  #file: number | undefined
  /** End of the last durable frame of the last file. */
  #length = 0
  /** Position behind the last durable record. */
  next = 0
  /** The last write failed: the file may end with what was refused. */
  #isTorn = false
  readonly #names: FolderNames

  private constructor(directory: string, id: string) {
    this.#directory = directory
    this.#id = id
    this.#names = new FolderNames(directory)
  }

  /** Makes the first file of a new directory. */
  static create(directory: string, id: string, first = 0): void {
    const header = encodeFileHeader({ id, first, end: undefined, isPacked: false, hasLeft: true })
    replaceFile(pathOf(directory, first), (append) => append(header))
  }

  /** Removes the first file of a directory whose creation failed. */
  static remove(directory: string, first = 0): void {
    rmSync(pathOf(directory, first), { force: true })
  }

  /** Opens existing files. A half-written end, left by a crash, is cut off unless the journal is only read. */
  static async open(
    directory: string,
    id: string,
    { readOnly = false, signal }: { readOnly?: boolean; signal?: AbortSignal | undefined } = {},
  ): Promise<JournalFiles> {
    const files = new JournalFiles(directory, id)
    files.#list(readOnly)
    try {
      await files.#openLast(readOnly, signal)
    } catch (error) {
      await files.close()
      throw error
    }
    return files
  }

  /** Whether there is more than the empty file of a directory that was never used. */
  static hasEvents(directory: string): boolean {
    const files = readdirSync(directory).filter((name) => PATTERN.test(name))
    return files.length > 1 || files.some((name) => statSync(join(directory, name)).size > FILE_HEADER_BYTES)
  }

  /** Position of the first record that is kept. */
  get first(): number {
    return this.#files[0].first
  }

  get bytes(): number {
    return this.#files.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  #list(readOnly: boolean): void {
    const found: JournalFile[] = []
    for (const name of readdirSync(this.#directory)) {
      if (name.startsWith("journal-") && name.endsWith(".log.part") && !readOnly)
        tryTo(() => rmSync(join(this.#directory, name), { force: true }))
      const match = PATTERN.exec(name)
      if (!match) continue
      const path = join(this.#directory, name)
      const { header, bytes } = readHead(path)
      if (!header || header.first !== Number(match[1]))
        throw damagedJournal(name, { at: 0, next: Number(match[1]), kind: "damaged" })
      if (header.id !== this.#id)
        throw new DessError(
          "INVALID_DATA",
          `journal: expected that of ${this.#id}, got ${show(name)} of ${header.id}; bring back the one that belongs here`,
        )
      found.push({ path, bytes, ...header })
    }
    found.sort((a, b) => a.first - b.first)
    // Files that were joined into the one before them, when a crash kept them from being removed.
    let covered = 0
    this.#files = found.filter((file) => {
      const isJoined = file.first < covered
      if (isJoined && !readOnly) tryTo(() => rmSync(file.path))
      covered = Math.max(covered, file.end ?? 0)
      return !isJoined
    })
    if (this.#files.length === 0)
      throw new DessError("INVALID_DATA", "journal: expected its files beside the directory's description, got none")
    this.#files.forEach((file, f) => {
      const following = this.#files[f + 1]?.first
      if (file.end !== undefined && file.end !== following)
        throw new DessError(
          "INVALID_DATA",
          `journal: expected a file that begins with record ${file.end}, got ${following ?? "none"}; bring it back, or open the directory with recover (--recover), which goes on without it`,
        )
      file.end = following
    })
  }

  async #openLast(readOnly: boolean, signal: AbortSignal | undefined): Promise<void> {
    const last = this.#files[this.#files.length - 1]
    const isWritable = this.#openFile(last.path, readOnly)
    const file = this.#file as number
    const size = fstatSync(file).size
    const reader = new FrameReader({ file, size, at: FILE_HEADER_BYTES, position: last.first })
    const pause = createPause()
    for (const _frame of reader) {
      const turn = pause()
      if (!turn) continue
      await turn
      refuseAborted(signal)
    }
    const { at, next, kind } = reader.ending
    if (kind === "damaged") throw damagedJournal(last.path.slice(this.#directory.length + 1), reader.ending)
    this.#length = at
    this.next = next
    last.bytes = at
    this.#isTorn = true
    if (isWritable) tryTo(() => this.#cut())
  }

  /** On a disk that cannot be written to it can be read all the same. */
  #openFile(path: string, readOnly: boolean): boolean {
    if (!readOnly)
      try {
        this.#file = openSync(path, "r+")
        makePrivate(this.#file)
        return true
      } catch (error) {
        if (!["EROFS", "EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error
      }
    this.#file = openSync(path, "r")
    return false
  }

  /** Appends records that are encoded already; resolves when they are on disk. After a failure none of them is there. */
  async append(records: readonly Uint8Array[]): Promise<void> {
    if (records.length === 0) return
    const last = this.#files[this.#files.length - 1]
    try {
      if (this.#file === undefined || this.#isTorn) throw new Error("it failed before and was not mended")
      this.#isTorn = true
      let [length, position] = [this.#length, this.next]
      for (const some of portionsOf(records)) {
        const frame = frameRecords(position, some)
        await writeAll(this.#file, frame, length)
        length += frame.length
        position += some.length
      }
      await syncData(this.#file)
      this.#isTorn = false
      this.#length = length
      last.bytes = length
      this.next = position
    } catch (cause) {
      tryTo(() => this.#cut())
      throw diskError("journal", cause)
    }
  }

  /** Continues at a later position; the records before it are gone. */
  async skipTo(position: number): Promise<void> {
    const last = this.#files[this.#files.length - 1]
    try {
      const gap = encodeGap(this.next, position - this.next)
      await writeAll(this.#file as number, gap, this.#length)
      await syncData(this.#file as number)
      this.#length += gap.length
      last.bytes = this.#length
      this.next = position
    } catch (cause) {
      tryTo(() => this.#cut())
      throw diskError("journal", cause)
    }
  }

  /** Cuts off what was refused. */
  #cut(): void {
    if (this.#file === undefined) return
    ftruncateSync(this.#file, this.#length)
    this.#isTorn = false
  }

  /** After a failure: makes sure that it ends with what was acknowledged, and that there is room for more. */
  async mend(): Promise<void> {
    const last = this.#files[this.#files.length - 1]
    try {
      // A file whose flush failed is not to be trusted with another.
      const before = this.#file
      this.#file = openSync(last.path, "r+")
      if (before !== undefined) tryTo(() => closeSync(before))
      this.#isTorn = true
      await this.#settleNames()
      ftruncateSync(this.#file, this.#length)
      await writeAll(this.#file, TRIAL, this.#length)
      await syncData(this.#file)
      this.#cut()
      await syncData(this.#file)
    } catch (cause) {
      tryTo(() => this.#cut())
      throw diskError("journal", cause)
    }
  }

  /** Records from a position on, in order. Damage is refused when it is met. */
  *read(from: number): Generator<Placed> {
    for (const encoded of this.#encoded(from)) yield decoded(encoded)
  }

  /** Records from a position on by which indices were given up, or erasures ended. Others get turns meanwhile. */
  async *readLeavings(from: number, signal?: AbortSignal): AsyncGenerator<Placed> {
    const pause = createPause()
    for (const encoded of this.#encoded(from, ({ hasLeft }) => hasLeft)) {
      if (isLeaving(encoded.bytes)) yield decoded(encoded)
      const turn = pause()
      if (!turn) continue
      await turn
      refuseAborted(signal)
    }
  }

  /** `isWanted`: of which files. */
  *#encoded(from: number, isWanted: (file: JournalFile) => boolean = () => true): Generator<Encoded> {
    for (let at = from; at < this.next; ) {
      const file = this.#files.find(({ first, end = Number.POSITIVE_INFINITY }) => first <= at && at < end)
      if (!file) {
        const following = this.#files.find(({ first }) => first > at)
        if (!following) return
        at = following.first
        continue
      }
      const end = file.end ?? this.next
      if (isWanted(file)) yield* this.#readFile(file, at)
      at = end
    }
  }

  /** All records; throws when the journal closes meanwhile. */
  *readUntilClosing(): Generator<Placed> {
    for (const placed of this.read(this.first)) {
      if (this.isClosing) throw closing()
      yield placed
    }
  }

  *#readFile(file: JournalFile, from: number): Generator<Encoded> {
    const open = openToRead(file.path)
    try {
      // Read now: the last file may be closed before it is read to its end.
      const end = file.end ?? this.next
      const size = file.end === undefined ? this.#length : fstatSync(open).size
      const reader = new FrameReader({ file: open, size, at: FILE_HEADER_BYTES, position: file.first })
      for (const { position, records } of reader)
        for (let r = 0; r < records.length; r++)
          if (position + r >= from) yield { position: position + r, bytes: records[r] }
      const { ending } = reader
      if (ending.kind !== "clean" || ending.next !== end)
        throw damagedJournal(file.path.slice(this.#directory.length + 1), ending)
    } catch (cause) {
      throw isSystemError(cause) ? diskError("journal", cause, "give") : cause
    } finally {
      tryTo(() => closeSync(open))
    }
  }

  /** Makes names durable and removes what is to go; rejects where that cannot be done. */
  async #settleNames(): Promise<void> {
    try {
      await this.#names.settle()
    } catch (cause) {
      throw diskError("journal", cause)
    }
  }

  /** Whether it is time for a new file. */
  get isFull(): boolean {
    return this.#length >= CLOSED_BYTES
  }

  /** Goes on in a new file; nothing may be appended meanwhile. */
  async roll(): Promise<void> {
    const last = this.#files[this.#files.length - 1]
    if (this.next === last.first) return
    // One of the same name may be among what is to be removed, and a closed file has no torn end.
    await this.#settleNames()
    try {
      if (this.#isTorn) this.#cut()
    } catch (cause) {
      throw diskError("journal", cause)
    }
    const path = pathOf(this.#directory, this.next)
    const header = { id: this.#id, first: this.next, end: undefined, isPacked: false, hasLeft: true }
    let file: number | undefined
    try {
      await replaceFileSlowly(path, (append) => append(encodeFileHeader(header)))
      await syncFolder(this.#directory)
      file = openSync(path, "r+")
    } catch (cause) {
      // It must not come after records that are yet to be appended to the file before it.
      this.#names.changed([path])
      this.#isTorn = true
      await this.#names.settle().then(
        () => tryTo(() => this.#cut()),
        () => {},
      )
      throw diskError("journal", cause)
    }
    const before = this.#file
    this.#file = file
    this.#length = FILE_HEADER_BYTES
    last.end = this.next
    // So that a missing file is noticed; where that cannot be written nothing is lost.
    if (before !== undefined) {
      tryTo(() => writeSync(before, encodeFileHeader({ id: this.#id, ...last }), 0, FILE_HEADER_BYTES, 0))
      tryTo(() => closeSync(before))
    }
    this.#files.push({ path, bytes: FILE_HEADER_BYTES, ...header })
  }

  /** Removes closed files all of whose records lie before a position. */
  async drop(before: number): Promise<void> {
    const isOld = ({ end }: JournalFile) => end !== undefined && end <= before
    const old = this.#files.filter(isOld)
    this.#files = this.#files.filter((file) => !isOld(file))
    if (old.length > 0) this.#names.changed(old.map(({ path }) => path))
    await this.#settleNames()
  }

  /** True: large files are no longer rewritten, and a rewrite under way is given up. */
  isClosing = false

  /** Packs closed files and joins small ones with those before them. */
  async pack(): Promise<void> {
    await this.#settleNames()
    for (let f = 0; f < this.#files.length; f++) {
      const file = this.#files[f]
      if (file.end === undefined || file.isPacked || (this.isClosing && file.bytes > QUICK_BYTES)) continue
      const before = this.#files[f - 1]
      const joins = before?.isPacked && before.bytes + file.bytes <= JOINED_BYTES
      await this.#rewrite(joins ? [before, file] : [file])
      if (joins) f--
    }
  }

  /** Changes the records at some positions; closed files that have none of them stay as they are. */
  async change(positions: readonly number[], change: (placed: Placed) => LogRecord): Promise<void> {
    await this.#settleNames()
    for (const file of [...this.#files]) {
      const { first, end } = file
      const own = end === undefined ? [] : positions.filter((at) => first <= at && at < end)
      if (own.length > 0) await this.#rewrite([file], { positions: new Set(own), change })
    }
  }

  /** Rewrites neighbouring closed files as one. */
  async #rewrite(
    old: readonly JournalFile[],
    changes?: { positions: ReadonlySet<number>; change: (placed: Placed) => LogRecord },
  ): Promise<void> {
    const [{ first, path }, { end }] = [old[0], old[old.length - 1]]
    let hasLeft = false
    let bytes = FILE_HEADER_BYTES
    const header = () => encodeFileHeader({ id: this.#id, first, end, isPacked: true, hasLeft })
    const isLong = old.reduce((sum, file) => sum + file.bytes, 0) > QUICK_BYTES
    try {
      await replaceFileSlowly(path, async (append, rewrite) => {
        await append(header())
        let block: Uint8Array[] = []
        let [position, size] = [first, 0]
        const flush = async () => {
          if (block.length === 0) return
          const payload = await deflated(joinRecords(block), { level: 4 })
          const frame = encodeFrame({ position, count: block.length, payload, isDeflated: true })
          bytes += frame.length
          await append(frame)
          position += block.length
          ;[block, size] = [[], 0]
        }
        for (const file of old)
          for (const encoded of this.#readFile(file, file.first)) {
            if (this.isClosing && isLong) throw closing()
            if (encoded.position !== position + block.length) {
              await flush()
              await append(encodeGap(position, encoded.position - position))
              bytes += encodeGap(0, 0).length
              position = encoded.position
            }
            hasLeft ||= isLeaving(encoded.bytes)
            const change = changes?.positions.has(encoded.position) ? changes.change : undefined
            const record = change ? encodeRecord(change(decoded(encoded))) : encoded.bytes
            block.push(record)
            size += record.length
            if (size >= BLOCK_BYTES) await flush()
          }
        await flush()
        if (end !== undefined && position < end) {
          await append(encodeGap(position, end - position))
          bytes += encodeGap(0, 0).length
        }
        await rewrite(header(), 0)
      })
    } catch (cause) {
      throw diskError("journal", cause)
    }
    const written = { path, first, end, bytes, isPacked: true, hasLeft }
    this.#files = this.#files.flatMap((file) => (file === old[0] ? written : old.includes(file) ? [] : file))
    this.#names.changed(old.slice(1).map((file) => file.path))
    await this.#settleNames()
  }

  /** Bytes from a position on, roughly: whole files but for the one it lies in. */
  bytesFrom(position: number): number {
    return this.#files.reduce((sum, { first, end = this.next, bytes }) => {
      if (end <= position) return sum
      const share = end === first ? 0 : Math.min(1, (end - position) / (end - first))
      return sum + share * bytes
    }, 0)
  }

  async close(): Promise<void> {
    if (this.#isTorn) tryTo(() => this.#cut())
    await this.#names.settle().catch(() => {})
    if (this.#file !== undefined) tryTo(() => closeSync(this.#file as number))
    this.#file = undefined
  }
}

/** The disk's error without its path. */
function openToRead(path: string): number {
  try {
    return openSync(path, "r")
  } catch (cause) {
    throw diskError("journal", cause, "give")
  }
}

function readHead(path: string) {
  const file = openToRead(path)
  try {
    const head = Buffer.alloc(FILE_HEADER_BYTES)
    const read = readSync(file, head, 0, head.length, 0)
    return { header: decodeFileHeader(head.subarray(0, read)), bytes: fstatSync(file).size }
  } finally {
    closeSync(file)
  }
}

/** Records that go into a frame together. */
function* portionsOf(records: readonly Uint8Array[]): Generator<Uint8Array[]> {
  let [some, bytes]: [Uint8Array[], number] = [[], 0]
  for (const record of records) {
    if (some.length > 0 && bytes + record.length + RECORD_LENGTH_BYTES > MOST_PAYLOAD) {
      yield some
      ;[some, bytes] = [[], 0]
    }
    some.push(record)
    bytes += record.length + RECORD_LENGTH_BYTES
  }
  if (some.length > 0) yield some
}

/**
 * Mends damaged files of a directory: keeps every frame that is whole and puts gaps where records are gone. Returns
 * what is gone, in words; none where all is whole.
 */
export async function recoverJournal(directory: string, id: string, signal?: AbortSignal): Promise<string[]> {
  const mended: string[] = []
  const found = readdirSync(directory)
    .filter((name) => PATTERN.test(name))
    .map((name) => ({ name, first: Number(PATTERN.exec(name)?.[1]), header: readHead(join(directory, name)).header }))
    .sort((a, b) => a.first - b.first)
  let covered = 0
  // Those joined into the one before them are taken away when the journal is opened.
  const files = found.filter(({ first, header }) => {
    const isJoined = first < covered
    covered = Math.max(covered, header?.id === id ? (header.end ?? 0) : 0)
    return !isJoined
  })
  const lost = new LostRecords(files[0]?.first ?? 0)
  for (let f = 0; f < files.length; f++) {
    const { name, first, header } = files[f]
    const isWhole = header !== undefined && header.id === id && header.first === first
    if (!isWhole) mended.push(`${name}: its header was damaged and is made anew`)
    const p = { id, first, following: files[f + 1]?.first, header: isWhole ? header : undefined, lost, signal }
    await recoverFile(join(directory, name), p)
  }
  return [...mended, ...lost.describe()]
}

interface RecoverOptions {
  id: string
  first: number
  /** Of the next file. */
  following: number | undefined
  /** Undefined where it is damaged. */
  header: FileHeader | undefined
  lost: LostRecords
  signal: AbortSignal | undefined
}

async function recoverFile(path: string, p: RecoverOptions): Promise<void> {
  const { id, first, following, header, lost, signal } = p
  const file = openSync(path, "r")
  let isWhole = header !== undefined
  const lose = (from: number, to: number | undefined, why: "damaged" | "missing") => {
    isWhole = false
    lost.lose(
      `${path.slice(path.lastIndexOf("journal-"))}: records ${from} to ${to === undefined ? "the end" : to - 1} were ${why} and are gone`,
    )
  }
  const pause = createPause()
  try {
    const size = fstatSync(file).size
    const kept: { position: number; count: number; from: number; to: number }[] = []
    let [at, position] = [FILE_HEADER_BYTES, first]
    let isClean = false
    for (;;) {
      const reader = new FrameReader({ file, size, at, position })
      for (const frame of reader) {
        kept.push({ position: frame.position, count: frame.count, from: at, to: frame.end })
        for (let r = 0; r < frame.records.length; r++) lost.read(decodeRecord(frame.records[r], frame.position + r))
        at = frame.end
        await pause()
        refuseAborted(signal)
      }
      const { ending } = reader
      position = ending.next
      isClean = ending.kind === "clean"
      if (isClean) break
      const next = reader.findFrame(ending.at + 1)
      if (!next || next.position >= (following ?? Number.POSITIVE_INFINITY)) {
        if (ending.kind === "damaged" && following === undefined) lose(position, undefined, "damaged")
        break
      }
      if (next.position > position) lose(position, next.position, "damaged")
      at = next.at
      position = next.position
    }
    if (following !== undefined && position < following) lose(position, following, isClean ? "missing" : "damaged")
    if (following === undefined && header?.end !== undefined) lose(header.end, undefined, "missing")
    if (isWhole) return
    await replaceFileSlowly(path, async (append) => {
      await append(encodeFileHeader({ id, first, end: following, isPacked: false, hasLeft: true }))
      let expected = first
      for (const { position: from, count, from: start, to } of kept) {
        if (from > expected) await append(encodeGap(expected, from - expected))
        const bytes = Buffer.alloc(to - start)
        readSync(file, bytes, 0, bytes.length, start)
        await append(bytes)
        expected = from + count
      }
      if (following !== undefined && expected < following) await append(encodeGap(expected, following - expected))
    })
    await syncFolder(dirname(path))
  } finally {
    closeSync(file)
  }
}

/** What long work ends with when the process is about to end: it is done at the next start. */
function closing(): DessError {
  return new DessError(
    "CLOSED",
    "journal: expected to be written anew, it is being closed; that is done after the next start",
  )
}
