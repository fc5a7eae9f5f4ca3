/** Suites on a real Redis Cluster: six processes on loopback, started for the suite and ended with it. */

import { spawnSync } from "node:child_process"
import { afterAll, beforeAll, describe, test } from "vitest"
import { type RedisCluster, startCluster } from "../../tools/redis-cluster.mjs"

const PROGRAM = process.env.REDIS_SERVER ?? "redis-server"

/** A suite with a cluster of its own. With CI=true a missing redis-server is a failure. */
export function describeWithRedis(name: string, body: (redis: () => RedisCluster) => void): void {
  if (spawnSync(PROGRAM, ["--version"]).status !== 0) {
    if (process.env.CI === "true")
      test(name, () => {
        throw new Error(`cluster: expected ${PROGRAM}, got none`)
      })
    else {
      console.warn(`SKIPPED: ${name} – there is no ${PROGRAM} (apt-get install redis-server)`)
      describe.skip(name, () => body(undefined as never))
    }
    return
  }
  describe(name, () => {
    let cluster: RedisCluster | undefined
    beforeAll(async () => {
      cluster = await startCluster()
    })
    afterAll(() => cluster?.stop())
    body(() => cluster as RedisCluster)
  })
}

let prefixes = 0

/** Keys of a test's own. */
export function freshPrefix(): string {
  return `test${++prefixes}`
}

export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  seconds = 20,
): Promise<void> {
  for (const end = Date.now() + 1000 * seconds; ; ) {
    if (await condition()) return
    if (Date.now() > end) throw new Error(`${what}: expected within ${seconds} s`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
