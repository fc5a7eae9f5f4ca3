/** What is tortured: options, the load on them, and events that carry their number. */

import { Recommender } from "../../dist/index.js"

const SMALL = { method: "dess-fre", model: "mf", sizes: [2, 4, 8], threads: 1, segment: 50, delay: 20 }
const EAGER = { ...SMALL, snapshotEvents: 400 }
const LIMITS = { memoryBudget: 160_000, idle: { shrink: "1s", leave: "2s" } }
/** As long as nobody waits. */
const PATIENT = { leave: "365d" }

const SHOP = {
  types: { view: 0.2, purchase: 1 },
  variants: { model: { share: 0.7 }, popular: { share: 0.2, list: "popular" }, off: { share: 0.1, list: "off" } },
}

/**
 * `ids`: users and items, so many of each. `forgets`: users are erased meanwhile. `jumps`: the clock is wrong for a
 * moment, which is not to make anybody leave. `shops`: items are put and deleted, guests merged, lists clicked on.
 */
export const CASES = {
  plain: { options: { ...EAGER, keepJournal: "all" }, ids: 150 },
  forgetting: { options: { ...EAGER, keepJournal: "all" }, ids: 150, forgets: true },
  /** Ids shrink and leave, and their numbers are given to others. */
  limits: { options: { ...EAGER, ...LIMITS, keepJournal: "all" }, ids: 2000 },
  leaving: { options: { ...EAGER, ...LIMITS, keepJournal: "all" }, ids: 2000, forgets: true },
  /** The journal is kept from the older snapshot on. */
  truncated: { options: { ...EAGER, ...LIMITS, keepJournal: "snapshots" }, ids: 2000 },
  /** And from the newer one on. */
  newest: { options: { ...EAGER, model: "ncf", keepJournal: "none" }, ids: 150, forgets: true },
  clock: { options: { ...EAGER, idle: { leave: "12h" }, keepJournal: "all" }, ids: 150, jumps: true },
  /** `dess serve`. */
  service: { options: { ...EAGER, keepJournal: "all" }, ids: 150, forgets: true, http: true },
  shop: { options: { ...EAGER, ...SHOP, keepJournal: "all" }, ids: 150, shops: true },
  /** `dess serve` with variants. */
  store: { options: { ...EAGER, ...SHOP, keepJournal: "all" }, ids: 150, shops: true, forgets: true, http: true },
}

export function openCase(options, directory) {
  return Recommender.open({ ...options, directory })
}

/** Opens it so that nothing happens as time goes by. */
export function openPatiently({ idle, ...options }, directory, further = {}) {
  return openCase({ ...options, ...(idle && { idle: PATIENT }), delay: "1h", queue: 10_000_000, ...further }, directory)
}

/** Numbers travel as timestamps. */
export const EPOCH = 1_600_000_000

export const isNumbered = ({ timestamp }) => timestamp >= EPOCH
export const numberOf = ({ timestamp }) => timestamp - EPOCH
export const event = (number, user, item, rating = 5) => {
  return { user, item, rating, timestamp: EPOCH + number, key: `key ${number}` }
}

export const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Waits until something holds; false when it never does. */
export async function until(holds, milliseconds) {
  const end = performance.now() + milliseconds
  while (!(await holds())) {
    if (performance.now() > end) return false
    await wait(20)
  }
  return true
}
