/** Items with properties, events, and requests of every kind: the same lists whoever is asked. */

import type {
  Event,
  GuestOptions,
  ItemEntry,
  ListOptions,
  Recommendation,
  RecommendOptions,
  ServedRecommender,
} from "../../src/engine/types.ts"

export const ITEMS: ItemEntry[] = Array.from({ length: 60 }, (_, n) => ({
  item: `item ${n}`,
  title: `Thing ${n}`,
  categories: [`kind ${n % 4}`],
  properties: { price: n / 2, inStock: n % 5 !== 0, brand: `brand ${n % 7}`, tags: n % 3 === 0 ? ["sale", n] : [] },
  ...(n === 11 ? { hidden: true } : {}),
  ...(n === 12 ? { expires: 1000 } : {}),
}))

export const EVENTS: Event[] = Array.from({ length: 800 }, (_, n) => ({
  user: `user ${n % 20}`,
  item: `item ${(((n * 7) % 30) + 30 * (n % 2)) % 60}`,
  timestamp: 1_700_000_000 + n,
}))

const RULES: ListOptions[] = [
  { count: 5, include: ["title", "categories", "properties"] },
  { count: 8, offset: 3, filter: { inStock: true, price: { lte: 20 } } },
  { count: 8, filter: { any: [{ tags: "sale" }, { not: { category: { in: ["kind 1", "kind 2"] } } }] } },
  { count: 8, boost: [{ filter: { brand: "brand 3" }, by: 50 }], cap: { category: 2 }, include: ["title"] },
  { count: 20, cap: { brand: 1, category: 2 }, diversity: 0.5, exclude: ["item 1"], categories: ["kind 0", "kind 3"] },
  { count: 8, only: ["item 3", "item 4", "item 5", "item 11", "item 12"] },
]

export interface Request {
  method: "POST"
  path: string
  body: object
  ask(recommender: ServedRecommender): Promise<Recommendation[]>
}

const post = (path: string, body: object, ask: Request["ask"]): Request => ({ method: "POST", path, body, ask })
const GUEST = { items: ["item 2", "item 32"] }

const forUser = (rules: RecommendOptions): Request =>
  post("/v1/users/user%203/recommendations", rules, (live) => live.recommend("user 3", rules))

const forGuest = (rules: Omit<GuestOptions, "items">): Request => {
  const guest = { ...rules, ...GUEST }
  return post("/v1/recommendations", guest, (live) => live.recommend(guest))
}

export const REQUESTS: Request[] = RULES.flatMap((rules): Request[] => [
  forUser(rules),
  post("/v1/users/nobody/recommendations", rules, (live) => live.recommend("nobody", rules)),
  forGuest(rules),
  post("/v1/items/item%204/similar", rules, (live) => live.similar("item 4", rules)),
  post("/v1/popular", rules, (live) => live.popular(rules)),
  post("/v1/new", rules, (live) => live.newest(rules)),
])

/** With what only the top-k task has: reasons, lists that last, places for new items. */
export const TOPK_REQUESTS: Request[] = [
  ...REQUESTS,
  ...RULES.flatMap((rules) =>
    [
      { ...rules, why: true },
      { ...rules, why: true, lasting: true, seen: true },
      { ...rules, fresh: 2, counted: false },
    ].flatMap((more) => [forUser(more), forGuest(more)]),
  ),
]
