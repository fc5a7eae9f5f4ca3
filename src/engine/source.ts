/** What a directory holds, read without learning from it: its records, and whom their indices stood for. */

import { SIDES, type Side } from "../types.ts"
import { Catalogue } from "./catalogue.ts"
import { type Directory, openDirectory } from "./directory.ts"
import type { EventTypes } from "./event-types.ts"
import { detailsOf } from "./item-entries.ts"
import type { Placed } from "./journal-files.ts"
import { type ItemDetails, Lookup } from "./lookup.ts"
import { LostRecords } from "./lost-records.ts"
import type { FixedOptions } from "./options.ts"
import type { StoredItem } from "./records.ts"
import { listSnapshots, readNewest } from "./snapshots.ts"

export interface Source {
  readonly created: FixedOptions
  /** No record is gone: the journal reaches back to the first event and has no gap. */
  readonly isWhole: boolean
  /** What is gone, in words. */
  readonly gone: string[]
  /** Who has an index at the end. */
  name(side: Side, index: number): string | undefined
  records(): Iterable<Placed>
  /** Items as they are at the end, and whether every one of them is in the records, too. */
  items(): Iterable<{ index: number; item: StoredItem }>
  readonly itemsAreRecorded: boolean
  /** Types of events, as they were when the newest snapshot was taken. */
  readonly types: EventTypes | undefined
  close(): Promise<void>
}

/** Opens a directory that no process has open. */
export async function openSource(path: string, recover: boolean): Promise<Source> {
  const directory = await openDirectory(path, recover ? { recover } : { readOnly: true })
  try {
    return readSource(directory)
  } catch (error) {
    await directory.close()
    throw error
  }
}

function readSource(directory: Directory): Source {
  const { files } = directory
  const end = new Catalogue(0)
  const { lookup, recent, gaps, types } = loadEnd(directory, end)
  const gone = directory.gone.length > 0 ? [...directory.gone] : gaps
  if (files.first > 0)
    gone.unshift(
      `journal: records before ${files.first} are not there: dropped after a snapshot (--keep-journal all keeps them), or their files are missing`,
    )
  return {
    created: directory.created as FixedOptions,
    isWhole: gone.length === 0,
    gone,
    types,
    itemsAreRecorded: files.first === 0,
    name: (side, index) => end.names[side].name(index),
    records: () => files.read(files.first),
    *items() {
      for (const [index, item] of end.entries)
        yield { index, item: { ...item, ...(recent.has(index) ? recent.get(index) : lookup?.details(index)) } }
    },
    close: async () => {
      await lookup?.close()
      await directory.close()
    },
  }
}

/** Names and items as they are at the end of the journal; details of items are in the lookup table, and of recent ones here. */
function loadEnd({ path, files }: Directory, catalogue: Catalogue) {
  const { found } = readNewest(listSnapshots(path))
  if (found) catalogue.load(found.state.at("catalogue"))
  const engine = found?.state.get("engine") as { position: number; types?: EventTypes } | undefined
  const from = engine?.position ?? files.first
  const lookup = openLookup(path)
  const recent = new Map<number, ItemDetails | null>()
  const lost = new LostRecords(files.first)
  let expected = files.first
  const goOnAt = (position: number) => {
    if (position > expected)
      lost.lose(
        `journal: records ${expected} to ${position - 1} were damaged or missing when it was recovered, and are gone`,
      )
    expected = position + 1
  }
  const { names } = catalogue
  for (const { position, record } of files.read(files.first)) {
    goOnAt(position)
    lost.read(record)
    if (record.kind === "items" && position >= Math.min(from, lookup?.applied ?? 0))
      for (const { index, item } of record.items) recent.set(index, detailsOf(item))
    if (position < from) continue
    if (record.kind === "names") {
      for (const { side, index, name } of record.names) if (name !== null) names[side].set(index, name)
    } else if (record.kind === "left") {
      for (const side of SIDES) for (const index of record[side]) names[side].drop(index)
    } else if (record.kind === "forget" && record.user !== null) names.user.drop(record.user)
    else if (record.kind === "items") for (const { index, item } of record.items) catalogue.put(index, item)
  }
  goOnAt(files.next)
  return { lookup, recent, gaps: lost.describe(), types: engine?.types }
}

/** The lookup table where it is there and whole: what is damaged is told where it is made again. */
function openLookup(directory: string): Lookup | undefined {
  try {
    return new Lookup({ directory, readOnly: true, mostKeys: 0, onFailure: () => {} })
  } catch {
    return undefined
  }
}
