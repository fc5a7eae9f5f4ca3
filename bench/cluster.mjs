/**
 * What a cluster costs: events per second and processor time per event with 1, 2 and 4 trainers against one process that
 * learns the same segments, where it would saturate, and bytes per row in Redis. Processor time is what counts where
 * trainers and six Redis servers share a few cores.
 * npm run bench -- cluster [--events 40000] [--segment 64] [--data <MovieLens folder>] [--trainers 1,2,4]
 */

import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Cluster } from "../dist/cluster/cluster.js"
import { Log } from "../dist/cluster/log.js"
import { readStatus } from "../dist/cluster/status.js"
import { Random } from "../dist/kernels/random.js"
import { Run } from "../dist/learning/loop.js"
import { patiently, startCluster } from "../tools/redis-cluster.mjs"

const MAIN = join(import.meta.dirname, "..", "dist", "cli", "main.js")
const PARTITIONS = 16
const TICKS = 100
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** A MovieLens folder in time order, or popular items and busy users drawn by chance. */
function readEvents(data, count) {
  if (data !== undefined) {
    const lines = readFileSync(join(data, "ratings.dat"), "latin1").trim().split("\n")
    const rows = lines.map((line) => line.split("::").map(Number)).sort((a, b) => a[3] - b[3])
    return rows
      .slice(0, count)
      .map(([user, item, rating, timestamp]) => ({ user: `u${user}`, item: `m${item}`, rating, timestamp }))
  }
  const random = new Random(1, "bench cluster")
  return Array.from({ length: count }, (_, n) => {
    const user = Math.floor(2000 * random.next() ** 2)
    const item = Math.floor(3000 * random.next() ** 3)
    return { user: `u${user}`, item: `m${item}`, rating: (user + item) % 3 === 0 ? 2 : 5, timestamp: 1_700_000_000 + n }
  })
}

/** One process on the segments a cluster has: by partition, in turns. */
function alone(cluster, events, segment) {
  const parts = cluster.all.map(() => [])
  const number = { user: new Map(), item: new Map() }
  const of = (side, name) => {
    const numbers = number[side]
    if (!numbers.has(name)) numbers.set(name, numbers.size)
    return numbers.get(name)
  }
  for (const event of events) parts[cluster.keys.partitionOf(event.user)].push(event)
  const run = new Run(cluster.options.run)
  const start = process.cpuUsage()
  let [hits, rows, index] = [0, 0, 0]
  for (let from = 0; parts.some((part) => part.length > from); from += segment)
    for (const part of parts) {
      const some = part.slice(from, from + segment)
      if (some.length === 0) continue
      const { accuracy, testRows } = run.step({
        user: Int32Array.from(some, ({ user }) => of("user", user)),
        item: Int32Array.from(some, ({ item }) => of("item", item)),
        rating: Float32Array.from(some, ({ rating }) => rating),
        timestamp: Float64Array.from(some, ({ timestamp }) => timestamp),
        length: some.length,
        trainLength: some.length,
        index: index++,
        time: 0,
      })
      hits += accuracy * testRows
      rows += testRows
    }
  const { user, system } = process.cpuUsage(start)
  run.close()
  return { microseconds: (user + system) / events.length, accuracy: hits / rows }
}

/** Processor seconds of a process. */
function cpuOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}

async function measure(redis, events, p) {
  const recommender = { task: "binary", method: "dess-fre", segment: p.segment }
  const cluster = await Cluster.open({
    url: redis.url,
    prefix: `bench${p.trainers}`,
    partitions: PARTITIONS,
    recommender,
  })
  const single = p.single ?? alone(cluster, events, p.segment)
  const log = new Log(cluster, { keys: 1000, queue: 1e9, wait: 0 })
  const servers = () => redis.nodes.reduce((sum, { pid }) => sum + cpuOf(pid), 0)
  const masters = await redis.masters()
  const ofMasters = () => masters.reduce((sum, n) => sum + cpuOf(redis.nodes[n].pid), 0)
  let before = servers()
  for (let from = 0; from < events.length; from += 5000) await log.append(events.slice(from, from + 5000))
  const append = (1e6 * (servers() - before)) / events.length
  const args = ["train", "--cluster", redis.url, "--cluster-prefix", cluster.keys.prefix, "--lease", "30s"]
  const started = Date.now()
  const children = Array.from({ length: p.trainers }, () =>
    spawn(process.execPath, [MAIN, ...args], { stdio: "ignore" }),
  )
  const ofTrainers = () => children.reduce((sum, { pid }) => sum + cpuOf(pid), 0)
  // From the first segment on: starting a process is not learning.
  let [first, base, trainersBefore] = [0, 0, 0]
  try {
    for (;;) {
      await sleep(100)
      const { totals, accuracy } = await patiently(() => readStatus(cluster))
      if (first === 0 && totals.applied > 0) {
        first = Date.now()
        base = totals.applied
        trainersBefore = ofTrainers()
        before = ofMasters()
      }
      if (totals.lag > 0) continue
      const seconds = (Date.now() - first) / 1000
      const learned = events.length - base
      return {
        single,
        accuracy,
        perSecond: learned / seconds,
        start: (first - started) / 1000,
        trainer: (1e6 * (ofTrainers() - trainersBefore)) / learned,
        masters: (1e6 * (ofMasters() - before)) / learned,
        append,
      }
    }
  } finally {
    await Promise.all(
      children.map((child) => {
        const ended = new Promise((resolve) => child.once("exit", resolve))
        child.kill("SIGKILL")
        return ended
      }),
    )
    cluster.close()
  }
}

/** MEMORY USAGE of full lists of item rows over the bytes of the rows in them. */
async function measureRows(redis, size) {
  const recommender = { task: "binary", method: `uniform-${size}`, segment: 500 }
  const cluster = await Cluster.open({ url: redis.url, prefix: `rows${size}`, partitions: 4, recommender })
  const log = new Log(cluster, { keys: 1000, queue: 1e9, wait: 0 })
  const events = Array.from({ length: 4000 }, (_, n) => ({
    user: `u${n % 2000}`,
    item: `m${n % 1000}`,
    rating: 5,
    timestamp: n,
  }))
  await log.append(events)
  const args = ["train", "--cluster", redis.url, "--cluster-prefix", cluster.keys.prefix]
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: "ignore" })
  const ended = new Promise((resolve) => child.once("exit", resolve))
  while ((await patiently(() => readStatus(cluster))).totals.lag > 0) await sleep(200)
  child.kill("SIGTERM")
  await ended
  const result = {}
  for (const side of ["users", "items"]) {
    let [used, own, count] = [0, 0, 0]
    for (const p of cluster.all)
      for (let bucket = 0; bucket < 8; bucket++) {
        const key = cluster.keys.rows(side, p, 64 * bucket)
        const rows = await cluster.redis.send(key, ["LRANGE", key, "0", "-1"])
        if (rows.length < 64) continue
        used += await cluster.redis.send(key, ["MEMORY", "USAGE", key, "SAMPLES", "0"])
        own += rows.reduce((sum, row) => sum + row.length, 0)
        count += rows.length
      }
    result[side] = { used: used / count, own: own / count, numbers: 4 * (3 + size) }
  }
  cluster.close()
  return result
}

export async function run(args) {
  const { values } = parseArgs({
    args,
    options: {
      events: { type: "string", default: "40000" },
      segment: { type: "string", default: "64" },
      data: { type: "string" },
      trainers: { type: "string", default: "1,2,4" },
    },
  })
  const events = readEvents(values.data, Number(values.events))
  const redis = await startCluster()
  try {
    let single
    console.log(
      `${events.length} events, ${PARTITIONS} partitions, segments of ${values.segment}, ${availableParallelism()} cores`,
    )
    for (const trainers of values.trainers.split(",").map(Number)) {
      const got = await measure(redis, events, {
        trainers,
        segment: Number(values.segment),
        single,
      })
      if (!single)
        console.log(
          `one process: ${got.single.microseconds.toFixed(1)} µs an event, accuracy ${got.single.accuracy.toFixed(4)}; append ${got.append.toFixed(1)} µs of six servers`,
        )
      single = got.single
      const bound = (1e6 * availableParallelism()) / (got.trainer + 2 * got.masters)
      console.log(
        `${trainers} trainers: ${Math.round(got.perSecond)} events/s; ${got.trainer.toFixed(1)} µs of trainers and ${got.masters.toFixed(1)} µs of masters an event (${(got.trainer / single.microseconds).toFixed(2)}× one process); accuracy ${got.accuracy.toFixed(4)}; these cores allow ${Math.round(bound)}/s`,
      )
      console.log(
        `  on more machines: ${Math.round(1e6 / got.trainer)} events/s a trainer's core, ${Math.round(1e6 / got.masters)} a master's`,
      )
    }
    for (const size of [16, 64, 128])
      for (const [side, { used, own, numbers }] of Object.entries(await measureRows(redis, size)))
        console.log(
          `${side} of ${size} numbers: ${used.toFixed(0)} bytes in Redis, ${own.toFixed(0)} stored (${(used / own).toFixed(2)}×), of which ${numbers} numbers`,
        )
  } finally {
    await redis.stop()
  }
  // Connections to servers that are gone may linger.
  process.exit()
}
