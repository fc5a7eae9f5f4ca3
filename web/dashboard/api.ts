/** Asks the service, with the key of this tab where one is needed. */

import { askForKey, forgetKey, keyOfTab } from "./key.ts"

export class ApiError extends Error {
  /** 0: nobody answered. */
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** How far the service's clock is ahead of this one, by its last answer. */
let ahead = 0

/** Time on the service's clock, in milliseconds since 1970. */
export const serviceTime = () => Date.now() + ahead

/** Sends a request to the service; asks for a key when one is missing. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  for (;;) {
    const key = keyOfTab()
    const headers = { ...options.headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
    const response = await fetch(path, { ...options, headers, cache: "no-store" }).catch((): never => {
      throw new ApiError(0, "The service does not answer. Try again in a moment.")
    })
    const told = Date.parse(response.headers.get("date") ?? "")
    // The header has whole seconds: ignore differences below one.
    if (!Number.isNaN(told)) ahead = Math.abs(told - Date.now()) > 1500 ? told - Date.now() : 0
    if (response.ok) return response
    if (response.status !== 401) throw new ApiError(response.status, await messageOf(response))
    // Another request may have asked for the key meanwhile.
    if (key !== null && key === keyOfTab()) forgetKey()
    await askForKey(key === null ? "This service asks for a key." : "That key was refused.")
  }
}

export async function getJson<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T
}

export async function postJson<T>(path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" }
  return (await (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json()) as T
}

/** The path of an id. Browsers resolve "." and ".." in a path, even when they are encoded. */
export function pathOf(side: "user" | "item", id: string): string {
  if (id === "." || id === "..") throw new Error(`id: expected one that can be part of an address, got "${id}"`)
  return `/v1/${side}s/${encodeURIComponent(id)}`
}

async function messageOf(response: Response): Promise<string> {
  try {
    const { message, error } = (await response.json()) as { message?: string; error?: string }
    return message ?? error ?? response.statusText
  } catch {
    return response.statusText
  }
}
