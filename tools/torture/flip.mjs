/** Flips one bit of a copy: it opens as if nothing had happened, or says what to do, and doing that helps. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { atOneMoment, examine, inCopy, snapshotsOf } from "./checks.mjs"

const FILES = /^(journal-\d+\.log|snapshot-\d+\.safetensors|lookup-\d+-\d+\.run|dess\.json)$/
const REMEDY = /recover|bring (it|the|back)|use a newer dess/

const none = () => false

/**
 * What is wrong, or undefined; `say` is told what was done. `forgets`: a snapshot may be all there is of a state.
 * `numbers`: of events whose keys are known.
 */
export async function checkFlip({ options, forgets }, directory, { random, say, numbers }) {
  const { hash } = await inCopy(directory, none, (copy) => examineAt(options, copy))
  return inCopy(directory, none, async (copy) => {
    const files = readdirSync(copy).filter((name) => FILES.test(name))
    const file = files[random.integer(files.length)]
    const bytes = readFileSync(join(copy, file))
    const bit = random.integer(bytes.length * 8)
    bytes[bit >> 3] ^= 1 << (bit & 7)
    writeFileSync(join(copy, file), bytes)
    const where = `bit ${bit} of ${file}`
    const isOnlySnapshot = file.startsWith("snapshot") && snapshotsOf(copy).length === 1
    // What led to it is not kept, or not as it was.
    const isLost = file.startsWith("snapshot") && (isOnlySnapshot || options.keepJournal === "none")
    const asks = file.startsWith("lookup") ? { groups: [numbers] } : {}
    const opened = await inCopy(copy, none, (trial) => examineAt(options, trial, asks)).catch((error) => error)
    if (!(opened instanceof Error)) {
      say(`${where}: opened, ${opened.damaged.length === 0 ? "as before" : opened.damaged}`)
      if (asks.groups && opened.known[0] !== numbers.length)
        return `${where} flipped: ${numbers.length - opened.known[0]} keys are not known any more`
      if (opened.hash === hash || (isLost && forgets && opened.damaged.length > 0)) return undefined
      return `${where} flipped: state ${opened.hash} and not ${hash}, damaged: ${JSON.stringify(opened.damaged)}`
    }
    say(`${where}: ${opened.message}`)
    if (!["INVALID_DATA", "UNSUPPORTED"].includes(opened.code)) return `${where} flipped: ${opened.stack}`
    if (!REMEDY.test(opened.message)) return `${where} flipped: expected to be told what to do, got ${opened.message}`
    if (isLost) return undefined
    const mended = await examineAt(options, copy, { recover: true }).catch((error) => error)
    if (mended instanceof Error) {
      const isTold = file === "dess.json" && snapshotsOf(copy).length === 0 && REMEDY.test(mended.message)
      return isTold ? undefined : `${where} flipped, with recover: ${mended.stack}`
    }
    if (mended.damaged.length === 0) return `${where} flipped, with recover: expected to be told what was damaged`
    const again = await examineAt(options, copy).catch((error) => error)
    if (again instanceof Error) return `${where} flipped, after recover: ${again.stack}`
    return again.hash === mended.hash ? undefined : `${where} flipped: recovered ${mended.hash}, then ${again.hash}`
  })
}

function examineAt(options, directory, further) {
  return atOneMoment(() => examine(options, directory, further))
}
