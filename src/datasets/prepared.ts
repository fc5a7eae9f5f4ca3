/** A folder made by `dess prepare` → a stream. In time order it is read in constant memory, however long it is. */

import { tmpdir } from "node:os"
import { join } from "node:path"
import { DessError, show } from "../errors.ts"
import { checkWhole } from "../stream/check.ts"
import { emptyBatch, streamFromColumns } from "../stream/columns.ts"
import { checkOrder } from "../stream/order.ts"
import type { InteractionBatch, ItemFeatures } from "../types.ts"
import { type DataStream, type OpenOptions, scaleThreshold } from "./data-stream.ts"
import { type Duck, openDuck, quote } from "./duck.ts"
import { FEATURES, INTERACTIONS, ITEMS, type Manifest, readManifest, USERS } from "./manifest.ts"
import { NameArena } from "./names.ts"

const BATCH = 65536
const MEMORY_BYTES = 512 * 2 ** 20

/** Opens a prepared folder. Shuffled order alone holds the whole stream in memory. */
export async function openPrepared(folder: string, options: OpenOptions = {}): Promise<DataStream> {
  const manifest = readManifest(folder)
  const { interactions, ratingScale } = manifest
  const { order = "time", limit = interactions } = options
  const shuffled = checkOrder(order) === "shuffled"
  checkWhole("limit", limit, 1)
  refuseOtherReading(manifest, options)
  const likeThreshold = scaleThreshold(options.likeThreshold ?? manifest.likeThreshold, ratingScale)
  const duck = await openReader()
  try {
    const head = { duck, folder, manifest, interactions: shuffled ? interactions : Math.min(limit, interactions) }
    const stream = { ...(await openInTime(head)), likeThreshold }
    return shuffled ? await shuffleStream(stream, options) : stream
  } finally {
    duck.close()
  }
}

interface Head {
  duck: Duck
  folder: string
  manifest: Manifest
  /** How many to read from the start. */
  interactions: number
}

async function openInTime({ duck, folder, manifest, interactions }: Head): Promise<Omit<DataStream, "likeThreshold">> {
  const parquet = (file: string) => `read_parquet(${quote(join(folder, file))})`
  const rows = `(FROM ${parquet(INTERACTIONS)} LIMIT ${interactions})`
  // Indices go by first appearance, so the largest one met gives the number of ids.
  const whole = interactions === manifest.interactions
  const users = whole ? manifest.users : 1 + (await duck.number(`SELECT max("user") FROM ${rows}`))
  const items = whole ? manifest.items : 1 + (await duck.number(`SELECT max(item) FROM ${rows}`))
  const userNames = await readNames(duck, `SELECT name FROM ${parquet(USERS)} LIMIT ${users}`)
  const itemNames = await readNames(duck, `SELECT name FROM ${parquet(ITEMS)} LIMIT ${items}`)
  const titles = await readNames(duck, `SELECT coalesce(title, '') FROM ${parquet(ITEMS)} LIMIT ${items}`)
  const width = manifest.features?.columns.length ?? 0
  const features: { features?: ItemFeatures } = {}
  if (manifest.features !== undefined) {
    const { columns } = manifest.features
    features.features = { columns, ...(await readFeatures(duck, parquet(FEATURES), { items, width })) }
  }
  return {
    name: manifest.name,
    ratingScale: manifest.ratingScale,
    ...(manifest.implicit ? { implicit: true } : {}),
    ...(manifest.reading ? { reading: manifest.reading } : {}),
    ...(manifest.notes ? { notes: manifest.notes } : {}),
    interactions,
    users,
    items,
    ...features,
    batches: () => readBatches(rows, interactions),
    userName: (index) => nameFrom("user", userNames, index),
    itemName: (index) => nameFrom("item", itemNames, index),
    itemTitle: (index) => nameFrom("item", titles, index) || undefined,
  }
}

async function* readBatches(rows: string, interactions: number): AsyncGenerator<InteractionBatch> {
  const duck = await openReader()
  try {
    let left = interactions
    let batch = emptyBatch(BATCH)
    let filled = 0
    for await (const { length, columns } of duck.stream(`SELECT "user", item, rating, timestamp FROM ${rows}`)) {
      const [user, item, rating, timestamp] = columns
      left -= length
      for (let row = 0; row < length; row++) {
        batch.user[filled] = user.getItem(row) as number
        batch.item[filled] = item.getItem(row) as number
        batch.rating[filled] = rating.getItem(row) as number
        batch.timestamp[filled] = timestamp.getItem(row) as number
        if (++filled < BATCH) continue
        yield batch
        batch = emptyBatch(BATCH)
        filled = 0
      }
    }
    if (filled > 0) yield shorten(batch, filled)
    if (left !== 0) {
      throw new DessError(
        "INVALID_DATA",
        `prepared data: expected ${interactions} interactions, got ${interactions - left}`,
      )
    }
  } finally {
    duck.close()
  }
}

/** The same stream in another order, held in memory. */
async function shuffleStream(stream: DataStream, { order, seed, limit }: OpenOptions): Promise<DataStream> {
  const columns = emptyBatch(stream.interactions)
  let row = 0
  for await (const batch of stream.batches()) {
    for (const key of ["user", "item", "rating", "timestamp"] as const) columns[key].set(batch[key], row)
    row += batch.length
  }
  const { features } = stream
  const userNames = Array.from({ length: stream.users }, (_, index) => stream.userName(index))
  const itemNames = Array.from({ length: stream.items }, (_, index) => stream.itemName(index))
  const place = new Map(itemNames.map((name, index) => [name, index]))
  const shuffled = streamFromColumns({
    name: stream.name,
    columns: { ...columns, userNames, itemNames },
    ...(order === undefined ? {} : { order }),
    ...(seed === undefined ? {} : { seed }),
    ...(limit === undefined ? {} : { limit }),
    ...(features === undefined ? {} : { features: tableOf(features, itemNames) }),
  })
  const itemTitle = (index: number) => stream.itemTitle?.(place.get(shuffled.itemName(index)) ?? -1)
  const { ratingScale, likeThreshold, implicit, reading, notes } = stream
  const said = {
    ...(implicit === undefined ? {} : { implicit }),
    ...(reading === undefined ? {} : { reading }),
    ...(notes === undefined ? {} : { notes }),
  }
  return { ...shuffled, ratingScale, likeThreshold, ...said, itemTitle }
}

function tableOf({ columns, values, present }: ItemFeatures, names: readonly string[]) {
  const width = columns.length
  const entries = names.map((name, i) => [name, values.subarray(i * width, (i + 1) * width)] as const)
  return { columns, rows: new Map(entries.filter((_, i) => present[i] === 1)) }
}

async function readNames(duck: Duck, sql: string): Promise<NameArena> {
  const names = new NameArena()
  for await (const { length, columns } of duck.stream(sql)) {
    for (let row = 0; row < length; row++) names.addText(String(columns[0].getItem(row)))
  }
  return names
}

/** The vectors unnested, so that they come as plain columns of numbers. */
async function readFeatures(duck: Duck, file: string, { items, width }: { items: number; width: number }) {
  const values = new Float32Array(items * width)
  const present = new Uint8Array(items)
  const sql = `SELECT item, unnest(values) FROM (FROM ${file} WHERE item < ${items})`
  let column = 0
  for await (const { length, columns } of duck.stream(sql)) {
    for (let row = 0; row < length; row++) {
      const item = columns[0].getItem(row) as number
      values[item * width + column] = columns[1].getItem(row) as number
      present[item] = 1
      column = column + 1 === width ? 0 : column + 1
    }
  }
  return { values, present }
}

function openReader(): Promise<Duck> {
  return openDuck({ memoryBytes: MEMORY_BYTES, threads: 1, temporary: join(tmpdir(), `dess-${process.pid}`) })
}

function shorten(batch: InteractionBatch, length: number): InteractionBatch {
  return {
    length,
    user: batch.user.subarray(0, length),
    item: batch.item.subarray(0, length),
    rating: batch.rating.subarray(0, length),
    timestamp: batch.timestamp.subarray(0, length),
  }
}

function nameFrom(side: string, names: NameArena, index: number): string {
  if (Number.isInteger(index) && index >= 0 && index < names.count) return names.text(index)
  throw new DessError("NOT_FOUND", `${side} index: expected 0 to ${names.count - 1}, got ${show(index)}`)
}

/** How the source was read is settled when it is prepared. */
function refuseOtherReading({ ratingScale: { min, max } }: Manifest, { ratingScale, columns }: OpenOptions): void {
  if (ratingScale !== undefined && (ratingScale.min !== min || ratingScale.max !== max)) {
    const got = `${ratingScale.min}-${ratingScale.max}`
    throw new DessError("INVALID_ARGUMENT", `rating scale: expected ${min}-${max}, as it was prepared, got ${got}`)
  }
  if (columns !== undefined) {
    throw new DessError(
      "INVALID_ARGUMENT",
      "columns: expected none, since the data are prepared; give them to dess prepare",
    )
  }
}
