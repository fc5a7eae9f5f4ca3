/**
 * Next item (method.md §9, protocol "next"): every event after a cut in time is predicted from all events before it, the
 * user's own included, learned or not. All items seen so far are ranked, without those the user has met. A user's first
 * event is not predicted.
 *
 *   frozen   what was learned stays as at the cut, histories go on
 *   online   every n events are learned after they were predicted
 *
 * The cut is the quantile of the events' times, with all events of that very time before it.
 */

import { DessError } from "../errors.ts"
import { History } from "../ids/history.ts"
import { State } from "../kernels/state.ts"
import { rankingQuality } from "../models/paper/ranking.ts"
import { emptyBatch } from "../stream/columns.ts"
import type { Stream } from "../stream/stream.ts"
import type { InteractionBatch, Segment } from "../types.ts"
import type { Ranker } from "./learner.ts"
import { Run } from "./loop.ts"
import { Mean } from "./metrics.ts"
import { type RunOptions, withDefaults } from "./options.ts"
import { bestUnmet } from "./ranked.ts"
import type { NextQuality, RunResult, SegmentReport } from "./report.ts"
import type { UserScores } from "./user-scores.ts"

/** Events between two reports while lists are made. */
const REPORT = 500

export async function* runNext(
  stream: Stream,
  options: RunOptions,
): AsyncGenerator<SegmentReport, RunResult, boolean | undefined> {
  const { segment: length, limit, cut: share, every, core, k } = withDefaults(options)
  const events = keepCore(await readAll(stream, limit ?? Number.POSITIVE_INFINITY), core)
  const cut = cutAt(events.timestamp, share)
  const run = new Run(options, stream.features)
  try {
    const history = new History()
    let report: SegmentReport | undefined
    for (let from = 0; from < cut; from += length) {
      const rows = segmentOf(events, from, Math.min(cut, from + length))
      report = run.step(rows, { unmeasured: true })
      history.add(rows.user, rows.item)
      if (yield report) return run.result()
    }
    if (!report) throw new DessError("INVALID_DATA", "protocol next: expected events before the cut, got none")
    const popular = history.byPopularity()
    const common = new Set(popular.slice(0, Math.ceil(popular.length / 5)))
    const measure = (past: History, learned: number) =>
      new NextMeasure(run, {
        ...{ events, cut, k, history: past, common, every: learned },
        ...(learned > 0 && options.userScores ? { userScores: options.userScores } : {}),
      })
    const frozen = measure(copyOf(history), 0)
    while (frozen.advance(REPORT)) if (yield report) return run.result()
    run.learner.unobserve?.()
    const online = measure(history, every)
    while (online.advance(REPORT)) if (yield report) return run.result()
    const quality = online.quality()
    const { users, items } = countIds(events)
    const next = {
      events: events.length,
      users,
      items,
      targets: online.targets,
      every,
      frozen: frozen.quality(),
      online: quality,
    }
    return { ...run.result(), recall: quality.hr, ndcg: quality.ndcg, next }
  } finally {
    run.close()
  }
}

interface MeasureOptions {
  events: InteractionBatch
  cut: number
  k: number
  /** Counts of everything before the cut; later events are added. */
  history: History
  /** The most popular items at the cut. */
  common: ReadonlySet<number>
  /** 0: nothing is learned. */
  every: number
  userScores?: UserScores
}

/** Predicts the events after the cut. */
class NextMeasure {
  readonly #run: Run
  readonly #options: MeasureOptions
  readonly #means = { hr: new Mean(), ndcg: new Mean(), mrr: new Mean() }
  readonly #users = new Map<number, { hr: Mean; ndcg: Mean; mrr: Mean }>()
  readonly #listed = new Set<number>()
  #places = 0
  #tail = 0
  #at: number
  #learned: number
  /** Of what is learned and of the items seen; until one of them changes. */
  #ranking: Ranker | undefined
  #ranked = 0
  targets = 0

  constructor(run: Run, options: MeasureOptions) {
    this.#run = run
    this.#options = options
    this.#at = options.cut
    this.#learned = options.cut
  }

  /** Moves on by at most this many events; false at the end. */
  advance(count: number): boolean {
    const { events, every, history } = this.#options
    const { learner } = this.#run
    const end = Math.min(events.length, this.#at + count)
    for (; this.#at < end; this.#at++) {
      const [user, item] = [events.user[this.#at], events.item[this.#at]]
      if (history.of(user).length > 0) this.#predict(user, item)
      history.add([user], [item])
      if (every > 0 && this.#at + 1 - this.#learned >= every) {
        this.#release()
        this.#run.step(segmentOf(events, this.#learned, this.#at + 1), { unmeasured: true })
        this.#learned = this.#at + 1
      } else learner.observe?.(user, item)
    }
    if (this.#at < events.length) return true
    this.#release()
    return false
  }

  #rank(): Ranker {
    const { seen } = this.#options.history
    if (this.#ranking && this.#ranked === seen.length) return this.#ranking
    this.#release()
    this.#ranking = this.#run.learner.rank(seen)
    this.#ranked = seen.length
    return this.#ranking
  }

  #release(): void {
    this.#ranking?.release()
    this.#ranking = undefined
  }

  #predict(user: number, item: number): void {
    const { history, k, common } = this.#options
    const list = bestUnmet(this.#rank(), { history, user, k })
    for (const listed of list) {
      this.#listed.add(listed)
      if (!common.has(listed)) this.#tail++
    }
    this.#places += list.length
    this.targets++
    const rank = list.indexOf(item)
    const { recall, ndcg } = rankingQuality(list, new Set([item]), k)
    this.#options.userScores?.add(user, recall, ndcg)
    const own = this.#users.get(user) ?? { hr: new Mean(), ndcg: new Mean(), mrr: new Mean() }
    this.#users.set(user, own)
    for (const means of [this.#means, own]) {
      means.hr.add(recall)
      means.ndcg.add(ndcg)
      means.mrr.add(rank < 0 ? 0 : 1 / (rank + 1))
    }
  }

  quality(): NextQuality {
    const { hr, ndcg, mrr } = this.#means
    const users = { hr: new Mean(), ndcg: new Mean(), mrr: new Mean() }
    for (const own of this.#users.values())
      for (const name of ["hr", "ndcg", "mrr"] as const) users[name].add(own[name].value)
    const { length } = this.#options.history.seen
    return {
      ...{ hr: hr.value, ndcg: ndcg.value, mrr: mrr.value },
      users: { hr: users.hr.value, ndcg: users.ndcg.value, mrr: users.mrr.value },
      coverage: length === 0 ? 0 : this.#listed.size / length,
      tail: this.#places === 0 ? 0 : this.#tail / this.#places,
    }
  }
}

async function readAll(stream: Stream, limit: number): Promise<InteractionBatch> {
  const parts: InteractionBatch[] = []
  let length = 0
  for await (const batch of stream.batches()) {
    const rows = Math.min(batch.length, limit - length)
    parts.push(rowsOf(batch, 0, rows))
    length += rows
    if (length === limit) break
  }
  const all = emptyBatch(length)
  let at = 0
  for (const part of parts) {
    for (const name of ["user", "item", "rating", "timestamp"] as const) all[name].set(part[name], at)
    at += part.length
  }
  return all
}

function rowsOf(batch: InteractionBatch, from: number, to: number): InteractionBatch {
  return {
    length: to - from,
    user: batch.user.subarray(from, to),
    item: batch.item.subarray(from, to),
    rating: batch.rating.subarray(from, to),
    timestamp: batch.timestamp.subarray(from, to),
  }
}

function segmentOf(events: InteractionBatch, from: number, to: number): Segment {
  return { ...rowsOf(events, from, to), index: 0, trainLength: to - from }
}

/** The events of users and items that have `core` of them or more, among these, and no pair twice in a row of its user. */
export function keepCore(events: InteractionBatch, core: number): InteractionBatch {
  if (core === 1) return events
  let rows = Array.from(events.user, (_, r) => r)
  for (let before = -1; before !== rows.length; ) {
    before = rows.length
    const [users, items] = [new Map<number, number>(), new Map<number, number>()]
    for (const r of rows) {
      users.set(events.user[r], (users.get(events.user[r]) ?? 0) + 1)
      items.set(events.item[r], (items.get(events.item[r]) ?? 0) + 1)
    }
    rows = rows.filter((r) => (users.get(events.user[r]) ?? 0) >= core && (items.get(events.item[r]) ?? 0) >= core)
  }
  const last = new Map<number, number>()
  rows = rows.filter((r) => {
    const repeated = last.get(events.user[r]) === events.item[r]
    last.set(events.user[r], events.item[r])
    return !repeated
  })
  return {
    length: rows.length,
    user: Int32Array.from(rows, (r) => events.user[r]),
    item: Int32Array.from(rows, (r) => events.item[r]),
    rating: Float32Array.from(rows, (r) => events.rating[r]),
    timestamp: Float64Array.from(rows, (r) => events.timestamp[r]),
  }
}

/** How many events are not later than the quantile of their times, which are in order. */
export function cutAt(times: Float64Array, share: number): number {
  if (times.length === 0) return 0
  const place = share * (times.length - 1)
  const low = Math.floor(place)
  const high = Math.min(low + 1, times.length - 1)
  const time = times[low] + (place - low) * (times[high] - times[low])
  let cut = high
  while (cut > 0 && times[cut - 1] > time) cut--
  while (cut < times.length && times[cut] <= time) cut++
  return cut
}

function countIds({ user, item }: InteractionBatch): { users: number; items: number } {
  return { users: new Set(user).size, items: new Set(item).size }
}

function copyOf(history: History): History {
  const [state, copy] = [new State(), new History()]
  history.save(state)
  copy.load(state)
  return copy
}
