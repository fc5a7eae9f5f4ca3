/** Finds the columns of user, item, rating and timestamp by the names in common use. */

import { DessError, show } from "../errors.ts"

export type ColumnRole = "user" | "item" | "rating" | "timestamp"

/** Column names (or places from 1) given by hand; roles left out are recognised. */
export type ColumnChoice = Partial<Record<ColumnRole, string>>

/** Place of each column, from 0. */
export type ColumnPlaces = Record<ColumnRole, number>

export const ROLES: readonly ColumnRole[] = ["user", "item", "rating", "timestamp"]

/** Lower case, letters and digits only; the first that is there wins (`parent_asin` before `asin`, as its users advise). */
const NAMES: Record<ColumnRole, readonly string[]> = {
  user: ["userid", "user", "uid", "reviewerid", "customerid", "memberid", "visitorid", "username"],
  item: [
    ...["movieid", "itemid", "item", "iid", "parentasin", "asin", "imdbid", "productid", "bookid", "isbn"],
    ...["businessid", "gameid", "artistid", "trackid", "songid", "animeid", "recipeid", "movie", "product"],
  ],
  rating: ["rating", "ratings", "overall", "stars", "score", "ratingscore", "reviewrating", "starrating", "bookrating"],
  timestamp: [
    ...["timestamp", "unixreviewtime", "unixtime", "timestamps", "time", "ts", "datetime", "date"],
    ...["ratedat", "createdat", "eventtime", "unixtimestamp", "reviewdate"],
  ],
}

/** What to do where there is none. */
const WITHOUT: Partial<Record<ColumnRole, string>> = {
  rating: "; clicks without ratings: add a column of fives and use --task topk",
  timestamp: "; without times: add the number of the line",
}

/** Reads `user=…,item=…,rating=…,timestamp=…`. */
export function parseColumnChoice(text: string): ColumnChoice {
  const choice: ColumnChoice = {}
  for (const part of text.split(",")) {
    const cut = part.indexOf("=")
    const role = part.slice(0, cut).trim() as ColumnRole
    const name = part.slice(cut + 1).trim()
    if (cut < 0 || !ROLES.includes(role) || name === "" || choice[role] !== undefined) {
      throw new DessError(
        "INVALID_ARGUMENT",
        `columns: expected user=<name>,item=<name>,rating=<name>,timestamp=<name>, each once, got ${show(part)}`,
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

/** Finds the four columns in a header, or refuses with what was expected and what is there. */
export function findColumns(header: readonly string[], choice: ColumnChoice, where: string): ColumnPlaces {
  refuseDuplicates(header, where)
  const places = { user: -1, item: -1, rating: -1, timestamp: -1 }
  for (const role of ROLES) {
    const chosen = choice[role]
    places[role] = chosen === undefined ? recognise(role, header, where) : findChosen(role, chosen, { header, where })
  }
  for (const role of ROLES) {
    const twin = ROLES.find((other) => other !== role && places[other] === places[role])
    if (twin === undefined) continue
    throw new DessError("INVALID_ARGUMENT", `columns: expected four, got one for both ${role} and ${twin} (${where})`)
  }
  return places
}

/** As `findColumns`, but rating and timestamp may be missing: a click has no rating. */
export function findEventColumns(
  header: readonly string[],
  choice: ColumnChoice,
  where: string,
): Partial<ColumnPlaces> & Pick<ColumnPlaces, "user" | "item"> {
  const keys = new Set(header.map(keyOf))
  const missing = (role: ColumnRole) => choice[role] === undefined && !NAMES[role].some((name) => keys.has(name))
  const optional = (["rating", "timestamp"] as const).filter(missing)
  // A place that nothing has, so that the rest is found and checked as usual.
  const padded = [...header, ...optional.map((role) => `no ${role}`)]
  const chosen = { ...choice, ...Object.fromEntries(optional.map((role) => [role, `no ${role}`])) }
  const places: Partial<ColumnPlaces> = findColumns(padded, chosen, where)
  for (const role of optional) delete places[role]
  return places as Partial<ColumnPlaces> & Pick<ColumnPlaces, "user" | "item">
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

function recognise(role: ColumnRole, header: readonly string[], where: string): number {
  const keys = header.map(keyOf)
  const known = NAMES[role].find((name) => keys.includes(name))
  if (known === undefined) {
    throw new DessError(
      "INVALID_DATA",
      `${role} column: expected one of ${NAMES[role].slice(0, 6).join(", ")}, …, got ${list(header)} (${where}); name it with --columns ${role}=<name>${WITHOUT[role] ?? ""}`,
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

function findChosen(role: ColumnRole, chosen: string, { header, where }: { header: readonly string[]; where: string }) {
  const bare = header.map((name) => name.replace(/:\w+$/, ""))
  for (const names of [header, bare]) if (names.includes(chosen)) return names.indexOf(chosen)
  const place = /^\d+$/.test(chosen) ? Number(chosen) : 0
  if (place >= 1 && place <= header.length) return place - 1
  throw new DessError("INVALID_DATA", `${role} column: expected ${show(chosen)}, got ${list(header)} (${where})`)
}

function refuseDuplicates(header: readonly string[], where: string): void {
  const twice = header.find((name, i) => name !== "" && header.indexOf(name) !== i)
  if (twice === undefined) return
  throw new DessError("INVALID_DATA", `column names: expected each once, got ${show(twice)} twice (${where})`)
}

function list(names: readonly string[]): string {
  return names.map((name) => show(name)).join(", ")
}
