/**
 * Prometheus metrics: of the requests, and of the recommender as its status has it. Not by prom-client: all but the
 * requests is read from the status when asked for, which needs no registry, and loading it takes 50 ms and 2 MB.
 */

import type { ExperimentRate, ExperimentsView, Status } from "../engine/types.ts"
import { SIDES, type Side } from "../types.ts"

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

/** Of one method of a route. */
interface Series {
  labels: string
  /** By bucket. */
  counts: number[]
  sum: number
  /** How many had a status. */
  answers: Map<number, number>
}

export class Metrics {
  /** By route, then by method. */
  readonly #series = new Map<string, Map<string, Series>>()
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
    const series = this.#seriesOf(route, method)
    series.answers.set(status, (series.answers.get(status) ?? 0) + 1)
    let bucket = 0
    while (seconds > BOUNDS[bucket]) bucket++
    series.counts[bucket]++
    series.sum += seconds
    if (!long) this.#recent[this.#recorded++ % RECENT] = 1000 * seconds
  }

  #seriesOf(route: string, method: string): Series {
    const methods = this.#series.get(route) ?? new Map<string, Series>()
    const known = methods.get(method)
    if (known) return known
    const labels = `method="${method}",route="${route}"`
    const series = { labels, counts: new Array(BOUNDS.length + 1).fill(0), sum: 0, answers: new Map() }
    this.#series.set(route, methods.set(method, series))
    return series
  }

  /** Milliseconds the last requests took, those that last left out; null before the first. */
  latency(): { p50: number; p99: number } | null {
    const count = Math.min(this.#recorded, RECENT)
    if (count === 0) return null
    const sorted = this.#recent.slice(0, count).sort()
    return { p50: sorted[Math.floor(0.5 * count)], p99: sorted[Math.floor(0.99 * count)] }
  }

  /** The text of /metrics; without a status while the recommender starts. */
  text(status: Status | undefined, experiments?: ExperimentsView | undefined): string {
    const page = new Page()
    page.gauge("dess_connections", "Open connections.", this.#connections())
    page.gauge("dess_requests_active", "Requests under way.", this.active)
    page.gauge("dess_request_body_bytes", "Bytes of the bodies under way.", this.heldBytes)
    const all = [...this.#series.values()].flatMap((methods) => [...methods.values()])
    const answers = all.flatMap(({ labels, answers }) =>
      Array.from(answers, ([status, count]): Row => [`${labels},status="${status}"`, count]),
    )
    page.counter("dess_requests_total", "Requests answered.", answers)
    page.head("dess_request_seconds", "histogram", "Time to answer.")
    for (const { labels, counts, sum } of all) {
      let total = 0
      counts.forEach((count, b) => {
        total += count
        page.line("dess_request_seconds_bucket", `${labels},le="${BOUNDS[b] ?? "+Inf"}"`, total)
      })
      page.line("dess_request_seconds_sum", labels, sum)
      page.line("dess_request_seconds_count", labels, total)
    }
    const { user, system } = process.cpuUsage()
    page.counter("process_cpu_seconds_total", "Processor time, all threads.", (user + system) / 1e6)
    page.gauge("process_resident_memory_bytes", "Resident memory.", process.memoryUsage.rss())
    if (status) addStatus(page, status)
    if (experiments) addExperiments(page, experiments)
    return page.text
  }
}

function addExperiments(page: Page, { variants, differences }: ExperimentsView): void {
  const lists = variants.flatMap(({ name, lists }) =>
    lists.map((list) => ({ ...list, labels: `list="${list.kind}",variant=${JSON.stringify(name)}` })),
  )
  for (const measure of ["impressions", "clicks", "conversions", "outcomes"] as const) {
    const rows = lists.map((list): Row => [list.labels, list[measure]])
    if (rows.length > 0) page.counter(`dess_list_${measure}_total`, WHAT_OF_LISTS[measure], rows)
  }
  const rates = lists.flatMap((list) =>
    RATES.map((rate) => ({ ...list[`${rate}Rate`], labels: `${list.labels},rate="${rate}"` })),
  )
  addRates(page, rates, { name: "dess_list_rate", help: "Per list given" })
  const against = differences.map(({ variant, against, rate, ...found }) => ({
    ...found,
    labels: `variant=${JSON.stringify(variant)},against=${JSON.stringify(against)},rate="${rate}"`,
  }))
  addRates(page, against, {
    name: "dess_list_rate_difference",
    help: "To the first variant's rate of recommended lists",
  })
}

/** Rates with both ends of their intervals of 95 %, as far as there is enough to tell them. */
function addRates(
  page: Page,
  rates: readonly (ExperimentRate & { labels: string })[],
  { name, help }: { name: string; help: string },
): void {
  const add = (end: keyof ExperimentRate, suffix: string, what: string) => {
    const rows = rates.flatMap((rate): Row[] => (rate[end] === null ? [] : [[rate.labels, rate[end]]]))
    if (rows.length > 0) page.gauge(`${name}${suffix}`, `${help}${what}.`, rows)
  }
  add("estimate", "", "")
  add("low", "_low", ", lower end of the interval of 95 %")
  add("high", "_high", ", upper end of the interval of 95 %")
}

const RATES = ["click", "conversion", "outcome"] as const

const WHAT_OF_LISTS = {
  impressions: "Lists given.",
  clicks: "Events that name a list.",
  conversions: "Conversions that name a list.",
  outcomes: "Conversions of the variant's users.",
}

function addStatus(page: Page, status: Status): void {
  const { state, replay, events, users, items, memory, freshness, journal, snapshot, cluster, last } = status
  page.gauge("dess_up", "1 while the recommender learns.", Number(state === "learning"))
  page.gauge("dess_refusing", "1 while the disk takes no writes.", Number(state === "refusing"))
  page.gauge("dess_replaying", "1 while the journal is replayed.", Number(state === "replaying"))
  page.gauge("dess_replayed_events", "Events of the journal learned again so far.", replay?.events)
  page.gauge("dess_replayed_ratio", "Of what is to be learned again.", replay?.share)
  page.gauge("dess_replay_remaining_seconds", "At the rate so far.", seconds(replay?.remaining))
  page.gauge("dess_erasures_pending", "Users whose removal is noted and not done.", status.erasures?.pending)
  page.counter("dess_events_accepted_total", "Events accepted since the directory was created.", events.accepted)
  page.counter("dess_events_learned_total", "Events learned.", events.learned)
  page.counter("dess_events_duplicate_total", "Events whose key was known, since the start.", events.duplicates)
  page.gauge("dess_queue_events", "Events accepted and not yet learned.", events.queue)
  page.counter("dess_segments_total", "Segments closed.", status.segments)
  page.gauge("dess_ids_known", "Ids known.", sides({ user: users.known, item: items.known }))
  page.gauge("dess_ids_held", "Ids in the model.", sides({ user: users.held, item: items.held }))
  page.gauge("dess_items_hidden", "Items that are never recommended.", items.hidden)
  page.gauge("dess_memory_budget_bytes", "What may grow with ids.", memory.budget)
  const parts = Object.entries({ ...memory.parts, fixed: memory.fixed }).map(
    ([part, bytes]): Row => [`part="${part}"`, bytes],
  )
  page.gauge("dess_memory_bytes", "What the process holds, by what it is for.", parts)
  page.gauge("dess_held_bytes", "What the tables hold.", memory.heldBytes)
  page.gauge("dess_embedding_bytes", "Of it, embeddings.", memory.embeddingBytes)
  const rows = SIDES.flatMap((side) =>
    Object.entries(memory.sizes[side]).map(([size, count]): Row => [`side="${side}",size="${size}"`, count]),
  )
  page.gauge("dess_rows", "Rows of each size.", rows)
  page.counter("dess_ids_shrunk_total", "Steps of size taken from ids.", sides(memory.shrunk))
  page.counter("dess_ids_left_total", "Ids that left the model.", sides(memory.left))
  const fresh: Row[] | null = freshness && [
    [`quantile="0.5"`, freshness.p50 / 1000],
    [`quantile="0.99"`, freshness.p99 / 1000],
  ]
  page.gauge("dess_freshness_seconds", "From acceptance to visibility in lists, recent versions.", fresh)
  page.gauge("dess_journal_events", "Events a start would replay.", journal?.events)
  page.gauge("dess_journal_bytes", "Size of the store.", journal?.bytes)
  const failing = journal && Number(status.snapshotFailure !== undefined)
  page.gauge("dess_snapshot_failing", "1 while the snapshot that was due cannot be written.", failing)
  page.gauge("dess_snapshot_timestamp_seconds", "When the last was taken.", seconds(snapshot?.time))
  page.gauge("dess_cluster_partitions", "Partitions of the cluster.", cluster?.partitions)
  page.gauge("dess_cluster_partitions_owned", "Partitions with a trainer.", cluster?.owned)
  const lost = "Acknowledged events lost with a master, as far as this process can tell."
  page.counter("dess_cluster_events_lost_total", lost, cluster?.lost)
  page.counter("dess_cluster_failures_total", "Commands Redis did not answer.", cluster?.failures)
  page.gauge("dess_cluster_updates_age_seconds", "Since updates of items were last read.", seconds(cluster?.updatesAge))
  page.gauge("dess_train_loss", "Of the last segment.", last?.trainLoss)
  page.gauge("dess_loss", "Of the last segment, before learning it.", last?.loss)
  page.gauge("dess_accuracy", "Of the last segment.", last?.accuracy)
  page.gauge("dess_recall", "Of the last segment.", last?.recall)
  page.gauge("dess_ndcg", "Of the last segment.", last?.ndcg)
  page.gauge("dess_regret", "Of the policy, so far.", sides(last?.regret))
  page.gauge("dess_mean_size", "Numbers per id.", sides(last?.meanSize))
}

function seconds(milliseconds: number | null | undefined): number | undefined {
  return typeof milliseconds === "number" ? milliseconds / 1000 : undefined
}

function sides(value: Record<Side, number> | null | undefined): Row[] | undefined {
  return value
    ? [
        [`side="user"`, value.user],
        [`side="item"`, value.item],
      ]
    : undefined
}

type Row = [labels: string, value: number]
/** One number, or one for each set of labels; a metric that has neither is left out. */
type Value = number | Row[] | null | undefined

/** The text format of Prometheus. */
class Page {
  text = ""

  head(name: string, type: string, help: string): void {
    this.text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
  }

  line(name: string, labels: string, value: number): void {
    this.text += `${name}${labels === "" ? "" : `{${labels}}`} ${value}\n`
  }

  gauge(name: string, help: string, value: Value): void {
    this.#add(name, "gauge", help, value)
  }

  counter(name: string, help: string, value: Value): void {
    this.#add(name, "counter", help, value)
  }

  #add(name: string, type: string, help: string, value: Value): void {
    if (value === null || value === undefined) return
    this.head(name, type, help)
    const rows: Row[] = typeof value === "number" ? [["", value]] : value
    for (const [labels, count] of rows) this.line(name, labels, count)
  }
}
