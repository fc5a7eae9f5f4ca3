/** A Postgres server of the tests' own, from Debian's package. */

import { execFileSync } from "node:child_process"
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
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
  start(): void
  /** As a power failure would. */
  kill(): void
  remove(): void
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

/** The server refuses to run as root. */
function run(program: string, args: readonly string[]): void {
  const path = join(programs() ?? "", program)
  const isRoot = process.getuid?.() === 0
  const [command, words] = isRoot ? ["runuser", ["-u", "postgres", "--", path, ...args]] : [path, [...args]]
  execFileSync(command, words, { stdio: ["ignore", "ignore", "pipe"], cwd: tmpdir(), timeout: 60_000 })
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function startPostgres(): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), "dess-postgres-"))
  if (process.getuid?.() === 0) {
    const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, "postgres"], { encoding: "utf8" })))
    chownSync(folder, uid, gid)
  }
  chmodSync(folder, 0o700)
  const data = join(folder, "data")
  run("initdb", ["-D", data, "-A", "trust", "-U", "shop", "--no-sync", "-E", "UTF8"])
  const port = await freePort()
  const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${folder} -c fsync=off -c shared_buffers=4MB -c wal_level=minimal -c max_wal_senders=0`
  const start = () => run("pg_ctl", ["-D", data, "-w", "-l", join(folder, "log"), "-o", options, "start"])
  const kill = () => run("pg_ctl", ["-D", data, "-m", "immediate", "stop"])
  start()
  return {
    url: `postgres://shop@127.0.0.1:${port}/postgres`,
    start,
    kill,
    remove() {
      try {
        kill()
      } finally {
        rmSync(folder, { recursive: true, force: true })
      }
    },
  }
}
