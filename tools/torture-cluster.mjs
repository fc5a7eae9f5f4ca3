/**
 * A cluster under faults: while events come in, trainers and Redis masters are killed, paused and cut off, again and
 * again. After each fault training must go on within ten seconds; in the end every acknowledged event must have been
 * applied exactly once, to its user's row and to its item's. Now and then a user is to be forgotten: then its row counts
 * only what came after. Without --wait a failed master may take acknowledged events with it: they are counted.
 *
 *   trainer   kill -9 of a trainer, another is started
 *   pause     a trainer is stopped until its partitions are another's, then wakes up: its late write is fenced off
 *   cut       the network between a trainer and Redis is cut for a while
 *   master    kill -9 of a Redis master; its replica takes over, and it comes back as a replica
 *
 * node tools/torture-cluster.mjs [--faults trainer,pause,cut,master] [--rounds 5] [--seed 1] [--wait 1] [--trainers 3]
 *   [--longest 10] seconds until training must go on
 */

import { spawn } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Cluster } from "../dist/cluster/cluster.js"
import { forgetEvent } from "../dist/cluster/encoding.js"
import { Items, putInto } from "../dist/cluster/items.js"
import { Log } from "../dist/cluster/log.js"
import { readPartition, readStatus } from "../dist/cluster/status.js"
import { readUsers } from "../dist/cluster/users.js"
import { Random } from "../dist/kernels/random.js"
import { Run } from "../dist/learning/loop.js"
import { patiently, startCluster, startProxy } from "./redis-cluster.mjs"

const MAIN = join(import.meta.dirname, "..", "dist", "cli", "main.js")
const LEASE = 2000
const USERS = 200
const ITEMS = 100

const { values } = parseArgs({
  options: {
    faults: { type: "string", default: "trainer,pause,cut,master" },
    rounds: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
    wait: { type: "string", default: "1" },
    trainers: { type: "string", default: "3" },
    longest: { type: "string", default: "10" },
    task: { type: "string", default: "binary" },
    verbose: { type: "boolean", default: false },
  },
})
const random = new Random(Number(values.seed), "torture cluster")
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))
const say = (text) => values.verbose && console.error(`${new Date().toISOString().slice(11, 23)} ${text}`)

/** Trainers as processes; the first reaches Redis through proxies that can be cut. */
class Trainers {
  processes = []
  constructor(redis, proxies) {
    this.redis = redis
    this.proxies = proxies
  }

  start(n) {
    const behind = n === 0
    const addresses = this.redis.nodes.map(({ port }, i) => `127.0.0.1:${port}=127.0.0.1:${this.proxies[i].port}`)
    const url = behind ? this.proxies.map(({ port }) => `redis://127.0.0.1:${port}`).join(",") : this.redis.url
    const args = ["train", "--cluster", url, "--lease", `${LEASE}ms`, "--sync", "50ms"]
    if (behind) args.push("--cluster-addresses", addresses.join(","))
    const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "ignore", "pipe"] })
    child.stderr.on("data", (text) => say(`trainer ${n}: ${String(text).trim()}`))
    child.ended = new Promise((resolve) => child.once("exit", resolve))
    child.ended.then((code) => {
      if (code !== null && code !== 0) console.error(`trainer ${n} ended by itself with code ${code}`)
    })
    this.processes[n] = child
  }

  async stop(n, signal) {
    const child = this.processes[n]
    child.kill(signal)
    await child.ended
    this.processes[n] = undefined
  }

  async stopAll(signal) {
    await Promise.all(this.processes.map((child, n) => (child ? this.stop(n, signal) : undefined)))
  }
}

/** Sends events until told to stop; what is acknowledged is written down. An unanswered call is repeated with its keys. */
class Feeder {
  acknowledged = []
  refused = 0
  #stop = false
  #next = 0
  constructor(cluster) {
    this.log = new Log(cluster, { keys: 1_000_000, queue: 1_000_000, wait: Number(values.wait) })
  }

  async run() {
    while (!this.#stop) {
      const events = Array.from({ length: 1 + random.integer(30) }, () => ({
        user: `user ${random.integer(USERS)}`,
        item: `item ${random.integer(ITEMS)}`,
        rating: 1 + random.integer(5),
        timestamp: 1_700_000_000,
        key: `key ${this.#next++}`,
      }))
      if (random.integer(50) === 0)
        events.push({ ...forgetEvent(`user ${random.integer(USERS)}`), key: `key ${this.#next++}` })
      for (;;) {
        try {
          await this.log.append(events)
          break
        } catch (error) {
          if (error.code !== "UNAVAILABLE") throw error
          this.refused++
          say(`append: ${error.message}`)
          await sleep(100)
        }
      }
      this.acknowledged.push(...events)
      await sleep(5)
    }
  }

  stop() {
    this.#stop = true
  }
}

/** Milliseconds until every partition has learned something that was sent after now. */
async function untilResumed(cluster) {
  const start = Date.now()
  const all = await patiently(() => Promise.all(cluster.all.map((p) => readPartition(cluster, p))))
  const waiting = new Map(all.map(({ partition, appended }) => [partition, appended]))
  while (waiting.size > 0) {
    for (const [partition, appended] of waiting) {
      const now = await patiently(() => readPartition(cluster, partition))
      if (now.applied > appended || (now.appended < appended && now.lag < 100)) waiting.delete(partition)
    }
    if (Date.now() - start > 60_000) throw new Error(`training did not resume in ${[...waiting.keys()]}`)
    await sleep(50)
  }
  return Date.now() - start
}

const FAULTS = {
  async trainer({ cluster, trainers }) {
    const n = random.integer(trainers.processes.length)
    await trainers.stop(n, "SIGKILL")
    const took = await untilResumed(cluster)
    trainers.start(n)
    return took
  },

  async pause({ cluster, trainers }) {
    const n = random.integer(trainers.processes.length)
    trainers.processes[n].kill("SIGSTOP")
    const took = await untilResumed(cluster)
    trainers.processes[n].kill("SIGCONT")
    return took
  },

  async cut({ cluster, trainers }) {
    for (const proxy of trainers.proxies) proxy.cut()
    const took = await untilResumed(cluster)
    for (const proxy of trainers.proxies) proxy.mend()
    return took
  },

  async master({ cluster, redis }) {
    const masters = await redis.masters()
    const n = masters[random.integer(masters.length)]
    say(`killing master ${n}`)
    await redis.nodes[n].stop("SIGKILL")
    // Not before its replica has taken over: a master that comes back empty would take its slots' data with it.
    const back = redis.failedOver(n).then(() => redis.restart(n))
    const took = await untilResumed(cluster)
    await back
    await redis.healthy()
    await redis.replicated()
    return took
  },
}

/** Waits until all events are learned and all owners have their changes, then counts what rows say. */
async function countApplied(cluster) {
  for (const end = Date.now() + 60_000; ; ) {
    const { totals } = await patiently(() => readStatus(cluster))
    const items = new Items(cluster, () => {})
    const states = await patiently(() => Promise.all(cluster.all.map((p) => readPartition(cluster, p))))
    const owners = await patiently(() => Promise.all(cluster.all.map((owner) => items.load(owner))))
    const settled = owners.every(({ applied }) =>
      states.every(({ offset, partition }) => applied[partition] === offset),
    )
    const forgetting = await patiently(() =>
      Promise.all(
        cluster.all.map((p) =>
          cluster.redis.send(cluster.keys.of(p, "events"), ["HLEN", cluster.keys.of(p, "forgetting")]),
        ),
      ),
    )
    const forgotten = forgetting.every((count) => count === 0)
    if (totals.lag === 0 && settled && forgotten) break
    if (Date.now() > end)
      throw new Error(
        `expected all events to be learned, ${totals.lag} are not; homes settled: ${settled}; users forgotten: ${forgotten}`,
      )
    await sleep(200)
  }
  const run = new Run(cluster.options.run)
  const counts = { user: new Map(), item: new Map() }
  const items = new Items(cluster, putInto(run))
  for (const owner of cluster.all) await items.load(owner)
  for (const [name, index] of items.names())
    counts.item.set(name, run.learner.live.explain("item", index)?.indicators.frequency ?? 0)
  for (const p of cluster.all)
    for await (const portion of readUsers(cluster, p))
      for (const { index, stored } of portion) {
        run.shared.putRow("user", index, stored.row)
        counts.user.set(stored.name, run.learner.live.explain("user", index).indicators.frequency)
      }
  run.close()
  return counts
}

/** Differences between what was acknowledged and what rows say: below 0 lost, above 0 applied twice. */
function compare(acknowledged, counts) {
  const result = { lost: 0, twice: 0, item: { lost: 0, twice: 0 } }
  for (const side of ["user", "item"]) {
    const sent = new Map()
    for (const event of acknowledged)
      if (!event.forget) sent.set(event[side], (sent.get(event[side]) ?? 0) + 1)
      else if (side === "user") sent.set(event.user, 0)
    const into = side === "user" ? result : result.item
    for (const name of new Set([...sent.keys(), ...counts[side].keys()])) {
      const difference = (counts[side].get(name) ?? 0) - (sent.get(name) ?? 0)
      if (difference < 0) into.lost -= difference
      else into.twice += difference
    }
  }
  return result
}

async function main() {
  const redis = await startCluster()
  const proxies = await Promise.all(redis.nodes.map(({ port }) => startProxy(port)))
  const trainers = new Trainers(redis, proxies)
  let cluster
  try {
    cluster = await Cluster.open({
      url: redis.url,
      partitions: 8,
      recommender: { task: values.task, method: "dess-fre", sizes: [2, 4, 8], segment: 50 },
    })
    for (let n = 0; n < Number(values.trainers); n++) trainers.start(n)
    const feeder = new Feeder(cluster)
    const feeding = feeder.run()
    feeding.catch(() => {})
    await untilResumed(cluster)
    const times = []
    const faults = values.faults.split(",")
    for (let round = 0; round < Number(values.rounds); round++)
      for (const fault of faults) {
        await sleep(random.integer(1000))
        say(`fault: ${fault}`)
        const took = await FAULTS[fault]({ cluster, trainers, redis })
        times.push(took)
        console.log(`${fault}: training resumed after ${(took / 1000).toFixed(1)} s`)
      }
    await untilResumed(cluster)
    if (times.length === 0) await sleep(3000)
    feeder.stop()
    await feeding
    const counts = await countApplied(cluster)
    const { lost, twice, item } = compare(feeder.acknowledged, counts)
    const late = times.filter((took) => took > 1000 * Number(values.longest)).length
    console.log(
      `${times.length} faults survived: ${feeder.acknowledged.length} acknowledged events, ${feeder.acknowledged.filter(({ forget }) => forget).length} of them to forget a user, ${lost} lost, ${twice} applied twice; at items ${item.lost} lost, ${item.twice} twice; slowest resumption ${(Math.max(0, ...times) / 1000).toFixed(1)} s`,
    )
    await trainers.stopAll("SIGTERM")
    const allowed = Number(values.wait) === 0 && faults.includes("master")
    if (twice > 0 || item.twice > 0 || (!allowed && lost + item.lost > 0) || late > 0) {
      console.error(`FAILED (seed ${values.seed}): ${late} resumptions took more than ${values.longest} s`)
      process.exitCode = 1
    }
  } finally {
    cluster?.close()
    await trainers.stopAll("SIGKILL")
    for (const proxy of proxies) proxy.stop()
    await redis.stop()
  }
}

await main()
// Connections that were being made to a server that is gone may linger.
process.exit()
