/** A Postgres server of the tests' own, from Debian's package. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"
import { describe, test } from "vitest"

const VERSIONS = "/usr/lib/postgresql"

/** The folder of the newest version's programs; undefined where there is none. */
function programs(): string | undefined {
  if (!existsSync(VERSIONS)) return undefined
  const folders = readdirSync(VERSIONS).sort((a, b) => Number(b) - Number(a))
  return folders.map((version) => join(VERSIONS, version, "bin")).find((folder) => existsSync(join(folder, "initdb")))
}

export interface Postgres {
  url: string
  start(): Promise<void>
  /** kill -9 of the server's first process: the others end when they see that it is gone. */
  kill(): Promise<void>
  remove(): Promise<void>
}

/** A suite with a server. With CI=true a missing one is a failure. */
export function describeWithPostgres(name: string, body: () => void): void {
  if (programs() !== undefined) describe(name, body)
  else if (process.env.CI === "true")
    test(name, () => {
      throw new Error(`postgres: expected initdb under ${VERSIONS}, got none (apt-get install postgresql)`)
    })
  else {
    console.warn(`SKIPPED: ${name} – there is no Postgres under ${VERSIONS} (apt-get install postgresql)`)
    describe.skip(name, body)
  }
}

/** Who it runs as: it refuses to run as root. */
function user(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" })))
  return { uid, gid }
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function startPostgres(): Promise<Postgres> {
  const bin = programs() ?? ""
  const folder = mkdtempSync(join(tmpdir(), "dess-postgres-"))
  const owner = user()
  if (owner.uid !== undefined && owner.gid !== undefined) chownSync(folder, owner.uid, owner.gid)
  chmodSync(folder, 0o700)
  const data = join(folder, "data")
  const making = ["-D", data, "-A", "trust", "-U", "shop", "--no-sync", "-E", "UTF8"]
  execFileSync(join(bin, "initdb"), making, { stdio: ["ignore", "ignore", "pipe"], cwd: tmpdir(), ...owner })
  const port = await freePort()
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: folder,
    // What a killed process wrote is in the system's memory: this would help against a power failure only.
    fsync: "off",
    shared_buffers: "1MB",
    wal_level: "minimal",
    max_wal_senders: "0",
  }
  const words = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  let server: ChildProcess | undefined
  /** It does not start before the processes of the one that was killed have ended. */
  const start = async () => {
    for (let tries = 0; ; tries++) {
      const child = spawn(join(bin, "postgres"), ["-D", data, "-p", String(port), ...words], {
        ...{ stdio: ["ignore", "ignore", "pipe"], cwd: tmpdir() },
        ...owner,
      })
      let log = ""
      const ready = new Promise<void>((resolve) => {
        child.stderr?.on("data", (text) => {
          log += log.length < 10_000 ? text : ""
          if (log.includes("ready to accept")) resolve()
        })
      })
      const exit = once(child, "exit")
      server = child
      await Promise.race([ready, exit])
      if (child.exitCode === null) return
      if (tries === 200) throw new Error(log)
      await wait(20)
    }
  }
  const kill = async () => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return
    const exit = once(server, "exit")
    server.kill("SIGKILL")
    await exit
  }
  await start()
  return {
    url: `postgres://shop@127.0.0.1:${port}/postgres`,
    start,
    kill,
    async remove() {
      await kill()
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
    },
  }
}
