/**
 * A directory belongs to one opener. The owner listens on a socket in it: a process that gets an answer finds it taken; one whose
 * connection is refused finds what a dead owner left. That holds between threads, processes and containers; process numbers do not.
 */

import { createHash } from "node:crypto"
import { closeSync, openSync, rmSync, statSync } from "node:fs"
import { connect, createServer, type Server } from "node:net"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import { makePrivate, tryTo } from "./disk.ts"

const NAME = "owner.sock"
/** Between being made and being listened on a socket refuses; so it is asked twice. */
const PATIENCE = 50
/** Milliseconds after which a process that was removing a dead owner's socket counts as dead, too. */
const LONGEST_GATE = 10_000
/** A socket's path may have no more bytes. */
const LONGEST_PATH = 100
/** Error codes of a system that is out of sockets. */
const EXHAUSTED = new Set(["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"])
/** Error codes of a disk that takes no files. */
const UNWRITABLE = new Set(["ENOSPC", "EROFS", "EACCES", "EPERM", "EDQUOT", "EIO"])

export interface Lock {
  release(): Promise<void>
}

/** Takes a directory that exists, or refuses with LOCKED. */
export async function lockDirectory(directory: string): Promise<Lock> {
  let place: Place | undefined
  try {
    place = new Place(directory)
    const own = place
    for (;;) {
      const server = await listen(place)
      const isTaken = server !== undefined && (await place.isTakenElsewhere())
      if (server && !isTaken) return { release: () => release(server, own) }
      if (server) await closed(server)
      if (isTaken || place.path === place.abstract || (await isAnswered(place.path)) || !(await place.clear()))
        throw new DessError(
          "LOCKED",
          `directory ${show(directory)}: expected it to be free, somebody has it open; close that first, or go through its service`,
        )
    }
  } catch (error) {
    place?.close()
    throw unlockable(error)
  }
}

/** Closing a server removes its socket, by the path it was made with. */
async function release(server: Server, place: Place): Promise<void> {
  place.removeDead()
  await closed(server)
  place.close()
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}

/** Where the socket is: a name for this system, short enough. */
class Place {
  path: string
  /** A name of the system's that needs no disk; seen within one container only. */
  readonly abstract: string
  readonly #file: string
  readonly #inFolder: string
  #folder: number | undefined
  /** A socket of this process that is yet to be removed. */
  #gate: string | undefined

  constructor(directory: string) {
    this.#file = join(directory, NAME)
    const { dev, ino } = statSync(directory)
    this.abstract = `\0dess-${dev}-${ino}`
    if (process.platform === "win32")
      this.path = `\\\\.\\pipe\\dess-${createHash("sha256").update(directory).digest("hex")}`
    else if (Buffer.byteLength(this.#file) <= LONGEST_PATH || process.platform !== "linux") this.path = this.#file
    else {
      this.#folder = openSync(directory, "r")
      this.path = `/proc/self/fd/${this.#folder}/${NAME}`
    }
    this.#inFolder = this.path
  }

  /** Whether a process holds the lock in the other form: as a file in the directory, or elsewhere where the disk took none. */
  async isTakenElsewhere(): Promise<boolean> {
    return (
      process.platform === "linux" && (await isAnswered(this.path === this.abstract ? this.#inFolder : this.abstract))
    )
  }

  /**
   * Takes away what a dead owner left; false when an owner answers after all. One at a time: whoever looked earlier must
   * not take away what another has put there since.
   */
  async clear(): Promise<boolean> {
    const gate = `${this.#file}.gate`
    try {
      closeSync(openSync(gate, "wx"))
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException
      if (UNWRITABLE.has(code)) {
        this.path = this.abstract
        return true
      }
      if (code !== "EEXIST") throw error
      const made = statSync(gate, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
      if (Date.now() - made > LONGEST_GATE) rmSync(gate, { force: true })
      await wait()
      return true
    }
    try {
      await wait()
      if (await isAnswered(this.path)) return false
      rmSync(this.#file, { force: true })
      return true
    } finally {
      this.#gate = gate
      this.#openGate()
    }
  }

  /** For the owner: removes a former owner's file that the disk did not let go of at the time. */
  removeDead(): void {
    if (this.path === this.abstract) tryTo(() => rmSync(this.#file, { force: true }))
  }

  #openGate(): void {
    const gate = this.#gate
    if (gate === undefined) return
    tryTo(() => {
      rmSync(gate, { force: true })
      this.#gate = undefined
    })
  }

  close(): void {
    this.#openGate()
    const folder = this.#folder
    if (folder !== undefined) tryTo(() => closeSync(folder))
    this.#folder = undefined
  }
}

/** Undefined when the socket is there already. */
async function listen(place: Place): Promise<Server | undefined> {
  try {
    const server = await listenAt(place.path)
    if (server) makePrivate(place.path)
    return server
  } catch (error) {
    // A disk that is full or cannot be written to can be read all the same: then the lock has no file.
    if (process.platform !== "linux" || !UNWRITABLE.has((error as NodeJS.ErrnoException).code ?? "")) throw error
    if (await isAnswered(place.path)) return undefined
    place.path = place.abstract
    return listenAt(place.path)
  }
}

function unlockable(cause: unknown): DessError {
  if (cause instanceof DessError) return cause
  const { code, message } = cause as NodeJS.ErrnoException
  return new DessError("UNAVAILABLE", `directory: expected one that can be locked, got ${code ?? message}`, { cause })
}

function listenAt(path: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    // Not once: a connection that fails for lack of descriptors gives the same event later.
    server.on("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve(undefined) : reject(error),
    )
    server.listen(path, () => resolve(server.unref()))
  })
}

function wait(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PATIENCE))
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    const end = (answered: boolean) => {
      socket.destroy()
      resolve(answered)
    }
    socket.once("connect", () => end(true))
    // A full queue has an owner, too.
    socket.once("error", (error: NodeJS.ErrnoException) => {
      if (EXHAUSTED.has(error.code ?? "")) reject(error)
      else end(error.code !== "ECONNREFUSED" && error.code !== "ENOENT")
    })
  })
}
