/** What `POST /v1/interactions` gives back so that a read can wait for it: the last log entry in each partition written to. */

import { DessError, show } from "../errors.ts"

export function encodeToken(last: ReadonlyMap<number, string>): string {
  return [...last].map(([partition, id]) => `${partition}.${id}`).join("_")
}

/** The entry of a partition that must have been learned; undefined where the token has none. */
export function readToken(token: string, partition: number): string | undefined {
  if (!/^\d+\.\d+-\d+(_\d+\.\d+-\d+)*$/.test(token) || token.length > 100_000)
    throw new DessError(
      "INVALID_ARGUMENT",
      `after: expected the token that POST /v1/interactions gave, got ${show(token)}`,
    )
  for (const part of token.split("_")) {
    const [number, id] = part.split(".")
    if (Number(number) === partition) return id
  }
  return undefined
}
