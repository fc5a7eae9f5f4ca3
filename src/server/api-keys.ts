/** API keys: one to read, one to read and write. Compared in constant time, never shown. */

import { createHash, timingSafeEqual } from "node:crypto"
import { readFileSync } from "node:fs"
import type { IncomingHttpHeaders } from "node:http"
import { DessError } from "../errors.ts"
import { Refusal } from "./problem.ts"
import type { Access } from "./route.ts"

export interface ApiKeys {
  read?: string | undefined
  write?: string | undefined
}

const SHORTEST = 16

/** A key from the environment or a file. */
export function readKey(noun: string, from: { text?: string | undefined; file?: string | undefined }) {
  const { text, file } = from
  if (text !== undefined && file !== undefined)
    throw new DessError("INVALID_ARGUMENT", `${noun}: expected it from the environment or a file, got both`)
  const key = file === undefined ? text : readKeyFile(noun, file)
  if (key === undefined) return undefined
  if (key.length >= SHORTEST && /^[\x21-\x7e]+$/.test(key)) return key
  throw new DessError(
    "INVALID_ARGUMENT",
    `${noun}: expected at least ${SHORTEST} visible ASCII characters without spaces, got ${key.length}, or others`,
  )
}

function readKeyFile(noun: string, file: string): string {
  try {
    return readFileSync(file, "utf8").trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new DessError("NOT_FOUND", `${noun} file: expected a readable file, got ${code} (${file})`, { cause: error })
  }
}

/** Refuses a request without the key it needs, with 401 or 403. */
export type Guard = (headers: IncomingHttpHeaders, access: Access) => void

export function createGuard({ read, write }: ApiKeys): Guard {
  if (read === undefined && write === undefined) return () => {}
  // Digests have one length, so comparing them reveals nothing about the key.
  const digest = (text: string) => createHash("sha256").update(text).digest()
  const [readDigest, writeDigest] = [read, write].map((key) => (key === undefined ? undefined : digest(key)))
  const is = (key: Buffer, known: Buffer | undefined) => known !== undefined && timingSafeEqual(key, known)
  return (headers, access) => {
    if (access === "open") return
    const given = givenKey(headers)
    if (given === undefined)
      throw new Refusal(401, "UNAUTHORIZED", "key: expected one in Authorization: Bearer … or X-API-Key, got none")
    const key = digest(given)
    const mayWrite = is(key, writeDigest)
    const mayRead = is(key, readDigest) || mayWrite
    if (!mayRead) throw new Refusal(401, "UNAUTHORIZED", "key: expected one of this service's, got another")
    if (access === "write" && !mayWrite)
      throw new Refusal(403, "FORBIDDEN", "key: expected the one for writing, got the one for reading")
  }
}

function givenKey(headers: IncomingHttpHeaders): string | undefined {
  const { authorization, "x-api-key": own } = headers
  if (typeof own === "string") return own
  return authorization === undefined ? undefined : /^Bearer +(\S+)$/i.exec(authorization)?.[1]
}
