/** Finds the columns of user, item, rating, timestamp and kind of event by the names in common use. */

import { DessError, show } from "../errors.ts"

export type ColumnRole = "user" | "item" | "rating" | "timestamp"

/** What only a live recommender has a use for: how much an event counts, and its idempotency key. */
type LiveRole = "weight" | "key"

type EventRole = ColumnRole | "type" | LiveRole

/** Column names (or places from 1) given by hand; roles left out are recognised. */
export type ColumnChoice = Partial<Record<EventRole, string>>

/** Place of each column, from 0; −1 for one that is not there. */
export type ColumnPlaces = Record<EventRole | "signal", number>

const ROLES: readonly ColumnRole[] = ["user", "item", "rating", "timestamp"]
const LIVE_ROLES: readonly LiveRole[] = ["weight", "key"]
const EVENT_ROLES: readonly EventRole[] = [...ROLES, "type", ...LIVE_ROLES]

/** Places before any column is found. */
export const NOWHERE: Readonly<ColumnPlaces> = {
  ...{ user: -1, item: -1, rating: -1, timestamp: -1 },
  ...{ type: -1, weight: -1, key: -1, signal: -1 },
}

/** Which columns of a file were taken for what, and what that means. */
export interface Reading {
  /** By role, their names; `signal` is a column whose rows count from a value on, as a click of all that was shown. */
  taken: Partial<Record<EventRole | "signal", string>>
  ignored: readonly string[]
  /** Without ratings: every row is a positive. */
  implicit: boolean
  /** Without times: rows are taken in the order of the file. */
  untimed: boolean
  /** From which value of the signal on a row counts. */
  leastSignal?: number
}

/** Lower case, letters and digits only; the first that is there wins (`parent_asin` before `asin`, as its users advise). */
const NAMES: Record<EventRole, readonly string[]> = {
  user: ["userid", "user", "uid", "reviewerid", "customerid", "memberid", "visitorid", "username"],
  item: [
    ...["movieid", "itemid", "item", "iid", "parentasin", "asin", "imdbid", "productid", "bookid", "isbn"],
    ...["businessid", "gameid", "artistid", "trackid", "songid", "animeid", "recipeid", "movie", "product"],
    ...["videoid", "photoid", "locationid", "venueid", "poiid", "newsid", "articleid", "clickarticleid"],
  ],
  rating: ["rating", "ratings", "overall", "stars", "score", "ratingscore", "reviewrating", "starrating", "bookrating"],
  timestamp: [
    ...["timestamp", "timems", "unixreviewtime", "unixtime", "timestamps", "time", "ts", "datetime", "date"],
    ...["ratedat", "createdat", "eventtime", "unixtimestamp", "reviewdate", "clicktimestamp", "checkintime"],
  ],
  type: [
    "type",
    "eventtype",
    "event",
    "actiontype",
    "action",
    "behaviortype",
    "behavior",
    "interactiontype",
    "feedbacktype",
  ],
  weight: ["weight"],
  key: ["key"],
}

/** Columns of what was shown or begun, and from which value on their publishers count it: KuaiRand, Yambda. */
const SIGNALS: readonly { name: string; least: number }[] = [
  { name: "isclick", least: 1 },
  { name: "playedratiopct", least: 50 },
]

/** Reads `user=…,item=…,rating=…,timestamp=…`. */
export function parseColumnChoice(text: string): ColumnChoice {
  const choice: ColumnChoice = {}
  for (const part of text.split(",")) {
    const cut = part.indexOf("=")
    const role = part.slice(0, cut).trim() as EventRole
    const name = part.slice(cut + 1).trim()
    const isKnown = EVENT_ROLES.includes(role)
    if (cut < 0 || !isKnown || name === "" || choice[role] !== undefined) {
      throw new DessError(
        "INVALID_ARGUMENT",
        `columns: expected ${EVENT_ROLES.map((known) => `${known}=<name>`).join(",")}, each once, got ${show(part)}`,
      )
    }
    choice[role] = name
  }
  return choice
}

/** How many of the four columns a header names. */
export function countRoles(header: readonly string[]): number {
  const keys = new Set(header.map(keyOf))
  return ROLES.filter((role) => NAMES[role].some((name) => keys.has(name))).length
}

/** What a header is read with. */
export interface HeaderOptions {
  choice: ColumnChoice
  /** Ratings are not to be read, whether there are any or not. */
  implicit?: boolean
  /** Events of a live recommender, which may have a weight and a key. */
  live?: boolean
  /** Named in errors. */
  where: string
}

/** Finds the columns of a header, or refuses with what was expected and what is there. */
export function readHeader(
  header: readonly string[],
  { choice, implicit = false, live = false, where }: HeaderOptions,
): { reading: Reading; places: ColumnPlaces } {
  refuseDuplicates(header, where)
  if (implicit && choice.rating !== undefined)
    throw new DessError(
      "INVALID_ARGUMENT",
      `columns: expected no rating with implicit data, got ${show(choice.rating)}`,
    )
  const keys = header.map(keyOf)
  const places: ColumnPlaces = { ...NOWHERE }
  for (const role of EVENT_ROLES) {
    const chosen = choice[role]
    if (!live && (role === "weight" || role === "key")) {
      if (chosen === undefined) continue
      throw new DessError(
        "UNSUPPORTED",
        `columns: expected no ${role} in a stream of experiments, where every event counts once`,
      )
    }
    const needed = role === "user" || role === "item"
    if (chosen !== undefined) places[role] = findChosen(role, chosen, { header, where })
    else if (needed || NAMES[role].some((name) => keys.includes(name))) places[role] = recognise(role, header, where)
  }
  if (implicit) places.rating = -1
  const signal = places.rating < 0 ? SIGNALS.find(({ name }) => keys.includes(name)) : undefined
  if (signal) places.signal = keys.indexOf(signal.name)
  for (const role of EVENT_ROLES) {
    const twin = EVENT_ROLES.find((other) => other !== role && places[other] >= 0 && places[other] === places[role])
    if (twin === undefined) continue
    // Two roles may be recognised in one column only if one of them was given by hand.
    throw new DessError(
      "INVALID_ARGUMENT",
      `columns: expected one for each role, got one for both ${role} and ${twin} (${where})`,
    )
  }
  const found = Object.entries(places).filter(([, place]) => place >= 0)
  const taken = Object.fromEntries(found.map(([role, place]) => [role, header[place]]))
  const used = new Set(Object.values(places))
  return {
    places,
    reading: {
      taken,
      ignored: header.filter((_, place) => !used.has(place)),
      implicit: places.rating < 0,
      untimed: places.timestamp < 0,
      ...(signal && { leastSignal: signal.least }),
    },
  }
}

/** The columns of rows that name a user, an item or both, and perhaps a type. */
export function readIdHeader(
  header: readonly string[],
  { choice, where }: { choice: ColumnChoice; where: string },
): Pick<Reading, "taken" | "ignored"> {
  const taken: Reading["taken"] = {}
  const keys = header.map(keyOf)
  for (const role of ["user", "item", "type"] as const) {
    const chosen = choice[role]
    if (chosen !== undefined && header.includes(chosen)) taken[role] = chosen
    else if (NAMES[role].some((name) => keys.includes(name))) taken[role] = header[recognise(role, header, where)]
  }
  if (taken.user === undefined && taken.item === undefined)
    throw new DessError("INVALID_DATA", `columns: expected one of users or of items, got ${list(header)} (${where})`)
  return { taken, ignored: header.filter((name) => !Object.values(taken).includes(name)) }
}

/** Says which columns are taken for what, and which are not read. */
export function describeColumns({ taken, ignored }: Pick<Reading, "taken" | "ignored">): string {
  const nameOf = (name: string) => (/^\d+$/.test(name) ? `column ${name}` : show(name))
  const found = Object.entries(taken).map(([role, name]) => (name === role ? role : `${role} from ${nameOf(name)}`))
  const others = ignored.length > 0 ? `; not read: ${ignored.map(nameOf).join(", ")}` : ""
  return `columns: ${found.join(", ")}${others}`
}

/** The place of the item column. */
export function findItemColumn(header: readonly string[], choice: ColumnChoice, where: string): number {
  refuseDuplicates(header, where)
  return choice.item === undefined
    ? recognise("item", header, where)
    : findChosen("item", choice.item, { header, where })
}

/** `user_id:token` (RecBole) and `userId` are the same name. */
function keyOf(name: string): string {
  return name
    .replace(/:(token|float|token_seq|float_seq)$/, "")
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "")
}

function recognise(role: EventRole, header: readonly string[], where: string): number {
  const keys = header.map(keyOf)
  const known = NAMES[role].find((name) => keys.includes(name))
  if (known === undefined) {
    throw new DessError(
      "INVALID_DATA",
      `${role} column: expected one of ${NAMES[role].slice(0, 6).join(", ")}, …, got ${list(header)} (${where}); name it with --columns ${role}=<name>`,
    )
  }
  const place = keys.indexOf(known)
  if (keys.indexOf(known, place + 1) < 0) return place
  const both = header.filter((_, i) => keys[i] === known)
  throw new DessError(
    "INVALID_DATA",
    `${role} column: expected one, got ${list(both)} (${where}); name it with --columns ${role}=<name>`,
  )
}

function findChosen(role: EventRole, chosen: string, { header, where }: { header: readonly string[]; where: string }) {
  const bare = header.map((name) => name.replace(/:\w+$/, ""))
  for (const names of [header, bare]) if (names.includes(chosen)) return names.indexOf(chosen)
  const place = /^\d+$/.test(chosen) ? Number(chosen) : 0
  if (place >= 1 && place <= header.length) return place - 1
  const hint = role === "type" ? "; dess import --as <type> gives every event one" : ""
  throw new DessError("INVALID_DATA", `${role} column: expected ${show(chosen)}, got ${list(header)} (${where})${hint}`)
}

function refuseDuplicates(header: readonly string[], where: string): void {
  const twice = header.find((name, i) => name !== "" && header.indexOf(name) !== i)
  if (twice === undefined) return
  throw new DessError("INVALID_DATA", `column names: expected each once, got ${show(twice)} twice (${where})`)
}

function list(names: readonly string[]): string {
  return names.map((name) => show(name)).join(", ")
}
