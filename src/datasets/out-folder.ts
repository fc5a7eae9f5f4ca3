/** The folder a preparation makes: made under another name, whole or not at all. */

import { createHash } from "node:crypto"
import { createReadStream, existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { DessError } from "../errors.ts"
import { fullDisk } from "./duck.ts"
import { isPrepared, type Manifest } from "./manifest.ts"

/** Refuses a place that is taken by anything but a folder that may be made again. */
export function refuseTaken(out: string, replace: boolean): void {
  const stats = existsSync(out) ? statSync(out) : undefined
  if (stats === undefined || (stats.isDirectory() && readdirSync(out).length === 0)) return
  if (stats.isDirectory() && isPrepared(out)) {
    if (replace) return
    throw new DessError(
      "INVALID_ARGUMENT",
      `out: expected a new folder, got one that dess prepare made (${out}); --replace makes it anew`,
    )
  }
  throw new DessError("INVALID_ARGUMENT", `out: expected a new or empty folder, got one with other files (${out})`)
}

/** A name for the folder in the making; those of processes that are gone are cleared away. */
export function claimPartial(out: string): string {
  const prefix = `${basename(out)}.partial-`
  const parent = dirname(out)
  const beside = existsSync(parent) && statSync(parent).isDirectory() ? readdirSync(parent) : []
  for (const name of beside.filter((name) => name.startsWith(prefix))) {
    const id = Number(name.slice(prefix.length))
    if (!isRunning(id)) rmSync(join(parent, name), { recursive: true, force: true })
  }
  return `${out}.partial-${process.pid}`
}

function isRunning(id: number): boolean {
  try {
    return process.kill(id, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/** Puts the new folder in the place of the old one, which goes only when the new one is there. */
export function moveInto(out: string, made: string): void {
  const aside = `${made}-old`
  if (existsSync(out)) renameSync(out, aside)
  renameSync(made, out)
  rmSync(aside, { recursive: true, force: true })
}

/** Length and checksum of every file in a folder. */
export async function describeFiles(folder: string): Promise<Manifest["files"]> {
  const files: Manifest["files"] = {}
  for (const name of readdirSync(folder).sort()) {
    const hash = createHash("sha256")
    for await (const chunk of createReadStream(join(folder, name), { highWaterMark: 1 << 20 }))
      hash.update(chunk as Buffer)
    files[name] = { bytes: statSync(join(folder, name)).size, sha256: hash.digest("hex") }
  }
  return files
}

/** A DessError for an error of the file system while the folder was made. */
export function writingError(out: string, error: unknown): unknown {
  const { code = "", message } = error as NodeJS.ErrnoException
  if (error instanceof DessError) return error
  if (code === "ENOSPC") return fullDisk("no space left on device", error)
  if (!["EACCES", "EPERM", "EROFS", "ENOTDIR"].includes(code)) return error
  return new DessError("INVALID_ARGUMENT", `out: expected a folder that can be made, got "${message}" (${out})`, {
    cause: error,
  })
}
