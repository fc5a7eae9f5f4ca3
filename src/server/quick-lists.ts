/**
 * Plain requests for a user's list (`GET /v1/users/:id/recommendations`, with `count` and `offset` at most) are answered
 * here, before Fastify, whose part takes longer than the answer. Every check is the same. What is not plain, or is to be refused, is
 * handed on to Fastify, which checks it again and says why.
 */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http"
import type { RecommendationList, RecommendOptions, ServedRecommender } from "../engine/types.ts"
import { answeredStatus } from "./admission.ts"
import type { Guard } from "./api-keys.ts"
import { SECURITY_HEADERS } from "./headers.ts"
import type { Metrics } from "./metrics.ts"
import { checkHost, checkOrigin } from "./origin.ts"
import { hasUnreadBody } from "./request-body.ts"
import { LIMITS } from "./schemas.ts"

export const LIST_PATH = "/v1/users/:id/recommendations"

export interface QuickListOptions {
  recommender(): ServedRecommender
  state(): string
  guard: Guard
  /** Whether there are keys. */
  isKeyed: boolean
  metrics: Metrics
  /** The most requests under way at a time. */
  requests: number
  /** Called for a request that had the key it needs. */
  onTrusted(request: IncomingMessage): void
}

interface Asked {
  user: string
  options: RecommendOptions
}

const HEADERS = Object.entries({ ...SECURITY_HEADERS, "content-type": "application/json; charset=utf-8" }).flatMap(
  ([name, value]) => [name, String(value)],
)

/** Answers plain requests for lists, and hands on all others. */
export function answerLists(context: QuickListOptions, next: RequestListener): RequestListener {
  return (request, response) => {
    const asked = request.method === "GET" ? parseListUrl(request.url ?? "") : undefined
    if (!asked || !admits(context, request)) return next(request, response)
    let recommender: ServedRecommender
    try {
      recommender = context.recommender()
    } catch {
      return next(request, response)
    }
    const { metrics } = context
    const started = performance.now()
    metrics.active++
    recommender.recommend(asked.user, asked.options).then(
      (list) => {
        metrics.active--
        response.once("close", () => {
          const seconds = (performance.now() - started) / 1000
          metrics.record({ method: "GET", route: LIST_PATH, status: answeredStatus(response), seconds })
        })
        sendList(response, list)
      },
      () => {
        metrics.active--
        next(request, response)
      },
    )
  }
}

/** Whether a request passes every check. */
function admits({ state, isKeyed, guard, metrics, requests, onTrusted }: QuickListOptions, request: IncomingMessage) {
  const { headers } = request
  if (headers.origin !== undefined || hasUnreadBody(request)) return false
  if (metrics.active >= requests || state() !== "learning") return false
  try {
    checkHost(request)
    checkOrigin(headers, isKeyed)
    guard(headers, "read")
  } catch {
    return false
  }
  onTrusted(request)
  return true
}

function sendList(response: ServerResponse, list: RecommendationList): void {
  const body = JSON.stringify(list)
  const headers = [...HEADERS, "content-length", String(Buffer.byteLength(body))]
  for (const [name, value] of listHeaders(list)) headers.push(name, value)
  response.writeHead(200, headers)
  response.end(body)
}

/** Says which list it is, and of which variant, where lists are counted. */
export function listHeaders({ id, variant }: RecommendationList): [name: string, value: string][] {
  const headers: [string, string][] = []
  if (id !== undefined) headers.push(["dess-list", id])
  if (variant !== undefined) headers.push(["dess-variant", encodeURIComponent(variant)])
  return headers
}

const URL_FORM = /^\/v1\/users\/([^/?#;]+)\/recommendations(?:\?([a-z0-9=&]*))?$/
const NUMBER_FORM = /^(count|offset)=(0|[1-9]\d{0,3})$/

/** Undefined for what has another form. */
export function parseListUrl(url: string): Asked | undefined {
  const parts = URL_FORM.exec(url)
  if (!parts) return undefined
  const options: RecommendOptions = {}
  for (const one of parts[2] ? parts[2].split("&") : []) {
    const pair = NUMBER_FORM.exec(one) as [string, "count" | "offset", string] | null
    if (!pair || options[pair[1]] !== undefined) return undefined
    options[pair[1]] = Number(pair[2])
  }
  const { count = 1 } = options
  if (count < 1 || count > 1000) return undefined
  const user = decode(parts[1])
  return user === undefined || user.length > LIMITS.idCharacters ? undefined : { user, options }
}

function decode(text: string): string | undefined {
  if (!text.includes("%")) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
