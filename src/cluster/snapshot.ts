/**
 * The whole cluster as a directory that a single machine can serve, and the way back. A snapshot is taken while trainers
 * work: each row is as it stood at some moment between begin and end, and every event learned before the begin is in it.
 */

import { existsSync, readdirSync } from "node:fs"
import { resolve } from "node:path"
import type { EngineState } from "../engine/archive.ts"
import { thisBuild } from "../engine/build.ts"
import { Catalogue } from "../engine/catalogue.ts"
import { openDirectory, readCreatedOptions } from "../engine/directory.ts"
import { detailsOf } from "../engine/item-entries.ts"
import { setFeatures } from "../engine/item-features.ts"
import { Lookup, type LookupChange } from "../engine/lookup.ts"
import { Recommender } from "../engine/open.ts"
import { fixedOptions } from "../engine/options.ts"
import { listSnapshots, readNewest, snapshotPath, writeSnapshot } from "../engine/snapshots.ts"
import { DessError, show } from "../errors.ts"
import { type Json, State } from "../kernels/state.ts"
import type { Run } from "../learning/loop.ts"
import type { ItemFeatures, Side } from "../types.ts"
import { Cluster, type ClusterOptions, checkRecipe } from "./cluster.ts"
import { encodeStored } from "./encoding.ts"
import { Entries, writeEntries } from "./entries.ts"
import { createGlobal, readGlobal } from "./global-state.ts"
import { Items, putInto } from "./items.ts"
import { START } from "./log.ts"
import type { Argument } from "./redis.ts"
import { ROWS_PER_BUCKET } from "./redis-keys.ts"
import { readPartition } from "./status.ts"
import { readUsers } from "./users.ts"

export interface SnapshotResult {
  directory: string
  users: number
  items: number
  /** Events learned that are in it, at least. */
  events: number
  bytes: number
}

const AT_ONCE = 64
const ENTRIES_AT_ONCE = 5000

export async function takeSnapshot(cluster: Cluster, directory: string): Promise<SnapshotResult> {
  const place = resolve(directory)
  if (existsSync(place) && readdirSync(place).length > 0)
    throw new DessError("INVALID_ARGUMENT", `directory: expected a new or empty one, got ${show(directory)}`)
  const before = await Promise.all(cluster.all.map((p) => readPartition(cluster, p)))
  const { run, features } = cluster.newRun()
  try {
    const catalogue = new Catalogue(cluster.options.run.likeThreshold)
    const global = await readGlobal(cluster)
    if (global) run.shared.putGlobal(global.bytes)
    const items = new Items(cluster, putInto(run))
    for (const owner of cluster.all) await items.load(owner)
    for (const [name, index] of items.names()) {
      catalogue.names.item.set(index, name)
      catalogue.setItem(index, items.about(index))
    }
    const details: LookupChange[] = []
    const reading = new Entries(cluster, (index, item) => {
      if (item === null) return
      catalogue.put(index, item)
      details.push({ kind: "details", item: index, details: detailsOf(item) })
      if (features) setFeatures(features, [index], [item.features])
    })
    for (const owner of cluster.all) await reading.load(owner)
    for (const p of cluster.all)
      for await (const portion of readUsers(cluster, p))
        for (const { index, stored } of portion) {
          catalogue.names.user.set(index, stored.name)
          if (stored.row.length > 0) run.shared.putRow("user", index, stored.row)
          catalogue.setHistory(index, stored.met ?? run.shared.met(index), stored.staying)
        }
    const sum = (name: string) => before.reduce((total, { counters }) => total + counters[name], 0)
    catalogue.setTotals({ likes: sum("likes"), classes: [0, 1, 2, 3, 4].map((c) => sum(`class${c}`)) })
    const events = before.reduce((total, { applied }) => total + applied, 0)
    const bytes = await write(place, { cluster, run, features, catalogue, details, events })
    // Trainers may trim their streams up to the snapshot.
    for (const { partition, offset } of before) {
      const key = cluster.keys.of(partition, "state")
      if (offset !== "0-0") await cluster.redis.send(key, ["HSET", key, "snapshot", offset])
    }
    return { directory: place, users: catalogue.names.user.size, items: items.size, events, bytes }
  } finally {
    run.close()
  }
}

async function write(
  directory: string,
  p: {
    cluster: Cluster
    run: Run
    features: ItemFeatures | undefined
    catalogue: Catalogue
    details: readonly LookupChange[]
    events: number
  },
): Promise<number> {
  const { cluster, run, features, catalogue, details, events } = p
  const segments = Math.max(1, Math.ceil(events / cluster.options.segment))
  const place = await openDirectory(directory)
  try {
    const created = fixedOptions(cluster.options)
    await place.create(created)
    const lookup = new Lookup({ directory, mostKeys: 0, onFailure: () => {} })
    lookup.add(details, 0)
    await lookup.close()
    const state = new State()
    catalogue.save(state.at("catalogue"))
    const engine: EngineState = {
      ...{ segments, accepted: events, position: 0, time: Date.now(), limits: {} },
      ...{ journal: place.id, created: created as unknown as Json, build: thisBuild(), mixed: undefined },
      ...{ lookup: details.length > 0, erasures: [], unreleased: [], gone: [] },
    }
    state.set("engine", engine as unknown as Json)
    run.save(state.at("run"))
    state.set("through", segments)
    state.put("totals", new Float64Array(4))
    if (features) {
      state.put("features.values", features.values)
      state.put("features.present", features.present)
    }
    return writeSnapshot(snapshotPath(directory, 0), state)
  } finally {
    await place.close()
  }
}

/** Brings a single machine's directory into a cluster that has nothing yet. */
export async function loadDirectory(directory: string, options: ClusterOptions): Promise<SnapshotResult> {
  const place = resolve(directory)
  if (!existsSync(place))
    throw new DessError("NOT_FOUND", `directory: expected one of a recommender, got ${show(directory)}`)
  const before = readCreatedOptions(place)
  if (before)
    checkRecipe(
      before,
      "serve the directory on a single machine, or make one of the default recipe of it (dess rebuild)",
    )
  // Learns what its journal holds and writes a snapshot of all of it.
  await (await Recommender.open({ directory: place })).close()
  const opened = await openDirectory(place, { readOnly: true })
  try {
    const { found } = readNewest(listSnapshots(place))
    const { created } = opened
    if (!found || !created)
      throw new DessError("INVALID_DATA", `directory: expected one with a snapshot, got ${show(directory)}`)
    const { features, ...settled } = created
    // It was kept on the internal scale and is asked for on the ratings' own.
    const likeThreshold = (settled.likeThreshold * settled.scale.max) / 5
    const recommender = { ...settled, likeThreshold, ...(features ? { features } : {}) }
    const cluster = await Cluster.open({ ...options, recommender })
    try {
      return await fill(cluster, found.state, place)
    } finally {
      cluster.close()
    }
  } finally {
    await opened.close()
  }
}

async function fill(cluster: Cluster, state: State, directory: string): Promise<SnapshotResult> {
  const { keys, redis } = cluster
  for (const p of cluster.all)
    if ((await readPartition(cluster, p)).appended > 0 || (await readPartition(cluster, p)).items > 0)
      throw new DessError(
        "INVALID_ARGUMENT",
        `cluster: expected an empty one to load into, ${show(keys.prefix)} has events; use another --cluster-prefix`,
      )
  const { run, features } = cluster.newRun()
  try {
    if (features) {
      features.values = state.take("features.values", Float32Array).slice()
      features.present = state.take("features.present", Uint8Array).slice()
    }
    run.load(state.at("run"))
    const catalogue = new Catalogue(cluster.options.run.likeThreshold)
    catalogue.load(state.at("catalogue"))
    const names = { user: namesOf(catalogue, "user"), item: namesOf(catalogue, "item") }
    const items = new Items(cluster, () => {})
    const born = new Map(names.item.map(({ index, name }) => [name, catalogue.born(index)]))
    await items.meet(born.keys(), born)
    const counter = keys.of(0, "born")
    await redis.send(counter, ["SET", counter, String(Math.max(0, ...born.values()))])
    const toCluster = new Map(names.item.map(({ index, name }) => [index, items.find(name) as number]))
    const renumber = (old: number) => toCluster.get(old)
    const rows = new Map<string, { place: number; record: Buffer }[]>()
    const add = (key: string, at: number, record: Buffer) => {
      const list = rows.get(key) ?? []
      list.push({ place: at % ROWS_PER_BUCKET, record })
      rows.set(key, list)
    }
    for (const { index, name } of names.item) {
      const { partition, number } = keys.place(toCluster.get(index) as number)
      const row = run.shared.takeRow("item", index, renumber) ?? new Uint8Array(0)
      const popularity = { events: catalogue.events(index), trend: catalogue.trend(index), clock: 0 }
      add(keys.rows("items", partition, number), number, encodeStored({ name, born: born.get(name), row, popularity }))
    }
    const counts = cluster.all.map(() => 0)
    const hashes = new Map<string, string[]>()
    const rowsKnowMet = cluster.options.run.task === "topk"
    for (const { index, name } of names.user) {
      const p = keys.partitionOf(name)
      const number = counts[p]++
      const row = run.shared.takeRow("user", index, renumber) ?? new Uint8Array(0)
      const toIndices = (items: Int32Array) => Array.from(items, renumber).filter((item) => item !== undefined)
      const staying = toIndices(catalogue.staying(index))
      const lists = {
        ...(rowsKnowMet ? {} : { met: toIndices(catalogue.history(index)) }),
        ...(staying.length > 0 ? { staying } : {}),
      }
      add(keys.rows("users", p, number), number, encodeStored({ name, row, ...lists }))
      const hash = keys.names("users", p, name)
      const fields = hashes.get(hash) ?? []
      fields.push(name, String(number))
      hashes.set(hash, fields)
    }
    await inPortions([...hashes], ([hash, fields]) => redis.send(hash, ["HSET", hash, ...fields]))
    await inPortions([...rows], async ([key, list]) => {
      list.sort((a, b) => a.place - b.place)
      await redis.send(key, ["DEL", key])
      await redis.send(key, ["RPUSH", key, ...list.map(({ record }) => record)] as Argument[])
    })
    const lookup = new Lookup({ directory, readOnly: true, mostKeys: 0, onFailure: () => {} })
    const entries = Array.from(catalogue.entries, ([index, entry]) => ({
      index: toCluster.get(index) as number,
      entry: { ...entry, ...lookup.details(index) },
    }))
    await lookup.close()
    for (let from = 0; from < entries.length; from += ENTRIES_AT_ONCE)
      await writeEntries(cluster, entries.slice(from, from + ENTRIES_AT_ONCE))
    const nothing = cluster.all.map(() => START)
    await createGlobal(cluster, nothing, run.shared.takeGlobal())
    // Last: from here on trainers know the users.
    for (const p of cluster.all) {
      const key = keys.of(p, "state")
      await redis.send(key, ["HSET", key, "users", String(counts[p])])
    }
    const { accepted } = state.get<Record<string, number>>("engine")
    return { directory, users: names.user.length, items: names.item.length, events: accepted, bytes: 0 }
  } finally {
    run.close()
  }
}

function namesOf(catalogue: Catalogue, side: Side): { index: number; name: string }[] {
  const names = catalogue.names[side]
  return Array.from({ length: names.count }, (_, index) => ({ index, name: names.name(index) })).filter(
    (one): one is { index: number; name: string } => one.name !== undefined,
  )
}

async function inPortions<T>(all: readonly T[], action: (one: T) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < all.length; from += AT_ONCE) await Promise.all(all.slice(from, from + AT_ONCE).map(action))
}
