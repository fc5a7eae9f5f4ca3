/**
 * A directory belongs to one opener. The owner listens on a socket in it: whoever is answered finds it taken, whoever is
 * refused finds what a dead owner left. That holds between threads, processes and containers; process numbers do not.
 */

import { createHash } from "node:crypto"
import { closeSync, openSync, rmSync, statSync } from "node:fs"
import { connect, createServer, type Server } from "node:net"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"

const NAME = "owner.sock"
/** Between being made and being listened on a socket refuses; so it is asked twice. */
const PATIENCE = 50
/** Milliseconds after which whoever was taking a dead owner's socket away has died, too. */
const LONGEST_GATE = 10_000
/** A socket's path may have no more bytes. */
const LONGEST_PATH = 100

export interface Lock {
  release(): Promise<void>
}

/** Takes a directory that exists, or refuses with LOCKED. */
export async function lockDirectory(directory: string): Promise<Lock> {
  const place = new Place(directory)
  try {
    for (;;) {
      const server = await listen(place.path)
      if (server) return { release: () => release(server, place) }
      if ((await isAnswered(place.path)) || !(await place.clear()))
        throw new DessError(
          "LOCKED",
          `directory ${show(directory)}: expected it to be free, somebody has it open; close that first, or go through its service`,
        )
    }
  } catch (error) {
    place.close()
    throw error
  }
}

/** Closing a server removes its socket, by the path it was made with. */
async function release(server: Server, place: Place): Promise<void> {
  await new Promise<void>((resolve) => server.close(() => resolve()))
  place.close()
}

/** Where the socket is: a name for this system, short enough. */
class Place {
  readonly path: string
  readonly #file: string
  #folder: number | undefined

  constructor(directory: string) {
    this.#file = join(directory, NAME)
    if (process.platform === "win32")
      this.path = `\\\\.\\pipe\\dess-${createHash("sha256").update(directory).digest("hex")}`
    else if (Buffer.byteLength(this.#file) <= LONGEST_PATH || process.platform !== "linux") this.path = this.#file
    else {
      this.#folder = openSync(directory, "r")
      this.path = `/proc/self/fd/${this.#folder}/${NAME}`
    }
  }

  /**
   * Takes away what a dead owner left; false when somebody answers after all. One at a time: whoever looked earlier must
   * not take away what another has put there since.
   */
  async clear(): Promise<boolean> {
    const gate = `${this.#file}.gate`
    try {
      closeSync(openSync(gate, "wx"))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
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
      rmSync(gate, { force: true })
    }
  }

  close(): void {
    if (this.#folder !== undefined) closeSync(this.#folder)
    this.#folder = undefined
  }
}

/** Undefined when the path is there already. */
function listen(path: string): Promise<Server | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE") resolve(undefined)
      else
        reject(
          new DessError("INVALID_DATA", `directory: expected one that can be written, got ${error.message}`, {
            cause: error,
          }),
        )
    })
    server.listen(path, () => resolve(server.unref()))
  })
}

function wait(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PATIENCE))
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const end = (answered: boolean) => {
      socket.destroy()
      resolve(answered)
    }
    socket.once("connect", () => end(true))
    // A full queue is somebody's, too.
    socket.once("error", (error: NodeJS.ErrnoException) =>
      end(error.code !== "ECONNREFUSED" && error.code !== "ENOENT"),
    )
  })
}
