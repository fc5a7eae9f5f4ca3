/** What a directory holds, read without learning from it: nothing is replayed, written or truncated. */

import type { Side } from "../types.ts"
import { FormerNames, type NamedEvent, nameEvents, portions } from "./former-names.ts"
import { openToRead } from "./lmdb-store.ts"
import type { ReadableStore, StoredItem } from "./store.ts"

export interface Contents {
  /** The events that are kept, in order of acceptance. */
  events(): AsyncGenerator<NamedEvent>
  /** No record is gone: every event ever accepted is among them, but for those of users forgotten. */
  readonly isWhole: boolean
  items(): Generator<StoredItem & { item: string }>
  close(): Promise<void>
}

/** Opens a recommender's directory that nobody has open. */
export async function openContents(directory: string): Promise<Contents> {
  const store = await openToRead(directory)
  const names = { user: readNames(store, "user"), item: readNames(store, "item") }
  const [first] = store.log(0, 1)
  return {
    isWhole: (first?.position ?? store.next) === 0,
    async *events() {
      const former = await readFormerNames(store)
      const now = (side: Side, index: number) => names[side].get(index)
      const max = store.created?.scale.max ?? 5
      for await (const some of portions(store))
        for (const { position, record } of some)
          if (record.kind === "events") yield* nameEvents({ position, record }, { former, now, max })
    },
    *items() {
      for (const { index, item } of store.items()) yield { item: names.item.get(index) ?? "", ...item }
    },
    close: () => store.close(),
  }
}

function readNames(store: ReadableStore, side: Side): Map<number, string> {
  return new Map(Array.from(store.names(side), ({ index, name }) => [index, name]))
}

/** Without those whose removal a crash has interrupted: the next start of the recommender finishes it. */
async function readFormerNames(store: ReadableStore): Promise<FormerNames> {
  const former = new FormerNames()
  const going = store.forgetting?.lives ?? []
  for await (const some of portions(store))
    for (const { position, record } of some) {
      if (record.kind !== "left") continue
      const goes = (index: number) => going.some((life) => life.index === index && life.before === position)
      const user = record.names.user.map((name, at) => (goes(record.user[at]) ? null : name))
      former.add(position, { ...record, names: { ...record.names, user } })
    }
  return former
}
