/** The fault injector itself: every kind of operation fails when told to, as often as told, and nothing else does. */

import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { CLASSES } from "../../tools/faults/faults.mjs"
import { describeWithFaults, Faults, runUnderFaults } from "../support/faults.ts"

/** What every script begins with. `said` is printed at the end. */
const PRELUDE = `
import * as fs from "node:fs"
import { connect, createServer } from "node:net"
import { constants } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { Worker } from "node:worker_threads"
import { Faults } from "./tools/faults/faults.mjs"
const { FOLDER: folder, ELSEWHERE: elsewhere } = process.env
const faults = Faults.own()
const said = []
process.on("exit", () => fs.writeSync(1, JSON.stringify(said)))
/** The code an action fails with, or "done". By its number: libuv has no name for EDQUOT, LMDB for none. */
async function outcome(action) {
  try {
    await action()
    return "done"
  } catch (error) {
    const number = Math.abs(error.errno ?? error.code)
    return Object.keys(constants.errno).find((name) => constants.errno[name] === number) ?? error.message
  }
}
`

/** By class: operations of Node that belong to it. Each can be done twice. */
const OPERATIONS = {
  open: [`fs.closeSync(fs.openSync(file, "r"))`, `fs.promises.open(file).then((handle) => handle.close())`],
  create: [
    `fs.closeSync(fs.openSync(file, "a"))`,
    `fs.closeSync(fs.openSync(file, "r+"))`,
    `fs.closeSync(fs.openSync(folder + "/new", "w"))`,
    `fs.closeSync(fs.openSync("/proc/self/fd/" + directory + "/new", "w"))`,
  ],
  write: [
    `fs.writeSync(fd, "text")`,
    `fs.writeSync(fd, "text", 0)`,
    `fs.writevSync(fd, [Buffer.from("te"), Buffer.from("xt")])`,
    `fs.writevSync(fd, [Buffer.from("te"), Buffer.from("xt")], 0)`,
    `fs.copyFileSync(file, folder + "/copy")`,
    `fs.promises.appendFile(file, "text")`,
    `new Promise((resolve, reject) => fs.createWriteStream(file).on("error", reject).on("finish", resolve).end("text"))`,
  ],
  sync: [
    "fs.fsyncSync(fd)",
    "fs.fdatasyncSync(fd)",
    "fs.fsyncSync(directory)",
    "new Promise((resolve, reject) => fs.fsync(fd, (error) => (error ? reject(error) : resolve())))",
  ],
  truncate: ["fs.ftruncateSync(fd, 10)", "fs.truncateSync(file, 10)"],
  rename: [
    `fs.renameSync(file, folder + "/other"), fs.renameSync(folder + "/other", file)`,
    `fs.rmSync(folder + "/link", { force: true }), fs.linkSync(file, folder + "/link")`,
    `fs.rmSync(folder + "/link", { force: true }), fs.symlinkSync(file, folder + "/link")`,
    `fs.writeFileSync(elsewhere + "/in", ""), fs.renameSync(elsewhere + "/in", folder + "/in")`,
    `fs.writeFileSync(folder + "/out", ""), fs.renameSync(folder + "/out", elsewhere + "/out")`,
  ],
  unlink: [
    `fs.writeFileSync(folder + "/gone", ""), fs.unlinkSync(folder + "/gone")`,
    `fs.mkdirSync(folder + "/empty", { recursive: true }), fs.rmdirSync(folder + "/empty")`,
    `fs.writeFileSync(folder + "/gone", ""), fs.promises.unlink(folder + "/gone")`,
  ],
  mkdir: [
    `fs.rmSync(folder + "/made", { recursive: true, force: true }), fs.mkdirSync(folder + "/made")`,
    `fs.rmSync(folder + "/a", { recursive: true, force: true }), fs.mkdirSync(folder + "/a/b", { recursive: true })`,
    `fs.mkdtempSync(folder + "/some-")`,
  ],
  bind: [`listen(folder + "/a.sock")`, `listen("/proc/self/fd/" + directory + "/b.sock")`],
  read: [
    "fs.readSync(fd, Buffer.alloc(4))",
    "fs.readSync(fd, Buffer.alloc(4), 0, 4, 0)",
    "fs.readvSync(fd, [Buffer.alloc(2), Buffer.alloc(2)])",
    "fs.readvSync(fd, [Buffer.alloc(2), Buffer.alloc(2)], 0)",
    "fs.promises.readFile(file)",
    `fs.copyFileSync(file, elsewhere + "/copy")`,
  ],
}

/** Calls that Node does not make but native packages might: each prints the number of its error, 0 when it succeeds. */
const NATIVE_CALLS = `
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#define CALL(name, call) if (!strcmp(argv[1], name)) { errno = 0; long result = (long)(call); printf("%d", result == -1 ? errno : 0); return 0; }
int main(int argc, char **argv) {
  if (argc < 3 || chdir(argv[2])) return 2;
  int folder = open(".", O_RDONLY), fd = open("file", O_RDWR), second = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 50);
  int source = open("/proc/self/exe", O_RDONLY);
  if (folder < 0 || fd < 0 || dup2(fd, 60) != 60 || dup3(fd, 61, O_CLOEXEC) != 61) return 2;
  struct iovec pieces[] = {{"te", 2}, {"xt", 2}};
  loff_t zero = 0;
  char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return 2;
  CALL("openat", openat(folder, "file", O_RDWR))
  CALL("openat64", openat64(folder, "file", O_RDWR))
  CALL("open relative", open("file", O_RDWR))
  CALL("open up and down", open("../folder/./file", O_RDWR))
  CALL("creat", creat("new", 0600))
  CALL("pwritev", pwritev(fd, pieces, 2, 0))
  CALL("pwritev64", pwritev64(fd, pieces, 2, 0))
  CALL("write to a dup", write(second, "text", 4))
  CALL("write to a F_DUPFD", write(third, "text", 4))
  CALL("write to a dup2", write(60, "text", 4))
  CALL("write to a dup3", write(61, "text", 4))
  CALL("copy_file_range", copy_file_range(source, &zero, fd, NULL, 4, 0))
  CALL("sendfile", sendfile(fd, source, NULL, 4))
  CALL("msync", msync(mapped, 4096, MS_SYNC))
  CALL("sync_file_range", sync_file_range(fd, 0, 4, SYNC_FILE_RANGE_WRITE))
  CALL("syncfs", syncfs(fd))
  CALL("fallocate", fallocate(fd, 0, 0, 4096))
  if (!strcmp(argv[1], "posix_fallocate")) return printf("%d", posix_fallocate(fd, 0, 4096)) < 1;
  CALL("renameat", renameat(folder, "file", folder, "renamed"))
  CALL("renameat2", renameat2(folder, "file", folder, "renamed", 0))
  CALL("linkat", linkat(folder, "file", folder, "linked", 0))
  CALL("unlinkat", unlinkat(folder, "file", 0))
  CALL("mkdirat", mkdirat(folder, "made", 0700))
  CALL("mmap", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))
  return 2;
}
`
const NATIVE_CLASSES = {
  create: ["openat", "openat64", "open relative", "open up and down", "creat"],
  write: [
    "pwritev",
    "pwritev64",
    "write to a dup",
    "write to a F_DUPFD",
    "write to a dup2",
    "write to a dup3",
    "copy_file_range",
    "sendfile",
  ],
  sync: ["msync", "sync_file_range", "syncfs"],
  truncate: ["fallocate", "posix_fallocate"],
  rename: ["renameat", "renameat2", "linkat"],
  unlink: ["unlinkat"],
  mkdir: ["mkdirat"],
}

describeWithFaults("the fault injector", () => {
  let place: string
  let folder: string
  let elsewhere: string
  let faults: Faults

  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), "dess-faults-test-"))
    folder = join(place, "folder")
    elsewhere = join(place, "folder-elsewhere")
    mkdirSync(folder)
    mkdirSync(elsewhere)
    faults = new Faults({ folder })
  })
  afterEach(() => {
    faults.close()
    rmSync(place, { recursive: true, force: true })
  })

  /** What a script pushed to `said`. */
  async function run(script: string): Promise<unknown[]> {
    const prelude = PRELUDE.replace("process.env", JSON.stringify({ FOLDER: folder, ELSEWHERE: elsewhere }))
    const { code, signal, stdout, stderr } = await runUnderFaults(faults, prelude + script)
    // LMDB says so itself when it cannot write.
    const complaints = stderr.replace(/^Write error: .*\n?/gm, "")
    expect({ code, signal, complaints }).toEqual({ code: 0, signal: null, complaints: "" })
    return JSON.parse(stdout) as unknown[]
  }

  const FILES = `
const file = folder + "/file"
fs.writeFileSync(file, "0123456789".repeat(10))
const fd = fs.openSync(file, "r+")
const directory = fs.openSync(folder, "r")
`

  for (const [name, operations] of Object.entries(OPERATIONS))
    test(`of class ${name}, every operation of Node fails when told to and works again afterwards`, async () => {
      const said = await run(`${FILES}
function listen(path) {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject).listen(path, () => server.close(resolve))
  })
}
${operations
  .map(
    (operation) => `{
  const operation = () => ${operation.startsWith("fs.promises") ? operation : `(${operation})`}
  faults.arm({ classes: ["${name}"], failAt: 1, failCount: -1, code: "ENOSPC" })
  const failing = await outcome(operation)
  faults.disarm()
  const counts = faults.counts()
  said.push([failing, counts.failed > 0 && counts.failed === counts.failedByClass["${name}"], await outcome(operation)])
}`,
  )
  .join("\n")}`)
      expect(said).toEqual(operations.map(() => ["ENOSPC", true, "done"]))
    })

  test("calls that only native code makes fail when told to", () => {
    const program = join(place, "calls")
    writeFileSync(`${program}.c`, NATIVE_CALLS)
    execFileSync("gcc", ["-o", program, `${program}.c`])
    const call = (name: string) => {
      writeFileSync(join(folder, "file"), "0".repeat(4096))
      for (const left of ["new", "renamed", "linked", "made"])
        rmSync(join(folder, left), { recursive: true, force: true })
      const { status, stdout } = spawnSync(program, [name, folder], { env: { ...process.env, ...faults.env() } })
      expect([name, status]).toEqual([name, 0])
      return Number(stdout.toString())
    }
    for (const [name, calls] of Object.entries(NATIVE_CLASSES))
      for (const native of calls) {
        // The program opens the file itself first.
        const failAt = name === "create" ? 2 : 1
        faults.arm({ classes: [name as "create"], failAt, code: "EIO" })
        expect([native, call(native)]).toEqual([native, constants.errno.EIO])
        faults.disarm()
        expect([native, call(native)]).toEqual([native, 0])
      }
    faults.arm({ classes: ["mmap"], failAt: 2, code: "ENOMEM" })
    expect(call("mmap")).toBe(constants.errno.ENOMEM)
  })

  test("every code arrives as it was given, also as a number", async () => {
    const codes = ["ENOSPC", "EROFS", "EIO", "EMFILE", "EDQUOT", "EACCES"]
    const said = await run(`${FILES}
for (const code of ${JSON.stringify([...codes, constants.errno.ENOTTY])}) {
  faults.arm({ classes: ["write"], code })
  said.push(await outcome(() => fs.writeSync(fd, "text")))
}`)
    expect(said).toEqual([...codes, "ENOTTY"])
  })

  test("what was asked for wrongly is refused", () => {
    expect(() => faults.arm({ classes: ["writes" as "write"] })).toThrow("classes: expected open,")
    expect(() => faults.arm({ code: "EVERYTHING" })).toThrow("code: expected one of errno's, got EVERYTHING")
    expect(() => faults.arm({ failAt: 0 })).toThrow("failAt: expected a count from 1, or -1, got 0")
    expect(() => faults.arm({ folder: "/" })).toThrow("folder: expected one without the control file")
    expect(() => faults.limit(-5)).toThrow("limit: expected bytes or null, got -5")
    const nowhere = new Faults()
    expect(() => nowhere.arm()).toThrow("expected a folder, got none")
    nowhere.close()
  })

  test("the n-th operation fails alone, or with those after it, and all are counted", async () => {
    const said = await run(`${FILES}
const tries = async () => {
  const outcomes = []
  for (let i = 0; i < 6; i++) outcomes.push(await outcome(() => fs.writeSync(fd, "text")))
  const { operations, failed } = faults.counts()
  said.push([outcomes.map((text) => (text === "done" ? "." : "x")).join(""), operations, failed])
}
for (const [failAt, failCount] of [[3, 1], [3, 2], [3, -1], [1, 1], [7, -1], [-1, -1]]) {
  faults.arm({ classes: ["write", "sync"], failAt, failCount })
  await tries()
}
faults.arm({ classes: ["write", "sync"], failAt: 2, failCount: 1 })
said.push(await outcome(() => fs.fsyncSync(fd)), await outcome(() => fs.ftruncateSync(fd)), await outcome(() => fs.fsyncSync(fd)))
said.push(faults.counts().matchedByClass)
`)
    expect(said).toEqual([
      ["..x...", 6, 1],
      ["..xx..", 6, 2],
      ["..xxxx", 6, 4],
      ["x.....", 6, 1],
      ["......", 6, 0],
      ["......", 6, 0],
      "done",
      "done",
      "EIO",
      { ...Object.fromEntries(CLASSES.map((name) => [name, 0])), sync: 2, truncate: 1 },
    ])
  })

  test("a short write writes half, then writes fail, and afterwards the file is as long as was said", async () => {
    const said = await run(`${FILES}
fs.ftruncateSync(fd, 0)
const pieces = ["abc", "def", "ghij"].map((text) => Buffer.from(text))
for (const write of [() => fs.writeSync(fd, "abcdefghij"), () => fs.writevSync(fd, pieces)]) {
  faults.arm({ classes: ["write"], failAt: 2, failCount: 2, code: "ENOSPC", shortWrite: true })
  const written = []
  for (let i = 0; i < 5; i++)
    try {
      written.push(write())
    } catch (error) {
      written.push(error.code)
    }
  said.push(written)
}
faults.arm({ classes: ["sync"], failCount: 1, shortWrite: true })
said.push(await outcome(() => fs.fsyncSync(fd)))
faults.arm({ classes: ["write"], failCount: 2, code: "ENOSPC", shortWrite: true })
said.push(await outcome(() => fs.writeFileSync(file, "whole")), fs.readFileSync(file, "utf8"))
`)
    // The first that fails is libuv's: it tries the rest of a short write at once and keeps the error to itself.
    const written = [10, 5, "ENOSPC", 10, 10]
    expect(said).toEqual([written, written, "EIO", "ENOSPC", "wh"])
  })

  test("a disk of so many bytes fills up, refuses, and takes more when there is room again", async () => {
    const said = await run(`${FILES}
faults.limit(25)
const write = () => {
  try {
    return fs.writeSync(fd, "0123456789")
  } catch (error) {
    return error.code
  }
}
said.push([write(), write(), write(), write(), faults.counts().freeBytes])
fs.writeFileSync(elsewhere + "/file", "much more than that, but elsewhere")
said.push(fs.statSync(elsewhere + "/file").size)
faults.limit(12)
said.push([write(), write(), write(), faults.counts().freeBytes])
faults.limit(null)
said.push([write(), write(), faults.counts().freeBytes])
`)
    expect(said).toEqual([[10, 10, 5, "ENOSPC", 0], 34, [10, 2, "ENOSPC", 0], [10, 10, null]])
  })

  test("while it is calm nothing fails, whatever is armed or full, and afterwards it does", async () => {
    const said = await run(`${FILES}
const write = () => outcome(() => fs.writeSync(fd, "0123456789"))
faults.limit(0)
faults.arm({ classes: ["sync"], code: "EIO" })
const both = async () => [await write(), await outcome(() => fs.fsyncSync(fd))]
said.push(await both())
faults.setCalm(true)
said.push(await both())
faults.setCalm(false)
said.push(await both())
`)
    expect(said).toEqual([
      ["ENOSPC", "EIO"],
      ["done", "done"],
      ["ENOSPC", "EIO"],
    ])
  })

  test("nothing fails outside the folder, whose name others only begin with", async () => {
    const said = await run(`
fs.symlinkSync(folder, elsewhere + "/way-in")
fs.symlinkSync(elsewhere, folder + "/way-out")
const pipe = createServer((socket) => socket.pipe(socket)).listen(elsewhere + "/echo.sock")
await sleep(20)
faults.arm({ classes: ["open", "create", "write", "sync", "truncate", "rename", "unlink", "mkdir", "bind", "read"] })
for (const there of [elsewhere, folder + "/way-out", folder + "/../folder-elsewhere"])
  said.push(
    await outcome(async () => {
      fs.mkdirSync(there + "/made")
      fs.writeFileSync(there + "/made/file", "text")
      const fd = fs.openSync(there + "/made/file", "r+")
      fs.fsyncSync(fd)
      fs.ftruncateSync(fd)
      fs.closeSync(fd)
      fs.readFileSync(there + "/made/file")
      fs.renameSync(there + "/made/file", there + "/made/other")
      fs.rmSync(there + "/made", { recursive: true })
      await new Promise((resolve, reject) => {
        const server = createServer().on("error", reject).listen(there + "/own.sock", () => server.close(resolve))
      })
    }),
  )
said.push(faults.counts().failed)
said.push(await outcome(() => new Promise((resolve, reject) => connect(elsewhere + "/echo.sock").on("error", reject).once("data", resolve).write("text"))))
said.push(await outcome(() => fs.mkdirSync(elsewhere + "/way-in/made")), await outcome(() => fs.writeFileSync(elsewhere + "/way-in/file", "")))
process.chdir(elsewhere)
said.push(await outcome(() => fs.mkdirSync("../folder/made")), await outcome(() => fs.mkdirSync("folder")))
process.exit()
`)
    expect(said).toEqual(["done", "done", "done", 0, "done", "EIO", "EIO", "EIO", "done"])
  })

  test("threads that write at once fail exactly as often as told", async () => {
    const said = await run(`
faults.arm({ classes: ["write"], failAt: 101, failCount: 50 })
const work = \`
import * as fs from "node:fs"
import { workerData as path, parentPort } from "node:worker_threads"
const fd = fs.openSync(path, "w")
let failed = 0
for (let i = 0; i < 100; i++)
  try {
    fs.writeSync(fd, "text")
  } catch {
    failed++
  }
parentPort.postMessage(failed)
\`
const failures = await Promise.all(
  [1, 2, 3, 4].map(
    (n) =>
      new Promise((resolve, reject) =>
        new Worker(work, { eval: true, workerData: folder + "/" + n }).on("message", resolve).on("error", reject),
      ),
  ),
)
said.push(failures.reduce((sum, failed) => sum + failed), faults.counts().operations, faults.counts().failed)
`)
    expect(said).toEqual([50, 400, 50])
  })

  test("a process is changed from outside while it runs, and so are those it starts", async () => {
    const script = `${PRELUDE.replace("process.env", JSON.stringify({ FOLDER: folder, ELSEWHERE: elsewhere }))}
import { spawnSync } from "node:child_process"
const write = () => outcome(() => fs.writeFileSync(folder + "/file", "text"))
const child = () => spawnSync(process.execPath, ["-e", "fs.writeFileSync(process.argv[1], 'text')", folder + "/file"]).status
said.push(await write(), child())
fs.writeFileSync(elsewhere + "/ready", "")
while (fs.existsSync(elsewhere + "/ready")) await sleep(5)
said.push(await write(), child())
`
    const { stdout } = await runUnderFaults(faults, script, async () => {
      while (!statSync(join(elsewhere, "ready"), { throwIfNoEntry: false }))
        await new Promise((resolve) => setTimeout(resolve, 5))
      faults.arm({ code: "EROFS" })
      rmSync(join(elsewhere, "ready"))
    })
    expect(JSON.parse(stdout)).toEqual(["done", 0, "EROFS", 1])
    expect(faults.counts()).toMatchObject({ processes: 3, failed: 2 })
  })

  test("the wall clock moves, the monotonic one and timers do not", async () => {
    const said = await run(`
const day = 86_400_000
let [wall, monotonic] = [Date.now(), performance.now()]
for (const offset of [day, -day, 1500, -1500, 0]) {
  faults.setClock(offset)
  await sleep(10)
  const moved = Date.now() - wall - offset
  const passed = performance.now() - monotonic
  said.push(moved >= 0 && moved < 30_000, passed > 0 && passed < 30_000, Math.abs(new Date().getTime() - Date.now()) < 1000)
}
faults.setClock(10 * day)
const lock = new Int32Array(new SharedArrayBuffer(4))
const before = performance.now()
Atomics.wait(lock, 0, 0, 50)
said.push(performance.now() - before < 30_000)
`)
    expect(said).toEqual(Array.from({ length: 16 }, () => true))
  })

  test("without a control file, and with one that arms nothing, a process does what it would do anyway", async () => {
    const { FAULTS_CONTROL: control, ...preload } = faults.env()
    const script = `fs.writeFileSync(${JSON.stringify(join(folder, "file"))}, "text")`
    expect(spawnSync(process.execPath, ["-e", script], { env: { ...process.env, ...preload } }).status).toBe(0)
    expect(faults.counts().processes).toBe(0)
    const under = { env: { ...process.env, ...preload, FAULTS_CONTROL: control } }
    expect(spawnSync(process.execPath, ["-e", script], under).status).toBe(0)
    expect(readFileSync(join(folder, "file"), "utf8")).toBe("text")
    expect(faults.counts()).toMatchObject({ processes: 1, failed: 0 })
    const missing = spawnSync(process.execPath, ["-e", script], {
      env: { ...process.env, ...preload, FAULTS_CONTROL: "no" },
    })
    expect(missing.signal).toBe("SIGABRT")
    expect(missing.stderr.toString()).toContain("faults: expected a control file at FAULTS_CONTROL, got no")
  })
})
