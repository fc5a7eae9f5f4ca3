/** Why an item stands in a list: which parts of the model raise it above other items, and which of the user's items do. */

import type { ItemLifts } from "../learning/reader.ts"
import type { Why } from "./types.ts"

/** The user's items that are named. */
const MOST_ITEMS = 5

/** `boost`: what the item's odds were multiplied by. */
export function explainItem(lifts: ItemLifts, boost: number, nameOf: (item: number) => string | undefined): Why {
  if (lifts.again) return { parts: { ...NOTHING, again: 1 }, items: [] }
  const latest = lifts.latest.reduce((sum, { lift }) => sum + lift, 0)
  const { taste, neighbours, popularity } = lifts
  const raised = { ...NOTHING, taste, latest, neighbours, popularity, boost: Math.log(boost) }
  const names = Object.keys(raised) as (keyof Why["parts"])[]
  const total = names.reduce((sum, name) => sum + Math.max(0, raised[name]), 0)
  const share = (lift: number) => (total > 0 ? Math.max(0, lift) / total : 0)
  const parts = Object.fromEntries(names.map((name) => [name, share(raised[name])])) as Why["parts"]
  return { parts, items: itemsOf(lifts, parts).flatMap(({ item, share }) => named(nameOf(item), share)) }
}

function named(item: string | undefined, share: number): Why["items"] {
  return item === undefined ? [] : [{ item, share }]
}

/** What the latest items have in the shares of `latest` and `neighbours`, most first. */
function itemsOf({ latest, near }: ItemLifts, parts: Why["parts"]): { item: number; share: number }[] {
  const shares = new Map<number, number>()
  const spread = (all: readonly { item: number; lift: number }[], whole: number) => {
    const sum = all.reduce((total, { lift }) => total + Math.max(0, lift), 0)
    for (const { item, lift } of all)
      if (lift > 0 && whole > 0) shares.set(item, (shares.get(item) ?? 0) + (whole * lift) / sum)
  }
  spread(latest, parts.latest)
  spread(near, parts.neighbours)
  return Array.from(shares, ([item, share]) => ({ item, share }))
    .sort((a, b) => b.share - a.share)
    .slice(0, MOST_ITEMS)
}

export const NOTHING: Why["parts"] = { taste: 0, latest: 0, neighbours: 0, popularity: 0, again: 0, boost: 0 }
