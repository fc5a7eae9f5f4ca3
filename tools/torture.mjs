/**
 * Kills a recommender under load, again and again (kill -9, at random moments, also inside snapshots, forgetting and
 * compaction), and checks after every kill:
 *   - every acknowledged event is in the journal exactly once, every other one at most once;
 *   - the training state is that of a run that was never interrupted: the same journal learned from the beginning;
 *   - no trace of a user whose removal was acknowledged is left in any file.
 * node tools/torture.mjs [--kills 50] [--seed 1]
 */

import { fork } from "node:child_process"
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Recommender } from "../dist/index.js"
import { Random } from "../dist/kernels/random.js"

const OPTIONS = {
  method: "dess-fre",
  model: "mf",
  sizes: [2, 4, 8],
  threads: 1,
  segment: 50,
  delay: 20,
  snapshotEvents: 400,
  keepJournal: true,
}

/** Numbers travel as timestamps. */
const EPOCH = 1_600_000_000

const open = (directory) => Recommender.open({ ...OPTIONS, directory })

/** The victim: observes, takes snapshots, forgets; tells its parent what was acknowledged. */
async function work({ directory, from, seed, forgets }) {
  const recommender = await open(directory)
  const random = new Random(seed, "torture work")
  let next = from
  let ghosts = 0
  process.send({ started: true })
  const loop = async () => {
    for (;;) {
      const events = Array.from({ length: 1 + random.integer(40) }, () => {
        const number = next++
        const user = `user ${random.integer(60)}`
        return {
          user,
          item: `item ${random.integer(150)}`,
          rating: 1 + random.integer(5),
          timestamp: EPOCH + number,
          key: `key ${number}`,
        }
      })
      await recommender.observe(events)
      process.send({ acknowledged: events.map(({ timestamp }) => timestamp - EPOCH) })
      // Forgetting waits for what was accepted before it; let it get there.
      if (forgets) await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const others = async () => {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, random.integer(forgets ? 40 : 120)))
      if (!forgets || random.next() < 0.25) await recommender.snapshot()
      else {
        const user = `ghost-${seed}-${ghosts++}!`
        await recommender.observe({ user, item: `item ${random.integer(150)}`, timestamp: EPOCH - 1 })
        await recommender.forget(user)
        process.send({ forgotten: user })
      }
    }
  }
  await Promise.all([loop(), loop(), others()])
}

/** Lets a process work and kills it; what it was told. */
function workAndKill(job, milliseconds) {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), ["--work", JSON.stringify(job)], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    })
    const told = { acknowledged: [], forgotten: [] }
    let complaint = ""
    child.stderr.on("data", (text) => {
      complaint += text
    })
    child.on("message", (message) => {
      if (message.started) setTimeout(() => child.kill("SIGKILL"), milliseconds)
      if (message.acknowledged) told.acknowledged.push(...message.acknowledged)
      if (message.forgotten) told.forgotten.push(message.forgotten)
    })
    child.on("close", (_, signal) => {
      if (signal === "SIGKILL") resolve(told)
      else reject(new Error(`the victim ended by itself: ${complaint}`))
    })
  })
}

/** The state hash of a directory, and the numbers of its events. */
async function examine(directory) {
  const recommender = await open(directory)
  const numbers = []
  for await (const { timestamp } of recommender.events()) if (timestamp >= EPOCH) numbers.push(timestamp - EPOCH)
  const hash = await recommender.hash()
  await recommender.close()
  return { hash, numbers }
}

/** The same of a copy of a directory without some of its snapshots, which are listed newest first. */
async function examineCopy(directory, without) {
  const copy = mkdtempSync(join(tmpdir(), "dess-torture-copy-"))
  try {
    cpSync(directory, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") })
    const snapshots = readdirSync(copy)
      .filter((name) => /^snapshot-\d+\.safetensors$/.test(name))
      .sort()
      .reverse()
    for (const name of without(snapshots)) rmSync(join(copy, name))
    return await examine(copy)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

export async function torture({ kills, seed, log = () => {} }) {
  const random = new Random(seed, "torture")
  const result = { kills: 0, events: 0, forgotten: 0 }
  const fail = (text) => {
    throw new Error(`torture, seed ${seed}, kill ${result.kills}: ${text}`)
  }
  for (const forgets of [false, true]) {
    const directory = mkdtempSync(join(tmpdir(), "dess-torture-"))
    const acknowledged = new Set()
    const forgotten = []
    let from = 0
    for (let kill = 0; kill < (forgets ? Math.floor(kills / 2) : Math.ceil(kills / 2)); kill++) {
      const told = await workAndKill(
        { directory, from, seed: seed * 1000 + kill, forgets },
        150 + random.integer(forgets ? 2000 : 900),
      )
      result.kills++
      for (const number of told.acknowledged) acknowledged.add(number)
      forgotten.push(...told.forgotten)
      const { hash, numbers } = await examine(directory)
      // Learned from the beginning where the whole journal is there; with erased rows, from the older snapshot.
      const reference = await examineCopy(directory, (snapshots) => (forgets ? snapshots.slice(0, -1) : snapshots))
      if (hash !== reference.hash) fail(`state ${hash} is not that of an uninterrupted run, ${reference.hash}`)
      const present = new Set(numbers)
      if (present.size !== numbers.length) fail(`${numbers.length - present.size} events are there twice`)
      for (const number of acknowledged) if (!present.has(number)) fail(`acknowledged event ${number} is lost`)
      for (const user of forgotten)
        for (const name of readdirSync(directory))
          if (readFileSync(join(directory, name)).includes(user)) fail(`${user} was forgotten and is still in ${name}`)
      from = 1 + numbers.reduce((most, number) => Math.max(most, number), from)
      log(
        `kill ${result.kills}: ${acknowledged.size} acknowledged, ${numbers.length} there, ${forgotten.length} forgotten`,
      )
    }
    result.events += acknowledged.size
    result.forgotten += forgotten.length
    rmSync(directory, { recursive: true, force: true })
  }
  return result
}

const flag = (name, otherwise) => {
  const at = process.argv.indexOf(name)
  return at < 0 ? otherwise : process.argv[at + 1]
}

if (process.argv.includes("--work")) await work(JSON.parse(flag("--work")))
else if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const started = Date.now()
  const result = await torture({
    kills: Number(flag("--kills", 50)),
    seed: Number(flag("--seed", 1)),
    log: console.log,
  })
  console.log(
    `${result.kills} kills survived: ${result.events} acknowledged events once each, ${result.forgotten} users forgotten, ${Math.round((Date.now() - started) / 1000)} s`,
  )
}
