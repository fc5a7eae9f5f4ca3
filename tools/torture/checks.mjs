/** What must hold of a directory after a kill. */

import { createHash } from "node:crypto"
import { closeSync, cpSync, fstatSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { FILE_HEADER_BYTES, FrameReader } from "../../dist/engine/frames.js"
import { event, isNumbered, numberOf, openCase, openPatiently, until, wait } from "./cases.mjs"
import { isRefusal } from "./load.mjs"

const SNAPSHOT = /^snapshot-\d+\.safetensors$/
const GHOST = /ghost-[\d-]+!/g
const ERASURE = 60_000

/** A copy of a directory as it is, but for some files. */
export async function inCopy(directory, isLeftOut, action) {
  const copy = mkdtempSync(join(tmpdir(), "dess-torture-copy-"))
  try {
    const filter = (path) => !path.endsWith(".sock") && !isLeftOut(basename(path))
    cpSync(directory, copy, { recursive: true, filter })
    return await action(copy)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Newest first. */
export function snapshotsOf(directory) {
  return readdirSync(directory)
    .filter((name) => SNAPSHOT.test(name))
    .sort()
    .reverse()
}

/** Time stands still here meanwhile, so that two who close a segment close the same. */
export async function atOneMoment(action) {
  const [{ now }, moment] = [Date, Date.now()]
  Date.now = () => moment
  try {
    return await action()
  } finally {
    Date.now = now
  }
}

async function numbersOf(recommender) {
  const numbers = []
  for await (const event of recommender.events()) if (isNumbered(event)) numbers.push(numberOf(event))
  return numbers
}

/** A hash of what is known beside the model: names in order, what users have met, items with all that was put. */
function hashCatalogue(recommender) {
  const hash = createHash("sha256")
  const users = recommender.ids("user", { count: 100_000 })
  for (const user of users) hash.update(JSON.stringify([user, recommender.history(user, { count: 100_000 })]))
  for (const item of recommender.ids("item", { count: 100_000 })) hash.update(JSON.stringify(recommender.item(item)))
  return hash.digest("hex").slice(0, 16)
}

/** State hash, events taken, numbers kept, what is told of itself, what is wrong by the shop's ledger; then how many of each group are known, sent again. */
export async function examine(options, directory, { groups = [], ledger, ...further } = {}) {
  const recommender = await openPatiently(options, directory, further)
  try {
    // Who leaves for a limit gives up its name a moment later.
    const catalogue = options.idle ? "" : `, catalogue ${await patiently(() => hashCatalogue(recommender))}`
    const hash = `${await recommender.hash()}${catalogue}`
    const numbers = await numbersOf(recommender)
    const { damaged = [], memory, events, state } = recommender.status()
    const problem = await ledger?.check(recommender)
    const known = []
    for (const group of groups) {
      let count = 0
      for (let at = 0; at < group.length; at += 5000) {
        const some = group.slice(at, at + 5000).map((number) => event(number, "somebody", "something"))
        count += (await patiently(() => recommender.observe(some))).duplicates
      }
      known.push(count)
    }
    return { hash, numbers, accepted: events.accepted, damaged, memory, state, known, problem }
  } finally {
    // Nobody looks at the copy again: what was only sent to be recognised need not be learned.
    await recommender.abandon()
  }
}

/** What is damaged and made again meanwhile refuses for a moment. */
async function patiently(action) {
  for (const end = performance.now() + ERASURE; ; await wait(100)) {
    try {
      return await action()
    } catch (error) {
      if (!isRefusal(error) || performance.now() > end) throw error
    }
  }
}

/** Opens the directory itself, lets erasures come to an end, and closes it. What it holds, and what is wrong. */
export async function settleDirectory(options, directory) {
  const recommender = await openCase(options, directory)
  try {
    const isDone = await until(() => recommender.status().erasures.pending === 0, ERASURE)
    const { erasures, damaged, memory } = recommender.status()
    const problem = isDone ? undefined : `erasures are not done after a start: ${JSON.stringify(erasures)}`
    return { numbers: await numbersOf(recommender), damaged, memory, problem }
  } finally {
    await recommender.close()
  }
}

/** Users of whom something is found in a directory, with the file; also inside what is deflated. */
export function* ghostsIn(directory) {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    for (const text of textsOf(path)) for (const [user] of text.matchAll(GHOST)) yield { user, file: entry.name }
  }
}

function* textsOf(path) {
  let file
  try {
    yield readFileSync(path, "latin1")
    if (!/^journal-\d+\.log(\.part)?$/.test(basename(path))) return
    file = openSync(path, "r")
    const size = fstatSync(file).size
    const [, first] = /-(\d+)\./.exec(basename(path))
    for (const { records } of new FrameReader({ file, size, at: FILE_HEADER_BYTES, position: Number(first) }))
      for (const record of records) yield Buffer.from(record).toString("latin1")
  } catch (error) {
    // Files come and go while a recommender works.
    if (error.code !== "ENOENT") throw error
  } finally {
    if (file !== undefined) closeSync(file)
  }
}
