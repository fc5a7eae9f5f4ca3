/** What a directory holds, for those who want it as a table: nothing is replayed, written or removed. */

import type { Side } from "../types.ts"
import type { EventTypes } from "./event-types.ts"
import { FormerNames, nameEvents } from "./former-names.ts"
import { hashName } from "./intake.ts"
import type { FixedOptions } from "./options.ts"
import type { StoredItem } from "./records.ts"
import { openSource, type Source } from "./source.ts"
import { giveWay } from "./turns.ts"
import type { NamedEvent } from "./types.ts"

/** Records looked at before others get a turn. */
const PORTION = 500

export interface Contents {
  /** The events that are kept, in order of acceptance. */
  events(): AsyncGenerator<NamedEvent>
  /** No record is gone: every event ever accepted is among them, but for those of users erased. Else what is gone. */
  readonly isWhole: boolean
  readonly gone: string[]
  items(): Generator<StoredItem & { item: string }>
  readonly created: FixedOptions
  /** Of events, as they were set last. */
  readonly types: EventTypes | undefined
  close(): Promise<void>
}

/** Opens a recommender's directory, of any format, that no process has open. */
export async function openContents(path: string): Promise<Contents> {
  const source = await openSource(path, false)
  const { isWhole, gone, created } = source
  let { types } = source
  for (const { record } of source.records()) if (record.kind === "types") types = record.types
  return {
    ...{ isWhole, gone, created, types },
    async *events() {
      const former = await readFormerNames(source)
      const now = (side: Side, index: number) => source.name(side, index)
      let looked = 0
      for (const { position, record } of source.records()) {
        if (record.kind === "events") yield* nameEvents({ position, record }, { former, now, max: created.scale.max })
        if (++looked % PORTION === 0) await giveWay()
      }
    },
    *items() {
      for (const { index, item } of source.items()) yield { item: source.name("item", index) ?? "", ...item }
    },
    close: () => source.close(),
  }
}

/** Without users whose erasure is not finished. */
async function readFormerNames(source: Source): Promise<FormerNames> {
  const former = new FormerNames()
  const erased = new Map<string, number>()
  for (const { position, record } of source.records())
    if (record.kind === "forget" && record.hash !== null) erased.set(record.hash, position)
  const isErased = (name: string | null, position: number) =>
    name !== null && position < (erased.get(hashName(name)) ?? 0)
  for (const { position, record } of source.records())
    if (record.kind === "forget") former.add(position, record)
    else if (record.kind === "left") {
      const user = record.names.user.map((name) => (isErased(name, position) ? null : name))
      former.add(position, { ...record, names: { ...record.names, user } })
    }
  return former
}
