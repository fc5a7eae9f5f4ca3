/**
 * The connection to a Redis or Valkey Cluster: the official client behind one method, `send`, with a time limit, and
 * built again when it has lost its way. What comes back is bytes. Everything sent twice must be harmless.
 */

import { setMaxListeners } from "node:events"
import type { RedisClusterType } from "redis"
import { DessError, missingPackage, show } from "../errors.ts"

export type Argument = string | Buffer

/** Bytes, numbers, nothing, and lists of them. */
export type Reply = Buffer | number | null | Reply[]

export interface RedisOptions {
  /** redis://[user:password@]host:port, several with commas between them. */
  url: string
  /** Where to reach a node whose announced address cannot be (host:port → host:port). */
  addresses?: Readonly<Record<string, string>> | undefined
  /** Milliseconds a command may take. */
  timeout?: number | undefined
}

type Package = typeof import("redis")
type None = Record<never, never>
type ClusterClient = RedisClusterType<None, None, None, 2>

const OLDEST = [7, 0]
const SLOTS = 16_384

/** Trying again in a moment does not help. */
export class LastingOutage extends DessError {
  constructor(message: string, options?: ErrorOptions) {
    super("UNAVAILABLE", message, options)
  }
}

export class Redis {
  readonly #package: Package
  readonly #options: RedisOptions
  readonly #timeout: number
  readonly #roots: URL[]
  #client: Promise<ClusterClient> | undefined
  #current: ClusterClient | undefined
  readonly #sockets = new WeakMap<ClusterClient, AbortController>()
  #closed = false
  /** Commands that failed for want of a connection. */
  failures = 0

  private constructor(client: Package, options: RedisOptions) {
    this.#package = client
    this.#options = options
    this.#timeout = options.timeout ?? 2000
    this.#roots = parseUrls(options.url)
  }

  /** Connects, and refuses what is no cluster, too old, incomplete, or would throw rows away. */
  static async open(options: RedisOptions): Promise<Redis> {
    const redis = new Redis(await loadPackage(), options)
    await redis.#check()
    return redis
  }

  /** One command in the slot of a key. */
  async send(key: string, args: Argument[], readonly = false): Promise<Reply> {
    const client = await this.#connected()
    try {
      return await this.#within(client.sendCommand<Reply>(key, readonly, args, this.#commandOptions()))
    } catch (error) {
      throw this.#translate(error, client)
    }
  }

  /**
   * One write, and how many replicas have it within a time. WAIT speaks of the writes of its own connection: both go
   * down the same one, together, and a redirection of one of them is a failure of both.
   */
  async sendAndWait(key: string, args: Argument[], wait: { replicas: number; milliseconds: number }) {
    const client = await this.#connected()
    try {
      const node = await client.getNodeClientForKey(key, false)
      const [reply, reached] = await this.#within(
        Promise.all([
          node.sendCommand<Reply>(args, this.#commandOptions()),
          node.sendCommand(["WAIT", String(wait.replicas), String(wait.milliseconds)]),
        ]),
      )
      return { reply, reached: Number(reached) }
    } catch (error) {
      throw this.#translate(error, client)
    }
  }

  #commandOptions() {
    const { BLOB_STRING, SIMPLE_STRING, BIG_NUMBER, DOUBLE } = this.#package.RESP_TYPES
    return {
      typeMapping: { [BLOB_STRING]: Buffer, [SIMPLE_STRING]: Buffer, [BIG_NUMBER]: String, [DOUBLE]: Number },
    }
  }

  /** One command at every master; texts. */
  async everywhere(args: Argument[]): Promise<{ node: string; reply: string }[]> {
    const client = await this.#connected()
    try {
      return await Promise.all(
        client.masters.map(async (master) => {
          const node = await client.nodeClient(master)
          return { node: master.address, reply: String(await this.#within(node.sendCommand(args))) }
        }),
      )
    } catch (error) {
      throw this.#translate(error, client)
    }
  }

  async #within<T>(work: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${this.#timeout} ms`)), this.#timeout)
    })
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
      work.catch(() => {})
    }
  }

  async #connected(): Promise<ClusterClient> {
    if (this.#closed) throw new DessError("CLOSED", "cluster: expected an open connection, it was closed")
    this.#client ??= this.#connect().catch((error) => {
      this.#client = undefined
      throw this.#translate(error)
    })
    return this.#client
  }

  async #connect(): Promise<ClusterClient> {
    // The client leaves a socket open that was being opened when it was destroyed; the signal ends all of them.
    const sockets = new AbortController()
    setMaxListeners(0, sockets.signal)
    const client = this.#package.createCluster({
      RESP: 2,
      rootNodes: this.#roots.map((root) => ({ url: root.href })),
      defaults: {
        ...this.#credentials(),
        disableOfflineQueue: true,
        // Fails at once: then everything is rebuilt, not this connection alone. One silent address leaves time for another.
        socket: {
          connectTimeout: this.#timeout / 2,
          reconnectStrategy: false,
          signal: sockets.signal,
          ...(this.#roots[0].protocol === "rediss:" && { tls: true as const }),
        },
      },
      nodeAddressMap: (address: string) => this.#mapped(address),
      // A node is connected to when it is asked: one that is down must not keep the others from answering.
      minimizeConnections: true,
      maxCommandRedirections: 4,
    })
    client.on("error", () => {})
    this.#sockets.set(client, sockets)
    try {
      await this.#within(client.connect())
      this.#current = client
      return client
    } catch (error) {
      this.#end(client)
      throw error
    }
  }

  #end(client: ClusterClient): void {
    destroy(client)
    this.#sockets.get(client)?.abort()
  }

  #credentials() {
    const { username, password } = this.#roots[0]
    return {
      ...(username === "" ? {} : { username: decodeURIComponent(username) }),
      ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    }
  }

  #mapped(address: string): { host: string; port: number } | undefined {
    const to = this.#options.addresses?.[address]
    if (to === undefined) return undefined
    const at = to.lastIndexOf(":")
    return { host: to.slice(0, at), port: Number(to.slice(at + 1)) }
  }

  /** After an error of the connection it is rebuilt, once; every error gets a message. */
  #translate(error: unknown, client?: ClusterClient): Error {
    if (error instanceof DessError) return error
    const message = error instanceof Error ? error.message : String(error)
    if (message.startsWith("OOM"))
      return new LastingOutage(
        "cluster memory: expected room for what is written, Redis is full (OOM); raise its maxmemory or add nodes, then try again: nothing was lost",
        { cause: error },
      )
    if (/^(WRONGPASS|NOAUTH|NOPERM|ERR AUTH)|invalid (username-)?password/i.test(message))
      return new DessError(
        "INVALID_ARGUMENT",
        `--cluster password: expected one that Redis accepts (redis://user:password@host), got: ${message}`,
        { cause: error },
      )
    if (/^(NOSCRIPT|ERR|WRONGTYPE|EXECABORT)/.test(message) && !/unknown node|disconnect/i.test(message))
      return error as Error
    this.failures++
    if (client !== undefined && client === this.#current) this.#rebuild()
    return new DessError("UNAVAILABLE", `cluster: expected Redis to answer, got: ${message}; try again`, {
      cause: error,
    })
  }

  #rebuild(): void {
    const old = this.#client
    this.#client = undefined
    this.#current = undefined
    old?.then(
      (client) => this.#end(client),
      () => {},
    )
  }

  async #check(): Promise<void> {
    const found = await this.#askRoot()
    const info = new Map(found.info.split("\r\n").map((line) => line.split(":", 2) as [string, string]))
    const version = info.get("redis_version") ?? "unknown"
    const [major, minor] = version.split(".").map(Number)
    if (!(major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])))
      throw new DessError(
        "UNSUPPORTED",
        `--cluster: expected Redis ${OLDEST.join(".")} or newer, or Valkey, got ${version}`,
      )
    if (info.get("cluster_enabled") !== "1")
      throw new DessError(
        "INVALID_ARGUMENT",
        `--cluster: expected a Redis Cluster, ${this.#roots[0].host} is a single server; set cluster-enabled yes in its redis.conf and create a cluster`,
      )
    const policy = info.get("maxmemory_policy") ?? "noeviction"
    if (policy !== "noeviction")
      throw new DessError(
        "INVALID_ARGUMENT",
        `Redis maxmemory-policy: expected noeviction, got ${policy}, which would throw rows away; set it in redis.conf`,
      )
    const covered = /cluster_slots_ok:(\d+)/.exec(found.cluster)?.[1]
    if (Number(covered) !== SLOTS)
      throw new DessError(
        "UNAVAILABLE",
        `--cluster: expected all ${SLOTS} slots to be served, got ${covered}; redis-cli --cluster fix <host:port> assigns the missing ones`,
      )
  }

  async #askRoot(): Promise<{ info: string; cluster: string }> {
    let last: unknown
    for (const root of this.#roots) {
      const client = this.#package.createClient({
        RESP: 2,
        url: root.href,
        disableOfflineQueue: false,
        socket: { connectTimeout: this.#timeout, reconnectStrategy: false },
      })
      client.on("error", () => {})
      try {
        await this.#within(client.connect())
        const info = String(await this.#within(client.sendCommand(["INFO"])))
        const cluster = info.includes("cluster_enabled:1")
          ? String(await this.#within(client.sendCommand(["CLUSTER", "INFO"])))
          : ""
        return { info, cluster }
      } catch (error) {
        last = error
      } finally {
        destroy(client)
      }
    }
    const failure = this.#translate(last)
    if (failure instanceof DessError && failure.code === "INVALID_ARGUMENT") throw failure
    const hosts = this.#roots.map(({ host }) => host).join(", ")
    const reason = last instanceof Error && last.message !== "" ? last.message : failure.message
    throw new DessError("UNAVAILABLE", `--cluster: expected a Redis at ${hosts}, got: ${reason}`, {
      cause: last,
    })
  }

  close(): void {
    this.#closed = true
    this.#rebuild()
  }
}

function destroy(client: { destroy(): void }): void {
  try {
    client.destroy()
  } catch {
    // It was closed already.
  }
}

async function loadPackage(): Promise<Package> {
  try {
    return await import("redis")
  } catch (cause) {
    throw missingPackage("cluster", "redis", cause)
  }
}

function parseUrls(text: string): URL[] {
  return text.split(",").map((part) => {
    let url: URL
    try {
      url = new URL(part.trim())
      if (url.protocol === "redis:" || url.protocol === "rediss:") return url
    } catch {
      // falls through to the refusal
    }
    throw new DessError("INVALID_ARGUMENT", `--cluster: expected redis://host:port, got ${show(part)}`)
  })
}
