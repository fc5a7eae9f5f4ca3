/** The two calls of the service that bulk import needs. */

import { setTimeout as wait } from "node:timers/promises"
import type { Accepted, Event, ItemEntry } from "../engine/types.ts"
import { DessError } from "../errors.ts"

/** Attempts at what is answered with "try again later". */
const ATTEMPTS = 60

export function openRemote(url: string, key: string | undefined) {
  const call = async <T>(method: string, path: string, body: unknown): Promise<T> => {
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(new URL(path, url), {
        method,
        headers: { "content-type": "application/json", ...(key === undefined ? {} : { "x-api-key": key }) },
        body: JSON.stringify(body),
      }).catch((cause: unknown) => {
        throw new DessError("NOT_FOUND", `service: expected one at ${url}, got no answer`, { cause })
      })
      if (response.ok) return (await response.json()) as T
      const { message } = (await response.json().catch(() => ({ message: response.statusText }))) as { message: string }
      const again = response.status === 429 || response.status === 503
      if (!again || attempt === ATTEMPTS) throw new DessError("INVALID_DATA", `service: ${message}`)
      await wait(1000 * Number(response.headers.get("retry-after") ?? 1))
    }
  }
  return {
    observe: (events: Event[]) => call<Accepted>("POST", "/v1/interactions", events),
    putItems: async (items: ItemEntry[]) => (await call<{ items: number }>("PUT", "/v1/items", items)).items,
    close: async () => {},
  }
}
