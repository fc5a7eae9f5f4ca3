/** The service as a Fastify application: every route behind the same checks. */

import { setMaxListeners } from "node:events"
import type { IncomingMessage } from "node:http"
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify"
import { show } from "../errors.ts"
import { Admission } from "./admission.ts"
import { type ApiKeys, createGuard } from "./api-keys.ts"
import { Connections } from "./connections.ts"
import type { FeedbackOptions } from "./gorse/feedback.ts"
import { gorseRoutes } from "./gorse/routes.ts"
import { PAGE_POLICY, SECURITY_HEADERS } from "./headers.ts"
import { CONNECTION_LIMITS, type ConnectionLimits } from "./limits.ts"
import { Metrics } from "./metrics.ts"
import { nativeRoutes, type RouteContext } from "./native.ts"
import { onOneMachine } from "./one-machine.ts"
import { operationRoutes } from "./operations.ts"
import { checkHost, checkOrigin } from "./origin.ts"
import { readPageFiles } from "./page-files.ts"
import { describeError, Refusal, sendProblem } from "./problem.ts"
import { answerLists } from "./quick-lists.ts"
import { refuseUnreadable } from "./raw-answers.ts"
import { DEEPEST, describeRefusedJson, hasUnreadBody, isTooDeep, LINE_TYPES, mediaType } from "./request-body.ts"
import { methodsOf, type Route } from "./route.ts"
import { compileValidator } from "./validate.ts"

export interface AppOptions extends Pick<RouteContext, "recommender"> {
  keys: ApiKeys
  /** Maximum bytes of a body that is not a stream. */
  bodyBytes: number
  /** Maximum number of requests under way. */
  requests: number
  limits?: Partial<ConnectionLimits> | undefined
  /** Without it, Gorse's routes are not served. */
  gorse: FeedbackOptions | undefined
  /** Folder of the dashboard. */
  page?: string | undefined
  /** State of the recommender, or "starting"; sent with answers while it is not learning. */
  state(): string
  /** Called with every error that is not the caller's fault. */
  onError(error: unknown, where: string): void
}

export function createApp(options: AppOptions): FastifyInstance {
  const { keys, bodyBytes, onError } = options
  const limits = { ...CONNECTION_LIMITS, ...options.limits }
  const connections = new Connections(limits)
  const metrics = new Metrics(() => connections.size)
  const guard = createGuard(keys)
  const isKeyed = keys.read !== undefined || keys.write !== undefined
  const { recommender, state, requests } = options
  const trust = ({ socket }: IncomingMessage) => connections.trust(socket)
  const lists = { recommender, state, guard, isKeyed, metrics, requests, onTrusted: trust }
  const app = fastify({
    bodyLimit: bodyBytes,
    serverFactory: (handler) => connections.serve(answerLists(lists, handler)),
    // Longer names get an error of their own instead of 404.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    exposeHeadRoutes: false,
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: (error, _request, reply) => void sendProblem(reply as FastifyReply, error),
  })
  const stop = new AbortController()
  // As many as there are requests under way.
  setMaxListeners(0, stop.signal)
  const context: RouteContext = {
    recommender,
    stopping: stop.signal,
    guard,
    latency: () => metrics.latency(),
    streamLimits: limits,
  }

  app.setValidatorCompiler(compileValidator as never)
  app.setSerializerCompiler(() => (value) => JSON.stringify(value))
  app.addContentTypeParser(LINE_TYPES, (_request, payload, done) => done(null, payload))
  const parseJson = app.getDefaultJsonParser("error", "error")
  app.addContentTypeParser("application/json", { parseAs: "string" }, (request, body, done) => {
    const text = body as string
    // Many clients send this type with every request, even without a body.
    if (text === "" && request.routeOptions.schema?.body === undefined) return done(null, undefined)
    if (isTooDeep(text))
      return done(
        new Refusal(
          400,
          "INVALID_DATA",
          `body: expected at most ${DEEPEST} arrays and objects within each other, got more`,
        ),
      )
    parseJson(request, text, (error, value) =>
      error ? done(new Refusal(400, "BAD_REQUEST", describeRefusedJson(text))) : done(null, value),
    )
  })
  // Some clients send a PUT without a body as a form.
  app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "buffer" }, (_request, body, done) =>
    body.length === 0
      ? done(null, undefined)
      : done(new Refusal(415, "BAD_REQUEST", "body: expected application/json, got a form")),
  )
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(SECURITY_HEADERS)
    const now = state()
    if (now !== "learning") reply.header("dess-state", now)
    checkHost(request.raw)
    checkOrigin(request.headers, isKeyed)
    // Here, not in a handler of its own, which would read the whole body first.
    if (request.is404) refuseUnknown(request, reply, routes)
  })
  app.addHook("preClose", async () => {
    stop.abort()
    connections.stop()
  })
  app.setErrorHandler((error, request, reply) => {
    admission.refused(request)
    if (describeError(error).log) onError(error, `${request.method} ${request.routeOptions.url ?? "?"}`)
    return sendProblem(reply, error)
  })

  const gorse = options.gorse
    ? gorseRoutes({ ...context, recommender: () => onOneMachine(recommender(), "Gorse's routes") }, options.gorse)
    : []
  const api = [...nativeRoutes(context), ...gorse]
  const admission = new Admission({
    guard,
    metrics,
    requests,
    bodyBytes,
    onTrusted: ({ raw }) => trust(raw),
  })
  const routes = [...api, ...operationRoutes(context, metrics, api)]
  for (const route of routes) addRoute(app, route, admission)
  addPage(app, options.page)
  return app
}

/** Refuses an unknown path or method. */
function refuseUnknown({ method, url }: FastifyRequest, reply: FastifyReply, routes: readonly Route[]): never {
  const [path] = url.split("?")
  const allowed = methodsOf(path, routes)
  if (allowed.length === 0)
    throw new Refusal(404, "NOT_FOUND", `path: expected one that /openapi.json describes, got ${show(path)}`)
  reply.header("allow", allowed.join(", "))
  throw new Refusal(405, "BAD_REQUEST", `method: expected ${allowed.join(" or ")} for this path, got ${method}`)
}

function addRoute(app: FastifyInstance, route: Route, admission: Admission): void {
  const { method, path: url, params, query, body, lines = false, long = false, type, handle } = route
  const schema = { ...(params && { params }), ...(query && { querystring: query }), ...(body && { body }) }
  app.route({
    method,
    url,
    // Load balancers use HEAD; an endless stream has none.
    exposeHeadRoute: method === "GET" && !long,
    schema,
    onRequest: async (request, reply) => admission.admit(route, request, reply),
    preValidation: async (request) => {
      if (!lines && LINE_TYPES.includes(mediaType(request.headers)))
        throw new Refusal(415, "BAD_REQUEST", "body: expected application/json, got JSON lines")
    },
    handler: async (request, reply) => {
      const call = {
        params: request.params as never,
        query: request.query as never,
        body: request.body as never,
        request,
        reply,
      }
      const answer = await admission.work(route, request, () => handle(call))
      if (reply.sent) return reply
      if (hasUnreadBody(request.raw)) reply.header("connection", "close")
      return reply.type(type ?? "application/json; charset=utf-8").send(answer)
    },
  })
}

function addPage(app: FastifyInstance, folder: string | undefined): void {
  for (const { path, type, tag, bytes } of folder === undefined ? [] : readPageFiles(folder))
    app.get(path, { exposeHeadRoute: true }, async (request, reply) => {
      reply.headers({ "content-security-policy": PAGE_POLICY, "cache-control": "no-cache", etag: tag })
      if (request.headers["if-none-match"] === tag) return reply.code(304).send()
      return reply.type(type).send(bytes)
    })
}
