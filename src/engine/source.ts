/** What a directory holds, read without learning from it: its records, and whom their indices stood for. */

import type { Side } from "../types.ts"
import { Catalogue } from "./catalogue.ts"
import { type Directory, isOldFormat, openDirectory } from "./directory.ts"
import type { Placed } from "./journal-files.ts"
import type { Note } from "./lookup.ts"
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
  /** Notes that are not in the records. */
  notes(): { side: Side; id: string; note: Note }[]
  close(): Promise<void>
}

/** Opens a directory of any format that no process has open. */
export async function openSource(path: string, recover: boolean): Promise<Source> {
  if (isOldFormat(path)) return (await import("./legacy.ts")).openLegacy(path)
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
  const gaps = Array.from(files.gaps(), ({ from, to }) => `journal: records ${from} to ${to - 1} are gone`)
  const gone = directory.gone.length > 0 ? [...directory.gone] : gaps
  if (files.first > 0) gone.unshift(`journal: records before ${files.first} are no longer kept`)
  const end = new Catalogue(0)
  loadEnd(directory, end)
  return {
    created: directory.created as FixedOptions,
    isWhole: gone.length === 0,
    gone,
    itemsAreRecorded: files.first === 0,
    name: (side, index) => end.names[side].name(index),
    records: () => files.read(files.first),
    *items() {
      for (const [index, item] of end.entries) yield { index, item }
    },
    notes: () => [],
    close: () => directory.close(),
  }
}

/** Names and items as they are at the end of the journal. */
function loadEnd({ path, files }: Directory, catalogue: Catalogue): void {
  const { found } = readNewest(listSnapshots(path))
  if (found) catalogue.load(found.state.at("catalogue"))
  const from = found ? (found.state.get("engine") as { position: number }).position : files.first
  const { names } = catalogue
  for (const { record } of files.read(from)) {
    if (record.kind === "names") {
      for (const { side, index, name } of record.names) if (name !== null) names[side].set(index, name)
    } else if (record.kind === "left") {
      for (const side of ["user", "item"] as const) for (const index of record[side]) names[side].drop(index)
    } else if (record.kind === "forget" && record.user !== null) names.user.drop(record.user)
    else if (record.kind === "items") for (const { index, item } of record.items) catalogue.put(index, item)
  }
}
