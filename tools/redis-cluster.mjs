/**
 * A real Redis Cluster on loopback for tests, torture and benches: three masters and three replicas, each a process with
 * a folder of its own, ended by process id. And a TCP proxy that can be cut.
 */

import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { createConnection, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createClient } from "redis"

const PROGRAM = process.env.REDIS_SERVER ?? "redis-server"
const SLOTS = 16_384

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

/** Whether there is a redis-server to start. */
export function hasRedis() {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["--version"], { stdio: "ignore" })
    child.on("error", () => resolve(false))
    child.on("exit", (code) => resolve(code === 0))
  })
}

async function freePorts(count) {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise((resolve, reject) => {
          const server = createServer()
          server.on("error", reject)
          server.listen(0, "127.0.0.1", () => resolve(server))
        }),
    ),
  )
  const ports = servers.map((server) => server.address().port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

/** One redis-server that answers. */
export async function startServer({ folder, port, bus, settings = [] }) {
  mkdirSync(folder, { recursive: true })
  const cluster = bus === undefined ? [] : ["--cluster-enabled", "yes", "--cluster-port", String(bus)]
  const fixed = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"]
  const quick = ["--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0", "--loglevel", "warning"]
  const child = spawn(PROGRAM, [...fixed, ...cluster, ...quick, ...settings], { stdio: "ignore" })
  const exited = new Promise((resolve) => child.once("exit", resolve))
  const password = settings.includes("--requirepass") ? settings[settings.indexOf("--requirepass") + 1] : undefined
  let client
  const node = {
    port,
    folder,
    pid: child.pid,
    alive: true,
    async command(args) {
      client ??= connect(port, password)
      const connected = client
      try {
        return await (await connected).sendCommand(args.map(String))
      } catch (error) {
        // An answer that is an error leaves the connection as it is.
        if (!/^[A-Z]+ /.test(error.message)) {
          client = undefined
          connected.then((one) => one.destroy()).catch(() => {})
        }
        throw error
      }
    },
    signal(name) {
      process.kill(child.pid, name)
    },
    async stop(name = "SIGKILL") {
      if (!node.alive) return
      node.alive = false
      client?.then((one) => one.destroy()).catch(() => {})
      child.kill(name)
      await exited
    },
  }
  for (let tries = 0; ; tries++) {
    try {
      await node.command(["PING"])
      return node
    } catch (error) {
      if (tries > 50) throw error
      await sleep(50)
    }
  }
}

async function connect(port, password) {
  const client = createClient({
    RESP: 2,
    url: `redis://${password ? `:${password}@` : ""}127.0.0.1:${port}`,
    socket: { reconnectStrategy: false, connectTimeout: 10_000 },
  })
  client.on("error", () => {})
  return client.connect()
}

/** Six servers as three masters with a replica each, ready for use. */
export async function startCluster({ settings = [] } = {}) {
  const root = mkdtempSync(join(tmpdir(), "dess-redis-"))
  const ports = await freePorts(12)
  const start = (n) => startServer({ folder: join(root, String(n)), port: ports[n], bus: ports[n + 6], settings })
  const nodes = await Promise.all([0, 1, 2, 3, 4, 5].map(start))
  try {
    return await form({ root, nodes, ports, start })
  } catch (error) {
    await Promise.all(nodes.map((node) => node.stop()))
    throw error
  }
}

async function form({ root, nodes, ports, start }) {
  const ids = await Promise.all(nodes.map((node) => node.command(["CLUSTER", "MYID"])))
  for (let n = 0; n < 3; n++) {
    const [from, to] = [Math.floor((n * SLOTS) / 3), Math.floor(((n + 1) * SLOTS) / 3) - 1]
    await nodes[n].command(["CLUSTER", "SET-CONFIG-EPOCH", n + 1])
    await nodes[n].command(["CLUSTER", "ADDSLOTSRANGE", from, to])
  }
  for (let n = 1; n < 6; n++) await nodes[0].command(["CLUSTER", "MEET", "127.0.0.1", ports[n], ports[n + 6]])
  await until(async () => {
    const known = await Promise.all(nodes.map((node) => node.command(["CLUSTER", "NODES"])))
    return known.every((text) => ids.every((id) => text.includes(id)) && !text.includes("handshake"))
  })
  for (let n = 3; n < 6; n++) await nodes[n].command(["CLUSTER", "REPLICATE", ids[n - 3]])
  const cluster = {
    nodes,
    url: nodes.map(({ port }) => `redis://127.0.0.1:${port}`).join(","),
    /** Starts a stopped server again, in its folder: it comes back as a replica. */
    async restart(n) {
      nodes[n] = await start(n)
    },
    /** Which servers are masters now. */
    async masters() {
      const roles = await Promise.all(
        nodes.map(async (node) => (node.alive ? String((await node.command(["ROLE"]))[0]) : "gone")),
      )
      return [0, 1, 2, 3, 4, 5].filter((n) => roles[n] === "master")
    },
    /** Resolves when a replica has taken the place of a stopped server. */
    failedOver: (n) =>
      until(async () => {
        const other = nodes.find((node, m) => m !== n && node.alive)
        const info = await other.command(["CLUSTER", "INFO"])
        return info.includes("cluster_state:ok") && (await cluster.masters()).length === 3
      }),
    healthy: () =>
      until(async () => {
        const alive = nodes.filter((node) => node.alive)
        const states = await Promise.all(alive.map((node) => node.command(["CLUSTER", "INFO"])))
        return states.every((text) => text.includes("cluster_state:ok"))
      }),
    replicated: () =>
      until(async () => {
        const infos = await Promise.all(nodes.map((node) => (node.alive ? node.command(["INFO", "replication"]) : "")))
        return (
          infos.every((text) => !text.includes("role:slave") || text.includes("master_link_status:up")) &&
          infos.filter((text) => text.includes("role:slave")).length === 3
        )
      }),
    async flush() {
      for (const n of await cluster.masters()) await nodes[n].command(["FLUSHALL"])
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.stop()))
      rmSync(root, { recursive: true, force: true })
    },
  }
  await cluster.healthy()
  await cluster.replicated()
  return cluster
}

async function until(condition, seconds = 30) {
  for (const end = Date.now() + 1000 * seconds; ; ) {
    if (await condition().catch(() => false)) return
    if (Date.now() > end) throw new Error(`redis cluster: expected it to be ready within ${seconds} s`)
    await sleep(100)
  }
}

/** Forwards a port of its own to another one until it is cut; then nothing gets through, and nothing is closed. */
export async function startProxy(target) {
  const pairs = new Set()
  let cut = false
  const server = createServer((near) => {
    const far = createConnection({ host: "127.0.0.1", port: target })
    const pair = [near, far]
    pairs.add(pair)
    for (const [a, b] of [
      [near, far],
      [far, near],
    ]) {
      a.on("data", (chunk) => {
        if (!cut) b.write(chunk)
      })
      a.on("error", () => {})
      a.on("close", () => {
        b.destroy()
        pairs.delete(pair)
      })
    }
  })
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    port: server.address().port,
    cut() {
      cut = true
    },
    /** Lets new connections through; the old ones, which missed bytes, are closed. */
    mend() {
      cut = false
      for (const pair of pairs) for (const socket of pair) socket.destroy()
    },
    stop() {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
      server.close()
    },
  }
}

/** Asks again while the cluster cannot answer: a busy machine, or a master that is being replaced, may be late. */
export async function patiently(action) {
  for (;;) {
    try {
      return await action()
    } catch (error) {
      if (error.code !== "UNAVAILABLE") throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
