/**
 * Makes any file operation of a Node process fail, native code included, and moves its clock (Linux only).
 *
 *   const faults = new Faults({ folder: directory })
 *   spawn(process.execPath, [program], { env: { ...process.env, ...faults.env() } })
 *   faults.arm({ classes: ["write"], failAt: 3, code: "ENOSPC" })
 *   …
 *   faults.disarm()
 *   faults.close()
 *
 * The process reads a control file, so it can be changed while it runs. What is matched and what is not: faults.c.
 */

import { spawnSync } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs"
import { constants, tmpdir } from "node:os"
import { basename, dirname, join, resolve } from "node:path"

const SOURCE = join(import.meta.dirname, "faults.c")
const FLAGS = ["-O2", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0"]

/** In the order of their bits. */
export const CLASSES = [
  "open", // to read
  "create", // opening to write, whether or not it is there
  "write", // also copying
  "sync",
  "truncate", // also fallocate
  "rename", // also links
  "unlink", // also rmdir
  "mkdir",
  "bind", // of sockets in the folder
  "read",
  "mmap", // shared
]
/** Those that change something; what `arm` takes when it is not told. */
export const CHANGES = CLASSES.filter((name) => !["open", "read", "mmap"].includes(name))

// The same offsets as in faults.c.
const SIZE = 856
const FOLDER_BYTES = 512
const AT = {
  magic: 0,
  folder: 8,
  armed: 520,
  classes: 524,
  failAt: 528,
  failCount: 536,
  error: 544,
  shortWrite: 548,
  freeBytes: 552,
  clockOffset: 560,
  processes: 568,
  operations: 576,
  failed: 584,
  matchedByClass: 592,
  failedByClass: 720,
  calm: 848,
}

/** Compiles the library, once per source and user. Without a compiler, or elsewhere than on Linux: why not. */
export function buildFaults() {
  if (process.platform !== "linux") return { reason: `expected Linux, got ${process.platform}` }
  const source = readFileSync(SOURCE)
  const key = createHash("sha256").update(source).update(FLAGS.join(" ")).update(process.arch).digest("hex")
  const folder = join(tmpdir(), `dess-faults-${process.getuid()}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { uid } = lstatSync(folder)
  if (uid !== process.getuid()) return { reason: `expected ${folder} to be our own, got one of user ${uid}` }
  const library = join(folder, `${key.slice(0, 16)}.so`)
  if (existsSync(library)) return { library }
  // Several may do this at once: each builds its own, the last one's stays.
  const built = `${library}.${process.pid}.${randomBytes(4).toString("hex")}`
  try {
    const reason = compile(built) ?? tryOut(built)
    if (reason !== undefined) return { reason }
    renameSync(built, library)
    return { library }
  } finally {
    rmSync(built, { force: true })
  }
}

/** Why it cannot be done, or undefined. */
function compile(output) {
  let reason = "expected a C compiler (cc or gcc), got none"
  for (const compiler of ["cc", "gcc"]) {
    const { status, error, stderr } = spawnSync(compiler, [...FLAGS, "-o", output, SOURCE, "-ldl", "-lpthread"])
    if (status === 0) return undefined
    if (!error) reason = `${compiler}: ${firstError(stderr)}`
  }
  return reason
}

function firstError(stderr) {
  const lines = stderr.toString().split("\n")
  return lines.find((line) => line.includes("error")) ?? lines[0]
}

/** Whether a Node process loads it: one that is linked statically would not, silently. */
function tryOut(library) {
  const faults = new Faults({ library })
  try {
    const { status, stderr } = spawnSync(process.execPath, ["-e", "0"], { env: { ...process.env, ...faults.env() } })
    if (status === 0 && faults.counts().processes > 0) return undefined
    return `expected Node to load the library, got ${firstError(stderr) || `status ${status}`}`
  } finally {
    faults.close()
  }
}

/** The control file of some processes, and what starts them under it. */
export class Faults {
  #file
  #path
  #library
  #home

  /** With `control` the control file is one that is there already. */
  constructor({ folder, library, control } = {}) {
    if (control === undefined) {
      const found = library === undefined ? buildFaults() : { library }
      if (found.library === undefined) throw new Error(`faults: ${found.reason}`)
      this.#library = found.library
      this.#home = mkdtempSync(join(tmpdir(), "dess-faults-control-"))
    }
    this.#path = control ?? join(this.#home, "control")
    this.#file = openSync(this.#path, control === undefined ? "wx+" : "r+", 0o600)
    if (control === undefined) {
      const empty = Buffer.alloc(SIZE)
      empty.write("DESSFLT1", AT.magic)
      for (const at of [AT.failAt, AT.failCount, AT.freeBytes]) empty.writeBigInt64LE(-1n, at)
      writeSync(this.#file, empty, 0, SIZE, 0)
    }
    if (folder !== undefined) this.#watch(folder)
  }

  /** Of this very process, which was started under it; undefined when it was not. */
  static own() {
    const control = process.env.FAULTS_CONTROL
    return control ? new Faults({ control }) : undefined
  }

  /** What to add to the environment of a process. */
  env() {
    const others = process.env.LD_PRELOAD?.split(":").filter((path) => path && path !== this.#library) ?? []
    const preload = this.#library === undefined ? others : [this.#library, ...others]
    return { LD_PRELOAD: preload.join(":"), FAULTS_CONTROL: this.#path, UV_USE_IO_URING: "0" }
  }

  /**
   * From now on operations in the folder are counted from 1, and of those of the given classes the `failAt`-th and
   * the `failCount` - 1 after it fail (`failAt` -1: none; `failCount` -1: until disarmed). `shortWrite`: if the
   * `failAt`-th is a write it writes half, and the `failCount` after it fail (libuv tries the rest of a short write
   * once by itself and hides that failure, so Node's callers see an error from `failCount` 2 on).
   */
  arm({ folder, classes = CHANGES, failAt = 1, failCount = -1, code = "EIO", shortWrite = false } = {}) {
    const mask = maskOf(classes)
    const error = errorNumber(code)
    for (const [name, value] of Object.entries({ failAt, failCount }))
      if (!Number.isSafeInteger(value) || value < -1 || value === 0)
        throw new RangeError(`${name}: expected a count from 1, or -1, got ${value}`)
    this.disarm()
    if (folder !== undefined) this.#watch(folder)
    this.#needFolder()
    writeSync(this.#file, Buffer.alloc(AT.calm - AT.operations), 0, AT.calm - AT.operations, AT.operations)
    this.#writeInteger(AT.failAt, failAt)
    this.#writeInteger(AT.failCount, failCount)
    this.#writeWord(AT.classes, mask)
    this.#writeWord(AT.error, error)
    this.#writeWord(AT.shortWrite, shortWrite ? 1 : 0)
    this.#writeWord(AT.armed, 1)
  }

  /** Nothing fails any more, but for a limit. Matches per class are still counted. */
  disarm() {
    this.#writeWord(AT.armed, 0)
  }

  /** While calm nothing fails, whatever is armed or full; what is armed stays so. */
  setCalm(isCalm) {
    this.#writeWord(AT.calm, isCalm ? 1 : 0)
  }

  /**
   * This many bytes can be written in the folder from now on, whether or not it is armed; then ENOSPC. Null: any number.
   * Overwriting takes from it, too, and removing files gives nothing back.
   */
  limit(bytes) {
    if (bytes !== null && !(Number.isSafeInteger(bytes) && bytes >= 0))
      throw new RangeError(`limit: expected bytes or null, got ${bytes}`)
    this.#needFolder()
    this.#writeInteger(AT.freeBytes, bytes ?? -1)
  }

  /** Moves the wall clock, not the monotonic one, this far from the true one. Times of files are not moved. */
  setClock(milliseconds) {
    this.#writeInteger(AT.clockOffset, Math.round(milliseconds))
  }

  /**
   * Since it was last armed: operations of the armed classes, those that failed, and both for every class, armed or
   * not. Besides: the processes that ever loaded the library, and the bytes that can be written (null: no limit).
   */
  counts() {
    const bytes = Buffer.alloc(SIZE)
    readSync(this.#file, bytes, 0, SIZE, 0)
    const count = (at) => Number(bytes.readBigInt64LE(at))
    const byClass = (at) => Object.fromEntries(CLASSES.map((name, i) => [name, count(at + 8 * i)]))
    const free = count(AT.freeBytes)
    return {
      operations: count(AT.operations),
      failed: count(AT.failed),
      matchedByClass: byClass(AT.matchedByClass),
      failedByClass: byClass(AT.failedByClass),
      processes: count(AT.processes),
      freeBytes: free < 0 ? null : free,
    }
  }

  /** Disarms and removes the control file; processes that have it mapped go on, new ones would not start. */
  close() {
    if (this.#file === undefined) return
    if (this.#home !== undefined) {
      this.disarm()
      this.#writeInteger(AT.freeBytes, -1)
    }
    closeSync(this.#file)
    this.#file = undefined
    if (this.#home !== undefined) rmSync(this.#home, { recursive: true, force: true })
  }

  #watch(folder) {
    const path = realPath(folder)
    const bytes = Buffer.from(path)
    if (bytes.length >= FOLDER_BYTES)
      throw new RangeError(`folder: expected less than ${FOLDER_BYTES} bytes, got ${bytes.length}`)
    if (path === "/" || `${realPath(this.#path)}/`.startsWith(`${path}/`))
      throw new RangeError(`folder: expected one without the control file, got ${path}`)
    // Without its first byte it is nobody's while it changes.
    const folderField = Buffer.alloc(FOLDER_BYTES)
    bytes.copy(folderField)
    writeSync(this.#file, Buffer.alloc(1), 0, 1, AT.folder)
    writeSync(this.#file, folderField, 1, FOLDER_BYTES - 1, AT.folder + 1)
    writeSync(this.#file, folderField, 0, 1, AT.folder)
  }

  #needFolder() {
    const first = Buffer.alloc(1)
    readSync(this.#file, first, 0, 1, AT.folder)
    if (first[0] === 0) throw new Error("faults: expected a folder, got none")
  }

  #writeWord(at, value) {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(value)
    writeSync(this.#file, bytes, 0, 4, at)
  }

  #writeInteger(at, value) {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(value))
    writeSync(this.#file, bytes, 0, 8, at)
  }
}

function maskOf(classes) {
  let mask = 0
  for (const name of classes) {
    const bit = CLASSES.indexOf(name)
    if (bit < 0) throw new RangeError(`classes: expected ${CLASSES.join(", ")}, got ${name}`)
    mask |= 1 << bit
  }
  return mask
}

function errorNumber(code) {
  const number = typeof code === "number" ? code : constants.errno[code]
  if (!Number.isInteger(number) || number <= 0) throw new RangeError(`code: expected one of errno's, got ${code}`)
  return number
}

/** Also of a folder that is yet to be made. */
function realPath(path) {
  const absolute = resolve(path)
  return existsSync(absolute) ? realpathSync(absolute) : join(realPath(dirname(absolute)), basename(absolute))
}
