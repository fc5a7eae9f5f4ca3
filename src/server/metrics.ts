/** Prometheus metrics: of the requests, and of the recommender as its status has it. */

import type { Status } from "../engine/types.ts"
import type { Side } from "../types.ts"

/** Upper bounds in seconds. */
const BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 10]

/** Requests whose time is remembered one by one. */
const RECENT = 1000

interface Answered {
  method: string
  route: string
  status: number
  seconds: number
  long?: boolean
}

interface Timing {
  counts: number[]
  sum: number
}

export class Metrics {
  readonly #timings = new Map<string, Timing>()
  readonly #answers = new Map<string, number>()
  /** Milliseconds of the last requests, the next to be written over. */
  readonly #recent = new Float64Array(RECENT)
  #recorded = 0
  readonly #connections: () => number
  /** Requests under way. */
  active = 0
  /** Bytes of their bodies, as far as they may be held. */
  heldBytes = 0

  constructor(connections: () => number) {
    this.#connections = connections
  }

  /** Counts an answered request. The route is its pattern, so that ids make no series. */
  record({ method, route, status, seconds, long = false }: Answered): void {
    const labels = `method="${method}",route="${route}"`
    const answered = `${labels},status="${status}"`
    this.#answers.set(answered, (this.#answers.get(answered) ?? 0) + 1)
    let timing = this.#timings.get(labels)
    if (!timing) {
      timing = { counts: new Array(BOUNDS.length + 1).fill(0), sum: 0 }
      this.#timings.set(labels, timing)
    }
    const bucket = BOUNDS.findIndex((bound) => seconds <= bound)
    timing.counts[bucket < 0 ? BOUNDS.length : bucket]++
    timing.sum += seconds
    if (!long) this.#recent[this.#recorded++ % RECENT] = 1000 * seconds
  }

  /** Milliseconds the last requests took, those that last left out; null before the first. */
  latency(): { p50: number; p99: number } | null {
    const count = Math.min(this.#recorded, RECENT)
    if (count === 0) return null
    const sorted = this.#recent.slice(0, count).sort()
    return { p50: sorted[Math.floor(0.5 * count)], p99: sorted[Math.floor(0.99 * count)] }
  }

  /** The text of /metrics; without a status while the recommender starts. */
  text(status: Status | undefined): string {
    const page = new Page()
    page.add("dess_connections", "gauge", "Open connections.", [["", this.#connections()]])
    page.add("dess_requests_active", "gauge", "Requests under way.", [["", this.active]])
    page.add("dess_request_body_bytes", "gauge", "Bytes of the bodies under way.", [["", this.heldBytes]])
    page.add("dess_requests_total", "counter", "Requests answered.", [...this.#answers])
    page.head("dess_request_seconds", "histogram", "Time to answer.")
    for (const [labels, { counts, sum }] of this.#timings) {
      let total = 0
      counts.forEach((count, b) => {
        total += count
        page.line("dess_request_seconds_bucket", `${labels},le="${BOUNDS[b] ?? "+Inf"}"`, total)
      })
      page.line("dess_request_seconds_sum", labels, sum)
      page.line("dess_request_seconds_count", labels, total)
    }
    const { user, system } = process.cpuUsage()
    page.add("process_cpu_seconds_total", "counter", "Processor time, all threads.", [["", (user + system) / 1e6]])
    page.add("process_resident_memory_bytes", "gauge", "Resident memory.", [["", process.memoryUsage.rss()]])
    if (status) addStatus(page, status)
    return page.text
  }
}

function addStatus(page: Page, status: Status): void {
  const { events, users, items, memory, freshness, journal, snapshot, last } = status
  const one = (value: number): Row[] => [["", value]]
  const sides = (value: Record<Side, number>): Row[] => [
    [`side="user"`, value.user],
    [`side="item"`, value.item],
  ]
  page.add("dess_up", "gauge", "1 while the recommender learns.", one(status.state === "learning" ? 1 : 0))
  page.add("dess_refusing", "gauge", "1 while the disk takes no writes.", one(status.state === "refusing" ? 1 : 0))
  page.add("dess_replaying", "gauge", "1 while the journal is replayed.", one(status.state === "replaying" ? 1 : 0))
  if (status.replay) {
    const { events: replayed, share, remaining } = status.replay
    page.add("dess_replayed_events", "gauge", "Events of the journal learned again so far.", one(replayed))
    page.add("dess_replayed_ratio", "gauge", "Of what is to be learned again.", one(share))
    if (remaining !== null)
      page.add("dess_replay_remaining_seconds", "gauge", "At the rate so far.", one(remaining / 1000))
  }
  if (status.erasures)
    page.add(
      "dess_erasures_pending",
      "gauge",
      "Users whose removal is noted and not done.",
      one(status.erasures.pending),
    )
  page.add(
    "dess_events_accepted_total",
    "counter",
    "Events accepted since the directory was created.",
    one(events.accepted),
  )
  page.add("dess_events_learned_total", "counter", "Events learned.", one(events.learned))
  page.add(
    "dess_events_duplicate_total",
    "counter",
    "Events whose key was known, since the start.",
    one(events.duplicates),
  )
  page.add("dess_queue_events", "gauge", "Events accepted and not yet learned.", one(events.queue))
  page.add("dess_segments_total", "counter", "Segments closed.", one(status.segments))
  page.add("dess_ids_known", "gauge", "Ids known.", sides({ user: users.known, item: items.known }))
  page.add("dess_ids_held", "gauge", "Ids in the model.", sides({ user: users.held, item: items.held }))
  page.add("dess_items_hidden", "gauge", "Items that are never recommended.", one(items.hidden))
  if (memory.budget !== null)
    page.add("dess_memory_budget_bytes", "gauge", "What the tables may hold.", one(memory.budget))
  page.add("dess_held_bytes", "gauge", "What the tables hold.", one(memory.heldBytes))
  page.add("dess_embedding_bytes", "gauge", "Of it, embeddings.", one(memory.embeddingBytes))
  const rows = (["user", "item"] as const).flatMap((side) =>
    Object.entries(memory.sizes[side]).map(([size, count]): Row => [`side="${side}",size="${size}"`, count]),
  )
  page.add("dess_rows", "gauge", "Rows of each size.", rows)
  page.add("dess_ids_shrunk_total", "counter", "Steps of size taken from ids.", sides(memory.shrunk))
  page.add("dess_ids_left_total", "counter", "Ids that left the model.", sides(memory.left))
  if (freshness)
    page.add("dess_freshness_seconds", "gauge", "From acceptance to visibility in lists, recent versions.", [
      [`quantile="0.5"`, freshness.p50 / 1000],
      [`quantile="0.99"`, freshness.p99 / 1000],
    ])
  if (journal) {
    page.add("dess_journal_events", "gauge", "Events a start would replay.", one(journal.events))
    page.add("dess_journal_bytes", "gauge", "Size of the store.", one(journal.bytes))
  }
  if (snapshot)
    page.add("dess_snapshot_timestamp_seconds", "gauge", "When the last was taken.", one(snapshot.time / 1000))
  if (status.cluster) addCluster(page, status.cluster)
  if (!last) return
  page.add("dess_train_loss", "gauge", "Of the last segment.", one(last.trainLoss))
  if (typeof last.loss === "number")
    page.add("dess_loss", "gauge", "Of the last segment, before learning it.", one(last.loss))
  if (typeof last.accuracy === "number") page.add("dess_accuracy", "gauge", "Of the last segment.", one(last.accuracy))
  if (typeof last.recall === "number") page.add("dess_recall", "gauge", "Of the last segment.", one(last.recall))
  if (typeof last.ndcg === "number") page.add("dess_ndcg", "gauge", "Of the last segment.", one(last.ndcg))
  if (last.regret) page.add("dess_regret", "gauge", "Of the policy, so far.", sides(last.regret))
  page.add("dess_mean_size", "gauge", "Numbers per id.", sides(last.meanSize))
}

function addCluster(page: Page, cluster: NonNullable<Status["cluster"]>): void {
  const { partitions, owned, lost, failures, newsAge } = cluster
  const add = (name: string, type: string, help: string, value: number) =>
    page.add(`dess_cluster_${name}`, type, help, [["", value]])
  add("partitions", "gauge", "Partitions of the cluster.", partitions)
  add("partitions_owned", "gauge", "Partitions with a trainer.", owned)
  add("events_lost_total", "counter", "Acknowledged events lost with a master, as far as this process can tell.", lost)
  add("failures_total", "counter", "Commands Redis did not answer.", failures)
  add("news_age_seconds", "gauge", "Since the items' news was heard.", newsAge / 1000)
}

type Row = [labels: string, value: number]

/** The text format of Prometheus. */
class Page {
  text = ""

  head(name: string, type: string, help: string): void {
    this.text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
  }

  line(name: string, labels: string, value: number): void {
    this.text += `${name}${labels === "" ? "" : `{${labels}}`} ${value}\n`
  }

  add(name: string, type: string, help: string, rows: Row[]): void {
    this.head(name, type, help)
    for (const [labels, value] of rows) this.line(name, labels, value)
  }
}
