/** The lookup table on a disk that fails, at every single operation: the process lives and nothing is lost. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest"
import { buildCommand } from "../support/command.ts"
import { describeWithFaults, Faults, runUnderFaults } from "../support/faults.ts"

/**
 * Does an action with the first operation failing, then the second, and so on until none is left to fail. Prints what
 * went wrong beyond the action's own error. `COUNT` operations fail in a row; -1: all from then on.
 */
const SCRIPT = `
import { readdirSync } from "node:fs"
import { Lookup } from "./dist/engine/lookup.js"
import { Faults } from "./tools/faults/faults.mjs"
const { FOLDER: folder, ACTION, CODE: code, COUNT } = process.env
const faults = Faults.own()
const problems = []
const failures = []
process.on("unhandledRejection", (error) => problems.push("unhandled: " + error))
const classes = ["open", "create", "write", "sync", "truncate", "rename", "unlink", "read"]
const onFailure = (error) => failures.push(error)
const open = () => new Lookup({ directory: folder, mostKeys: 0, onFailure })
let lookup = open()
let rounds = 0
let position = 0
const expected = new Map()
function add() {
  position++
  const changes = []
  for (let user = 0; user < 40; user++) {
    expected.set(user, position)
    changes.push({ kind: "feedback", user, item: position, type: "like", entry: { timestamp: position, comment: "c".repeat(200) } })
  }
  changes.push({ kind: "dropFeedback", side: "item", index: position - 2 })
  changes.push({ kind: "key", hash: Buffer.alloc(16, position % 251), order: position })
  changes.push({ kind: "note", side: "user", id: "u" + position, note: { comment: "n" } })
  lookup.add(changes, position)
}
function check(when) {
  for (const [user, time] of expected) {
    const rows = [...lookup.feedback({ user })]
    const times = rows.map((row) => row.timestamp).join()
    const right = time === 1 ? "1" : [time - 1, time].join()
    if (times !== right) problems.push(when + ": user " + user + " has " + times + " and not " + right)
  }
  if (!lookup.hasKey(Buffer.alloc(16, position % 251))) problems.push(when + ": no key")
  if (lookup.note("user", "u" + position) === undefined) problems.push(when + ": no note")
}
const actions = {
  flush: () => lookup.flush(position),
  erase: () => lookup.erase(["f" + String.fromCharCode(0).repeat(4)]),
  dropKeys: async () => {
    lookup.dropKeys(position - 5)
    await lookup.flush(position)
  },
  open: async () => {
    await lookup.close()
    lookup = open()
  },
  background: () =>
    new Promise((resolve, reject) => {
      const [before, start] = [failures.length, Date.now()]
      const look = () => {
        if (failures.length > before) reject(failures.at(-1))
        else if (lookup.waiting === 0) resolve()
        else if (Date.now() - start > 5000) reject(new Error("nothing happened"))
        else setTimeout(look, 5)
      }
      for (let n = 0; n < 16_400; n++) lookup.add([{ kind: "note", side: "item", id: "x", note: { comment: "" } }], position)
      look()
    }),
}
for (let n = 0; n < 10; n++) add()
await lookup.flush(position)
for (let failAt = 1; failAt < 400; failAt++) {
  rounds++
  add()
  const applied = lookup.applied
  faults.arm({ folder, classes, failAt, failCount: Number(COUNT), code })
  let error
  try {
    await actions[ACTION]()
  } catch (caught) {
    error = caught
    if (!["UNAVAILABLE", "CLOSED"].includes(error.code)) problems.push("round " + failAt + ": " + error.code + " " + error.message)
  }
  const { failed } = faults.counts()
  // A read may have to open the file again; it says so where it cannot.
  try {
    check("round " + failAt + ", under the fault")
  } catch (caught) {
    if (caught.code !== "UNAVAILABLE" && ACTION !== "open") problems.push("read: " + caught.code + " " + caught.message)
  }
  faults.disarm()
  if (ACTION === "open" && error) {
    // As the engine does: it opens it again and brings what was not applied.
    await lookup.close().catch(() => {})
    lookup = open()
    if (lookup.applied < position) { position--; add() }
  }
  if (lookup.applied < applied) problems.push("round " + failAt + ": applied went back")
  check("round " + failAt)
  await lookup.flush(position)
  if (ACTION === "erase") await actions.erase()
  check("round " + failAt + ", flushed")
  if (lookup.waiting !== 0) problems.push("round " + failAt + ": something waits")
  await lookup.close()
  lookup = open()
  if (lookup.applied < position) problems.push("round " + failAt + ": applied is " + lookup.applied)
  check("round " + failAt + ", opened again")
  const names = readdirSync(folder)
  if (names.some((name) => !/^lookup-\\d+-\\d+.run$/.test(name)) || names.length > 12) problems.push("round " + failAt + ": " + names)
  if (failed === 0 && !error) break
}
await lookup.close()
await new Promise((resolve) => setTimeout(resolve, 50))
console.log(JSON.stringify({ problems: problems.slice(0, 10), rounds }))
`

beforeAll(buildCommand)
let folder: string
let faults: Faults
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "dess-lookup-faults-"))
  faults = new Faults({ folder })
})
afterEach(() => {
  faults.close()
  rmSync(folder, { recursive: true, force: true })
})

describeWithFaults("a failing disk", () => {
  const actions = ["flush", "background", "erase", "dropKeys", "open"]
  const faulty = [
    ["EIO", "once"],
    ["EMFILE", "once"],
    ["ENOSPC", "from then on"],
  ]
  const cases = actions.flatMap((action) => faulty.map(([code, how]) => [action, code, how] as const))
  test.each(cases)("%s survives %s at every operation, %s", async (ACTION, CODE, how) => {
    Object.assign(process.env, { FOLDER: folder, ACTION, CODE, COUNT: how === "once" ? "1" : "-1" })
    const { stdout, stderr, ...end } = await runUnderFaults(faults, SCRIPT)
    expect(end, stderr).toEqual({ code: 0, signal: null })
    const last = stdout.trim().split("\n").at(-1) ?? ""
    const { problems, rounds } = JSON.parse(last) as { problems: string[]; rounds: number }
    expect(problems).toEqual([])
    expect(rounds).toBeGreaterThan(3)
    expect(rounds).toBeLessThan(399)
  })
})
