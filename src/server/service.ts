/** The running service: listens at once, takes up its directory, serves, and stops without losing what it acknowledged. */

import { setTimeout as wait } from "node:timers/promises"
import { Recommender } from "../engine/open.ts"
import type { ReplayProgress, ServedRecommender, Status } from "../engine/types.ts"
import { DessError } from "../errors.ts"
import { createApp } from "./app.ts"
import { type Configuration, recommenderOptions, sourceOptions } from "./configuration.ts"
import { createDemoFeed } from "./demo-feed.ts"
import type { ConnectionLimits } from "./limits.ts"
import { isOnOneMachine, onOneMachine } from "./one-machine.ts"
import { followPostgres } from "./postgres-source.ts"
import { withoutPaths } from "./problem.ts"

/** What a disk says that may take more in a while. */
const PASSING = new Set(["ENOSPC", "EDQUOT", "EROFS", "EIO", "EMFILE", "ENFILE"])
/** Milliseconds between two tries to make a directory, and between two looks at whether writing is refused. */
const TRY_AGAIN = 2000
const WATCH = 1000

export interface Service {
  /** Where it listens. */
  url: string
  /** Resolves when the recommender has taken up its directory; refuses when it cannot. */
  ready: Promise<void>
  state(): Status["state"] | "starting"
  /** Answers what is under way, learns what was accepted, writes a snapshot. Idempotent. */
  stop(): Promise<void>
}

export interface ServiceOptions extends Configuration {
  /** Folder of the dashboard. */
  page?: string | undefined
  limits?: Partial<ConnectionLimits> | undefined
  /** Opens the recommender to serve; by default that of the settings' directory. */
  open?: (() => Promise<ServedRecommender>) | undefined
  onError(error: unknown, where: string): void
  /** Called with what an operator may want to know. */
  say?: ((text: string) => void) | undefined
  /** Called while the journal is replayed. */
  onReplay?: ((progress: ReplayProgress) => void) | undefined
}

export async function startService(options: ServiceOptions): Promise<Service> {
  const { settings, keys, bodyBytes, onError } = options
  const { host, port, demo, rate } = settings
  const feed = demo ? createDemoFeed() : undefined
  const engineOptions = recommenderOptions(feed ? { ...settings, features: [...feed.features] } : settings)
  let recommender: ServedRecommender | undefined
  /** Why it has not been opened yet. */
  let obstacle: string | undefined
  const state = () => recommender?.state ?? "starting"
  const app = createApp({
    recommender() {
      if (recommender) return recommender
      throw new DessError(
        "CLOSED",
        obstacle ?? "recommender: expected it to be ready, got one that is still starting; try again in a moment",
      )
    },
    state,
    keys,
    bodyBytes,
    requests: settings.requestLimit,
    limits: options.limits,
    gorse: options.open
      ? undefined
      : {
          // A type that has a weight goes by that.
          readTypes: settings.gorseReadTypes.filter((type) => !Object.hasOwn(engineOptions.types ?? {}, type)),
          negative: engineOptions.scale?.min ?? 0,
        },
    page: options.page,
    onError,
  })
  const url = await app.listen({ host, port }).catch((error: NodeJS.ErrnoException) => {
    throw new DessError("INVALID_ARGUMENT", `address: expected a free one, got ${error.code} (${host}:${port})`, {
      cause: error,
    })
  })
  const leaving = new AbortController()
  // Lists are given from the snapshot while the journal is replayed.
  const own = () =>
    untilThereIsRoom(
      () =>
        Recommender.open({ ...engineOptions, replay: "behind", onReplay: options.onReplay, signal: leaving.signal }),
      {
        signal: leaving.signal,
        onObstacle(error) {
          if (obstacle === undefined) onError(error, "start")
          obstacle = `${withoutPaths(error.message)}; it is tried again by itself`
        },
      },
    )
  const opened: Promise<ServedRecommender> = options.open ? options.open() : own()
  let feeding: Promise<void> = Promise.resolve()
  let following: Promise<void> = Promise.resolve()
  let watch: NodeJS.Timeout | undefined
  const ready = opened.then(async (live) => {
    recommender = live
    if (isOnOneMachine(live)) await live.caughtUp()
    const { damaged = [], built, state, reason = "" } = live.status()
    if (state === "refusing") onError(new DessError("CLOSED", reason), "start")
    watch = setInterval(tellFailures(live, onError), WATCH).unref()
    for (const text of damaged) onError(new DessError("INVALID_DATA", text), "start")
    if (built) onError(new DessError("UNSUPPORTED", describeBuilt(built)), "start")
    if (leaving.signal.aborted) return
    const source = sourceOptions(settings)
    const { signal } = leaving
    if (source)
      following = followPostgres(onOneMachine(live, "source"), {
        ...source,
        signal,
        onError: (error) => onError(error, "postgres"),
        say: options.say,
      }).catch((error) => onError(error, "postgres"))
    if (!feed) return
    const place = settings.directory ?? (settings.cluster && "the cluster")
    const kept = place ? `; its users and items stay in ${place}, use another for yours` : ""
    feeding = feed.run(live, { rate, signal, say: (text) => options.say?.(`${text}${kept}`) }).catch((error) => {
      if (!signal.aborted) onError(error, "demo")
    })
  })
  // Those who wait for it get the error; an unhandled rejection would end the process.
  ready.catch(() => {})

  let stopping: Promise<void> | undefined
  const stop = async () => {
    leaving.abort()
    clearInterval(watch)
    if (recommender && isOnOneMachine(recommender)) recommender.suspendErasures()
    // A connection that was busy when closing began would stay open for its next request.
    const idle = setInterval(() => app.server.closeIdleConnections(), 100)
    await app.close().finally(() => clearInterval(idle))
    await Promise.all([feeding, following])
    await opened.then(
      (live) => live.close(),
      () => {},
    )
  }
  return {
    url,
    ready,
    state,
    stop() {
      stopping ??= stop()
      return stopping
    },
  }
}

/** Opens a directory that a full or failing disk does not let be made, as soon as it does. */
async function untilThereIsRoom(
  open: () => Promise<Recommender>,
  { signal, onObstacle }: { signal: AbortSignal; onObstacle: (error: DessError) => void },
): Promise<Recommender> {
  for (;;) {
    try {
      return await open()
    } catch (error) {
      if (!(error instanceof DessError) || signal.aborted) throw error
      if (!PASSING.has((error.cause as NodeJS.ErrnoException | undefined)?.code ?? "")) throw error
      onObstacle(error)
      await wait(TRY_AGAIN, undefined, { signal }).catch(() => {
        throw error
      })
    }
  }
}

/** Says when writing is refused or snapshots fail, once for each cause, and when it works again. */
function tellFailures(live: ServedRecommender, onError: ServiceOptions["onError"]): () => void {
  let reported = live.state
  let cause: string | undefined
  return () => {
    const { snapshotFailure } = live.status()
    if (snapshotFailure !== cause) {
      const text = snapshotFailure ?? "snapshot: they are written again"
      const advice = snapshotFailure === undefined ? "" : "; nothing is lost without it, it is tried again by itself"
      onError(new DessError("UNAVAILABLE", `${text}${advice}`), "snapshot")
      cause = snapshotFailure
    }
    if (live.state === reported) return
    if (live.state === "refusing") onError(new DessError("CLOSED", live.status().reason ?? ""), "disk")
    else if (reported === "refusing") onError(new DessError("CLOSED", "writing: it is taken up again"), "disk")
    reported = live.state
  }
}

function describeBuilt({ version, learning }: { version: string; learning: string }): string {
  return `state: expected one that this build learned, got one of dess ${version} (learning ${learning}), which learns differently; it goes on from there, and dess rebuild makes a state that is of one piece`
}
