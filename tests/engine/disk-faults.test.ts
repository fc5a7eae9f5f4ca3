/**
 * A recommender on a disk that fails at any single operation, from a start to erasing: it goes on, or it refuses to write,
 * reads, and takes up writing by itself; nothing that was acknowledged is lost, and nothing is left lying about.
 *
 * A seeded sample of the operations; DESS_DISK_FAULTS=all takes all of them (hours), a number each so-manieth. With
 * DESS_DISK_FAULTS_SEED the sample is that of a run before.
 */

import { spawn } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, expect, test } from "vitest"
import { Random } from "../../src/kernels/random.ts"
import { buildCommand, dess } from "../support/command.ts"
import { describeWithFaults, Faults, runUnderFaults } from "../support/faults.ts"
import { killServices, serve, start } from "../support/serve.ts"
import { until } from "../support/service.ts"

const PROGRAM = join(import.meta.dirname, "../support/disk-faults-child.mjs")
const SCENARIOS = ["new", "work", "short", "erase"] as const
const CHANGES = ["create", "write", "sync", "truncate", "rename", "unlink", "mkdir", "bind"]
const FAULTS = [
  { code: "ENOSPC", classes: ["create", "write", "sync", "truncate", "rename", "mkdir", "bind"] },
  { code: "EIO", classes: ["open", ...CHANGES] },
  { code: "EROFS", classes: CHANGES },
  { code: "EMFILE", classes: ["open", "create"] },
  { code: "EIO", classes: ["read"] },
]
/** How many fail: one, or all until it is over. */
const COUNTS = [1, -1]
/** Runs of a scenario in the sample. */
const SAMPLE = 5
const ALL = process.env.DESS_DISK_FAULTS
const SEED = Number(process.env.DESS_DISK_FAULTS_SEED ?? Date.now() % 100_000)

interface Plan {
  scenario: string
  code: string
  classes: string[]
  failAt: number
  failCount: number
}

interface Result extends Plan {
  operations: number
  failed: number
  byClass: Record<string, number>
  log: string[]
  problems: string[]
}

/** Runs a plan in a process of its own. One that dies is a problem of the run it died in; another does the rest. */
async function runAll(plans: readonly Plan[]): Promise<Result[]> {
  const results: Result[] = []
  while (results.length < plans.length) {
    const rest = plans.slice(results.length)
    const { stdout, stderr, end } = await runProgram(rest)
    const done = stdout.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Result] : []))
    results.push(...done)
    if (done.length === rest.length) break
    const problems = [`the process ended with ${end}: ${stderr.slice(-2000)}`]
    results.push({ ...rest[done.length], operations: 0, failed: 0, byClass: {}, log: [], problems })
  }
  return results
}

async function runProgram(plans: readonly Plan[]): Promise<{ stdout: string; stderr: string; end: string }> {
  const folder = mkdtempSync(join(tmpdir(), "dess-disk-faults-"))
  const faults = new Faults({ folder: join(folder, "disk") })
  try {
    return await new Promise((resolve, reject) => {
      const env = { ...process.env, ...faults.env(), FOLDER: folder, PLAN: JSON.stringify(plans) }
      const child = spawn(process.execPath, [PROGRAM], { env, stdio: ["ignore", "pipe", "pipe"] })
      let [stdout, stderr] = ["", ""]
      child.stdout.on("data", (chunk: Buffer) => {
        stdout += chunk.toString()
        if (ALL && chunk.includes("\n")) process.stderr.write(".")
      })
      child.stderr.on("data", (chunk: Buffer) => {
        stderr += chunk.toString()
      })
      child.on("error", reject)
      child.on("close", (code, signal) => resolve({ stdout, stderr, end: String(signal ?? code) }))
    })
  } finally {
    faults.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Every fault at every operation, every so-manieth of them, or a sample. */
function choose(scenario: string, byClass: Record<string, number>): Plan[] {
  const kinds = FAULTS.flatMap((fault) => COUNTS.map((failCount) => ({ scenario, ...fault, failCount })))
  const plans = kinds.flatMap((kind, k) => {
    const operations = kind.classes.reduce((sum, name) => sum + byClass[name], 0)
    const all = Array.from({ length: operations }, (_, n) => ({ ...kind, failAt: n + 1 }))
    // Not the same operations for every kind.
    return ALL && ALL !== "all" ? all.filter(({ failAt }) => (failAt + k + SEED) % Number(ALL) === 0) : all
  })
  if (ALL) return plans
  const random = new Random(SEED, `disk faults ${scenario}`)
  return Array.from({ length: SAMPLE }, () => plans[random.integer(plans.length)])
}

/** A program that hears of nothing but what it waits for. */
const HOST = `
import { Recommender } from "./dist/index.js"
import { Faults } from "./tools/faults/faults.mjs"
const faults = Faults.own()
const options = { directory: process.env.FOLDER, segment: 10, delay: 1000, threads: 1, snapshotDelay: 100 }
const events = (n) => Array.from({ length: n }, (_, i) => ({ user: "u" + (i % 5), item: "i" + i, key: "k" + n + i, type: "t" + n }))
const recommender = await Recommender.open(options)
await recommender.observe(events(15))
faults.arm({ classes: ["open", "create", "write", "sync", "truncate", "rename", "unlink", "mkdir"], code: process.env.CODE })
// The timer of the open segment and a snapshot come to a disk that refuses.
await new Promise((resolve) => setTimeout(resolve, 2500))
const state = recommender.status().state
const list = await recommender.recommend("u1")
faults.disarm()
while (recommender.status().state !== "learning") await new Promise((resolve) => setTimeout(resolve, 50))
const accepted = await recommender.observe(events(12))
await recommender.close()
console.log(JSON.stringify({ state, read: list.length > 0, accepted }))
`

beforeAll(buildCommand)
afterEach(killServices)

describeWithFaults("a failing disk", () => {
  test.concurrent.each(SCENARIOS)(
    "nothing acknowledged is lost and writing is taken up again: %s",
    async (scenario) => {
      const [counted] = await runAll([
        { scenario, code: "EIO", classes: ["open", ...CHANGES], failAt: -1, failCount: 1 },
      ])
      expect(counted.problems).toEqual([])
      expect(counted.operations).toBeGreaterThan(100)
      const results = await runAll(choose(scenario, counted.byClass))
      const failed = results.filter(({ problems }) => problems.length > 0)
      if (ALL)
        console.log(`${scenario}: ${counted.operations} operations, ${results.length} runs, ${failed.length} wrong`)
      expect(failed, `seed ${SEED}`).toEqual([])
      expect(results.filter((result) => result.failed > 0).length).toBeGreaterThan(results.length / 2)
    },
    ALL ? 86_400_000 : 300_000,
  )

  test.each(["ENOSPC", "EIO", "EROFS", "EMFILE"])("%s does not end a program that hears of nothing", async (CODE) => {
    const folder = mkdtempSync(join(tmpdir(), "dess-disk-host-"))
    const faults = new Faults({ folder })
    try {
      Object.assign(process.env, { FOLDER: folder, CODE })
      const { stdout, stderr, ...end } = await runUnderFaults(faults, HOST)
      expect(end, stderr).toEqual({ code: 0, signal: null })
      const accepted = { accepted: 12, duplicates: 0 }
      expect(JSON.parse(stdout)).toEqual({ state: "refusing", read: true, accepted })
    } finally {
      faults.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test("a service whose snapshots fail says so on stderr, in its metrics and health, and when they work again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dess-disk-snapshot-"))
    const faults = new Faults({ folder })
    const args = ["--directory", join(folder, "directory"), "--snapshot-events", "10", "--segment", "10"]
    try {
      const { url, stderr } = await serve(args, faults.env())
      const send = (round: number) => {
        const events = Array.from({ length: 20 }, (_, n) => ({ user: `u${n % 5}`, item: `i${round + n}` }))
        const headers = { "content-type": "application/json" }
        return fetch(`${url}/v1/interactions`, { method: "POST", headers, body: JSON.stringify(events) })
      }
      const failing = async (value: number) =>
        (await (await fetch(`${url}/metrics`)).text()).includes(`\ndess_snapshot_failing ${value}\n`)
      expect(await failing(0)).toBe(true)
      faults.arm({ folder, classes: ["rename"], code: "ENOSPC" })
      let round = 0
      await until(async () => (await send(round++)).status === 200 && (await failing(1)))
      const health = await fetch(`${url}/health/ready`)
      expect(health.status).toBe(200)
      expect(await health.json()).toEqual({ status: "ready", snapshotFailure: expect.stringContaining("ENOSPC") })
      await until(async () => stderr().includes("nothing is lost without it"))
      faults.disarm()
      await until(async () => (await send(round++)).status === 200 && (await failing(0)))
      await until(async () => stderr().includes("snapshot: they are written again"))
      expect(stderr().match(/nothing is lost without it/g)).toHaveLength(1)
    } finally {
      killServices()
      faults.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test("a service on a full disk reports it, reads, and resumes writing when there is space", async () => {
    const folder = mkdtempSync(join(tmpdir(), "dess-disk-service-"))
    const faults = new Faults({ folder })
    const directory = join(folder, "directory")
    // The command refuses variables that it does not know.
    const env = faults.env()
    const send = (url: string, user: string) =>
      fetch(`${url}/v1/interactions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ user, item: `of ${user}`, key: user }),
      })
    const readiness = async (url: string) => (await fetch(`${url}/health/ready`)).status
    try {
      faults.limit(0)
      const outcome = await dess(["serve", "--port", "0", "--directory", directory], { env })
      expect(outcome.code).not.toBe(0)
      expect(outcome.stderr).toContain("got ENOSPC")
      expect(outcome.stderr).not.toContain("ready;")
      faults.limit(null)
      const first = await serve(["--directory", directory], env)
      expect((await send(first.url, "ada")).status).toBe(200)
      faults.limit(0)
      const refused = await send(first.url, "bea")
      expect(refused.status).toBe(503)
      expect(refused.headers.get("retry-after")).not.toBeNull()
      expect(await refused.json()).toMatchObject({ error: "CLOSED" })
      expect(await readiness(first.url)).toBe(503)
      expect(await (await fetch(`${first.url}/metrics`)).text()).toMatch(/^dess_refusing 1$/m)
      expect((await fetch(`${first.url}/v1/users/ada/recommendations`)).status).toBe(200)
      first.child.kill("SIGTERM")
      expect(await first.exit, first.stderr()).toBe(0)
      const second = await start(["--directory", directory], env)
      await until(async () => second.stderr().includes("reading only: writing is refused"))
      expect(await readiness(second.url)).toBe(503)
      expect((await send(second.url, "bea")).status).toBe(503)
      expect((await fetch(`${second.url}/v1/users/ada/recommendations`)).status).toBe(200)
      expect(second.stderr()).not.toContain("ready;")
      faults.limit(null)
      await until(async () => (await readiness(second.url)) === 200)
      await until(async () => second.stderr().includes("ready; everything is kept in"))
      for (const [user, duplicates] of [
        ["ada", 1],
        ["bea", 0],
      ] as const)
        expect(await (await send(second.url, user)).json()).toMatchObject({ duplicates })
      second.child.kill("SIGTERM")
      expect(await second.exit, second.stderr()).toBe(0)
      expect(readdirSync(directory).filter((name) => /part|sock/.test(name))).toEqual([])
    } finally {
      killServices()
      faults.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
