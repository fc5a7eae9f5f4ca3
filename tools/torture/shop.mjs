/** What a shop writes beside events: items with properties, guests who sign in, clicks on lists. And what must be left of it. */

import { event, wait } from "./cases.mjs"

const MEMBERS = 20
const ITEMS = 20

/**
 * Writes until it is to stop. `nextNumber`: of an event; `patiently`: calls until it is taken; `observe`: the same for
 * events, which it tells of.
 */
export async function shop(target, { random, stop, nextNumber, patiently, observe, tell }) {
  const some = (word, count) => `${word} ${random.integer(count)}`
  /** Versions rise with the numbers of events, so from kill to kill. */
  const put = async () => {
    const [item, version] = [some("item", ITEMS), nextNumber()]
    const entry = {
      ...{ item, title: `version ${version}`, categories: [some("category", 5)] },
      properties: { version, text: "x".repeat(random.integer(300)) },
    }
    if (await patiently(() => target.putItems([entry]))) tell({ shop: { item, version } })
  }
  const merge = async () => {
    const number = nextNumber()
    const [guest, member, item] = [`guest ${number}`, some("member", MEMBERS), `only ${number}`]
    await observe([event(number, guest, item)])
    const done = await patiently(() => target.merge(guest, member))
    if (done) tell({ shop: { guest, member, item } })
  }
  const click = async () => {
    const user = some("user", 150)
    const done = await patiently(() => target.list(user))
    if (!done?.result.id || done.result.items.length === 0) return
    const [item] = done.result.items
    await observe([{ ...event(nextNumber(), user, item), type: "view", list: done.result.id, place: 1 }])
    if (!stop.now) tell({ shop: { clicks: 1 } })
  }
  const remove = async () => {
    const deleted = `gone ${nextNumber()}`
    if (!(await patiently(() => target.putItems([{ item: deleted, properties: { version: 0 } }])))) return
    if (await patiently(() => target.deleteItem(deleted))) tell({ shop: { deleted } })
  }
  const acts = [put, merge, click, remove]
  while (!stop.now) {
    await acts[random.integer(acts.length)]()
    await wait(random.integer(40))
  }
}

/** What was acknowledged, over all kills. */
export class ShopLedger {
  #versions = new Map()
  #merged = []
  #deleted = []
  #clicks = 0

  add({ item, version, guest, member, deleted, clicks = 0 }) {
    if (version !== undefined) this.#versions.set(item, version)
    if (guest !== undefined) this.#merged.push({ guest, member, item })
    if (deleted !== undefined) this.#deleted.push(deleted)
    this.#clicks += clicks
  }

  /** What is wrong with a recommender that took the directory up, or undefined. */
  async check(recommender) {
    for (const [item, version] of this.#versions) {
      const { title, properties } = recommender.item(item) ?? {}
      if (!(properties?.version >= version) || title !== `version ${properties.version}`)
        return `${item} was put with version ${version} and has ${JSON.stringify({ title, properties })}`
    }
    for (const deleted of this.#deleted)
      if (recommender.has("item", deleted)) return `${deleted} was deleted and is there`
    for (const { guest, member, item } of this.#merged) {
      if (recommender.has("user", guest)) return `${guest} was merged and is there`
      if (!recommender.history(member, { count: 100_000 }).includes(item))
        return `${guest} was merged into ${member}, who has not met ${item}`
    }
    let named = 0
    // Only clicks have a type.
    for await (const { type } of recommender.events()) if (type !== undefined) named++
    const views = recommender.experiments?.()?.variants ?? []
    const counted = views.flatMap(({ lists }) => lists).reduce((sum, { clicks }) => sum + clicks, 0)
    if (counted < this.#clicks) return `${counted} clicks are counted, of ${this.#clicks} that were acknowledged`
    if (views.length > 0 && counted !== named) return `${counted} clicks are counted, and ${named} events name a list`
    return undefined
  }
}
