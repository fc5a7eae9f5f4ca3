/** The folder of --out. */

import { accessSync, constants, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"

/** Makes the folder, or refuses it before a run is spent on it. */
export function makeFolder(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true })
    accessSync(directory, constants.W_OK)
  } catch (error) {
    throw refusal(directory, error)
  }
}

/** Writes files by name; beside first and then renamed, so that a half-written one is never taken for a whole one. */
export function writeFiles(directory: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const part = join(directory, `${name}.part`)
    try {
      writeFileSync(part, text)
      renameSync(part, join(directory, name))
    } catch (error) {
      rmSync(part, { force: true })
      throw refusal(directory, error)
    }
  }
}

function refusal(directory: string, error: unknown): DessError {
  const { code, message } = error as NodeJS.ErrnoException
  const full = code === "ENOSPC" || code === "EDQUOT"
  return new DessError(
    full ? "UNSUPPORTED" : "INVALID_ARGUMENT",
    `--out: expected a folder that can be written, got ${show(directory)} (${full ? "the disk is full" : message})`,
  )
}
