/**
 * What a process of a cluster counts of lists, added up in Redis: lists given and what came of them (experiments.ts), and
 * places reserved for new items that were given to them. Every process adds its counts every second, and reads
 * those of all processes every few. Counts that a dying process had not added are lost.
 */

import { randomUUID } from "node:crypto"
import type { Catalogue } from "../engine/catalogue.ts"
import { type Count, Experiments, ListCounts } from "../engine/experiments.ts"
import type { Cluster } from "./cluster.ts"

/** Writes for each read. */
const READ_EVERY = 5
/** Seconds that counts are kept after the last list. */
const KEPT = 90 * 24 * 3600
/** Seconds in which a call that is made again is known. */
const REMEMBERED = 600
const SINCE = "since"

export class ClusterCounts {
  readonly #cluster: Cluster
  readonly #catalogue: Catalogue
  readonly #counts = new ListCounts()
  readonly experiments: Experiments | undefined
  /** Calls that may have got through or not: made again as they are, they count once. */
  readonly #calls: { id: string; key: string; args: string[] }[] = []
  #rounds = 0
  #chain: Promise<void> = Promise.resolve()

  constructor(cluster: Cluster, catalogue: Catalogue) {
    this.#cluster = cluster
    this.#catalogue = catalogue
    const { experiments } = cluster.options
    this.experiments = experiments && new Experiments(experiments, this.#counts)
  }

  #key(what: string): string {
    return `${this.#cluster.keys.prefix}:{lists}:${what}`
  }

  get #listsKey(): string {
    return this.#key(this.experiments?.fingerprint ?? "")
  }

  /** Adds the counts of this process, and reads everybody's when it is time. One call at a time. */
  sync(): Promise<void> {
    const next = this.#chain.catch(() => {}).then(() => this.#sync())
    this.#chain = next
    return next
  }

  async #sync(): Promise<void> {
    const { experiments } = this
    const { shown, names } = this.#catalogue
    if (experiments?.isPending) {
      const fields = experiments.take().flatMap(([kind, variant, bucket, measure, count]) => {
        return [JSON.stringify([kind, variant, bucket, measure]), String(count)]
      })
      this.#calls.push({ id: randomUUID(), key: this.#listsKey, args: fields })
    }
    if (shown.isPending) {
      const fields = shown.take().flatMap(([item, count]) => {
        const name = names.item.name(item)
        return name === undefined ? [] : [name, String(count)]
      })
      this.#calls.push({ id: randomUUID(), key: this.#key("shown"), args: fields })
    }
    while (this.#calls.length > 0) {
      const { id, key, args } = this.#calls[0]
      await this.#cluster.run("addCounts", [key, this.#key(id)], [String(REMEMBERED), String(KEPT), ...args])
      this.#calls.shift()
    }
    if (this.#rounds++ % READ_EVERY === 0) await this.#read()
  }

  /** One of these names is another item. */
  async forgetItems(names: readonly string[]): Promise<void> {
    const shown = this.#key("shown")
    if (names.length > 0) await this.#cluster.redis.send(shown, ["HDEL", shown, ...names])
  }

  async #read(): Promise<void> {
    const { redis } = this.#cluster
    const [lists, shown] = [this.#listsKey, this.#key("shown")]
    if (this.experiments) {
      await redis.send(lists, ["HSETNX", lists, SINCE, String(Date.now())])
      const fields = await this.#fields(lists)
      this.#counts.reset(Number(fields.get(SINCE)))
      fields.delete(SINCE)
      this.#counts.add(Array.from(fields, ([key, count]): Count => [...JSON.parse(key), Number(count)] as Count))
    }
    const items = this.#catalogue.names.item
    const [kept, over]: [[number, number][], string[]] = [[], []]
    for (const [name, count] of await this.#fields(shown)) {
      const item = items.find(name)
      if (item !== undefined && this.#catalogue.isNewcomer(item)) kept.push([item, Number(count)])
      // One that is not known may be new.
      else if (item !== undefined) over.push(name)
    }
    this.#catalogue.shown.replace(kept)
    if (over.length > 0) await redis.send(shown, ["HDEL", shown, ...over])
  }

  async #fields(key: string): Promise<Map<string, string>> {
    const reply = (await this.#cluster.redis.send(key, ["HGETALL", key])) as Buffer[]
    const fields = new Map<string, string>()
    for (let i = 0; i + 1 < reply.length; i += 2) fields.set(String(reply[i]), String(reply[i + 1]))
    return fields
  }
}
