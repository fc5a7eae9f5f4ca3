/**
 * Forgetting a user. An entry in the log asks for it, so it has its place among the user's events; the owner of the
 * partition drops the row, the history and the name in one write. Then the user's events up to that entry, and the entry,
 * go from the log, a portion at a time; the next owner continues where Redis has something left.
 */

import type { Cluster } from "./cluster.ts"
import { compareIds, readEvents, START } from "./log.ts"
import type { Reply } from "./redis.ts"

/** Events looked at in one step. */
const PORTION = 2000
/** Milliseconds for which the answer is kept. */
const ANSWERED = 60_000

/** One walk along the log, for all that was asked before it began: by user, the entries that asked. */
interface Walk {
  asked: Map<string, string[]>
  at: string
  end: string
}

export class Scrubbing {
  readonly #cluster: Cluster
  readonly #partition: number
  readonly #waiting = new Map<string, string>()
  #walk: Walk | undefined

  private constructor(cluster: Cluster, partition: number) {
    this.#cluster = cluster
    this.#partition = partition
  }

  static async open(cluster: Cluster, partition: number): Promise<Scrubbing> {
    const scrubbing = new Scrubbing(cluster, partition)
    const key = cluster.keys.of(partition, "forgetting")
    const fields = (await cluster.redis.send(key, ["HGETALL", key])) as Buffer[]
    for (let i = 0; i < fields.length; i += 2) {
      const id = String(fields[i])
      if (/^\d+-\d+$/.test(id)) scrubbing.add(id, String(fields[i + 1]))
    }
    return scrubbing
  }

  /** A user was forgotten, as the entry `id` asked. */
  add(id: string, user: string): void {
    this.#waiting.set(id, user)
  }

  get isBusy(): boolean {
    return this.#walk !== undefined || this.#waiting.size > 0
  }

  /** Works on the next portion; false where Redis has no such task. */
  async step(): Promise<boolean> {
    const walk = this.#walk ?? this.#begin()
    if (!walk) return true
    const entries = await readEvents(this.#cluster, this.#partition, { after: walk.at, count: PORTION })
    const found = new Map<string, string[]>()
    for (const { id, event } of entries) {
      const asked = walk.asked.get(event.user)?.find((one) => compareIds(id, one) <= 0)
      if (asked !== undefined) found.set(asked, [...(found.get(asked) ?? []), id])
    }
    walk.at = entries.at(-1)?.id ?? walk.end
    const isLast = entries.length < PORTION || compareIds(walk.at, walk.end) >= 0
    const asked = isLast ? [...walk.asked.values()].flat() : [...found.keys()]
    const done = await Promise.all(asked.map((one) => this.#take(one, found.get(one) ?? [], isLast)))
    if (isLast) this.#walk = undefined
    return !done.includes(0)
  }

  #begin(): Walk | undefined {
    if (this.#waiting.size === 0) return undefined
    const walk: Walk = { asked: new Map(), at: START, end: START }
    for (const [id, user] of [...this.#waiting].sort(([a], [b]) => compareIds(a, b))) {
      walk.asked.set(user, [...(walk.asked.get(user) ?? []), id])
      walk.end = id
    }
    this.#waiting.clear()
    this.#walk = walk
    return walk
  }

  #take(asked: string, ids: string[], isLast: boolean): Promise<Reply> {
    const names = ["forgetting", "events", `forgot:${asked}`].map((what) =>
      this.#cluster.keys.of(this.#partition, what),
    )
    return this.#cluster.run("scrub", names, [asked, isLast ? "1" : "0", String(ANSWERED), ...ids])
  }
}

/** Waits until a forgotten user's events are removed from the log and returns how many there were; undefined after `milliseconds`. */
export async function whenForgotten(
  cluster: Cluster,
  p: { partition: number; asked: string; milliseconds: number },
): Promise<number | undefined> {
  const key = cluster.keys.of(p.partition, `forgot:${p.asked}`)
  for (const until = Date.now() + p.milliseconds; ; ) {
    const answer = (await cluster.redis.send(key, ["GET", key])) as Buffer | null
    // The entry that asked was one of them.
    if (answer) return Number(String(answer)) - 1
    if (Date.now() >= until) return undefined
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
