/**
 * Ownership of partitions. Every trainer sends a heartbeat each second; live trainers share the partitions evenly. One with
 * too many releases some, one with too few takes free ones: released, or with an owner that is silent.
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
  /** Milliseconds without a heartbeat until another may take over. */
  readonly #duration: number

  constructor(cluster: Cluster, duration: number) {
    this.#cluster = cluster
    this.#duration = duration
    this.id = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`
  }

  get duration(): string {
    return String(this.#duration)
  }

  /** Sends the heartbeat; returns how many partitions this trainer should own. */
  async share(note: Member["note"]): Promise<number> {
    const living = (await listMembers(this.#cluster, this.#duration, { id: this.id, note })).map(({ id }) => id).sort()
    const { partitions } = this.#cluster
    const rank = living.indexOf(this.id)
    return Math.floor(partitions / living.length) + (rank < partitions % living.length ? 1 : 0)
  }

  /** Acquires a partition and returns its fence; undefined where another trainer has it. */
  async acquire(partition: number): Promise<string | undefined> {
    const key = this.#cluster.keys.of(partition, "lease")
    const [fence] = (await this.#cluster.run("acquire", [key], [this.id, this.duration])) as Reply[]
    return fence === 0 ? undefined : String(fence)
  }

  /** Acquires up to this many free partitions, beginning anywhere among the candidates; returns their fences. */
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

  /** Renews the lease of a partition; false where it is lost. */
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

/** Live trainers with their notes; `self` adds its own. */
export async function listMembers(cluster: Cluster, silence: number, self?: Member): Promise<Member[]> {
  const args = [self?.id ?? "", self ? JSON.stringify(self.note) : "{}", String(silence)]
  const found = (await cluster.run("members", [cluster.keys.members], args)) as Buffer[]
  const members: Member[] = []
  for (let i = 0; i < found.length; i += 2)
    members.push({ id: String(found[i]), note: JSON.parse(String(found[i + 1])) as Member["note"] })
  return members
}
