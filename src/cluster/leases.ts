/**
 * Who owns what. Every trainer says each second that it lives; the living share the partitions evenly, so each knows how
 * many are its own. One with too many gives back, one with too few takes what is free: given back, or its owner silent.
 */

import { randomBytes } from "node:crypto"
import { hostname } from "node:os"
import type { Cluster } from "./cluster.ts"
import type { Reply } from "./redis.ts"

export interface Member {
  id: string
  note: Record<string, number | string>
}

export class Leases {
  readonly id: string
  readonly #cluster: Cluster
  /** Milliseconds without a word until another may take over. */
  readonly #duration: number

  constructor(cluster: Cluster, duration: number) {
    this.#cluster = cluster
    this.#duration = duration
    this.id = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`
  }

  get duration(): string {
    return String(this.#duration)
  }

  /** Says that this trainer lives; returns how many of the partitions are its own. */
  async share(note: Member["note"]): Promise<number> {
    const living = (await listMembers(this.#cluster, this.#duration, { id: this.id, note })).map(({ id }) => id).sort()
    const { partitions } = this.#cluster
    const rank = living.indexOf(this.id)
    return Math.floor(partitions / living.length) + (rank < partitions % living.length ? 1 : 0)
  }

  /** The fence of a partition that is one's own from here on; undefined where another has it. */
  async acquire(partition: number): Promise<string | undefined> {
    const key = this.#cluster.keys.of(partition, "lease")
    const [fence] = (await this.#cluster.run("acquire", [key], [this.id, this.duration])) as Reply[]
    return fence === 0 ? undefined : String(fence)
  }

  /** Fences of so many partitions that nobody else has, beginning anywhere among the candidates; fewer where there are none. */
  async acquireSome(count: number, isCandidate: (partition: number) => boolean): Promise<Map<number, string>> {
    const candidates = this.#cluster.all.filter(isCandidate)
    const first = Math.floor(Math.random() * candidates.length)
    const order = [...candidates.slice(first), ...candidates.slice(0, first)]
    const fences = new Map<number, string>()
    for (let from = 0; from < order.length && fences.size < count; ) {
      const some = order.slice(from, from + count - fences.size)
      from += some.length
      const got = await Promise.all(some.map((partition) => this.acquire(partition)))
      got.forEach((fence, i) => {
        if (fence !== undefined) fences.set(some[i], fence)
      })
    }
    return fences
  }

  /** Whether a partition is still one's own. */
  async renew(partition: number, fence: string): Promise<boolean> {
    const key = this.#cluster.keys.of(partition, "lease")
    return (await this.#cluster.run("renew", [key], [this.id, fence, this.duration])) === 1
  }

  async release(partition: number, fence: string): Promise<void> {
    await this.#cluster.run("renew", [this.#cluster.keys.of(partition, "lease")], [this.id, fence, "0"])
  }

  async leave(): Promise<void> {
    await this.#cluster.run("members", [this.#cluster.keys.members], [this.id, "", this.duration])
  }
}

/** The living trainers and what they say of themselves; `self` says it. */
export async function listMembers(cluster: Cluster, silence: number, self?: Member): Promise<Member[]> {
  const args = [self?.id ?? "", self ? JSON.stringify(self.note) : "{}", String(silence)]
  const found = (await cluster.run("members", [cluster.keys.members], args)) as Buffer[]
  const members: Member[] = []
  for (let i = 0; i < found.length; i += 2)
    members.push({ id: String(found[i]), note: JSON.parse(String(found[i + 1])) as Member["note"] })
  return members
}
