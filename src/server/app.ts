/** The service as a Fastify application: every route behind the same checks. */

import { setMaxListeners } from "node:events"
import type { Server } from "node:http"
import { type FastifyInstance, type FastifyReply, fastify } from "fastify"
import { show } from "../errors.ts"
import { type Admission, createAdmission, LINE_TYPES, mediaType } from "./admission.ts"
import { gorseRoutes } from "./gorse.ts"
import type { FeedbackOptions } from "./gorse-feedback.ts"
import { PAGE_POLICY, SECURITY_HEADERS } from "./headers.ts"
import { type ApiKeys, createGuard } from "./keys.ts"
import { Metrics } from "./metrics.ts"
import { nativeRoutes, type Surroundings } from "./native.ts"
import { operationRoutes } from "./operations.ts"
import { checkOrigin } from "./origin.ts"
import { readPageFiles } from "./page-files.ts"
import { describeError, Refusal, sendProblem } from "./problem.ts"
import { refuseOddities, refuseUnreadable } from "./raw-answers.ts"
import { methodsOf, type Route } from "./route.ts"
import { compileValidator } from "./validate.ts"

export interface AppOptions extends Pick<Surroundings, "recommender" | "notes"> {
  keys: ApiKeys
  /** The most a body that is not a stream may have. */
  bodyBytes: number
  /** The most requests under way at a time. */
  requests: number
  /** Left out: Gorse's routes are not served. */
  gorse: FeedbackOptions | undefined
  /** Folder of the dashboard. */
  page?: string | undefined
  /** Told of every error that is not the caller's. */
  onError(error: unknown, where: string): void
}

const MOST_CONNECTIONS = 2000

export function createApp(options: AppOptions): FastifyInstance {
  const { keys, bodyBytes, onError } = options
  const app = fastify({
    bodyLimit: bodyBytes,
    // Longer names are told so, not lost.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // A stream of lines may last; a connection on which nothing moves may not.
    requestTimeout: 0,
    connectionTimeout: 120_000,
    keepAliveTimeout: 72_000,
    exposeHeadRoutes: false,
    clientErrorHandler: refuseUnreadable,
    frameworkErrors: (error, _request, reply) => void sendProblem(reply as FastifyReply, error),
  })
  app.server.maxConnections = MOST_CONNECTIONS
  refuseOddities(app.server as Server)
  const stop = new AbortController()
  // As many as there are requests under way.
  setMaxListeners(0, stop.signal)
  const metrics = new Metrics()
  const guard = createGuard(keys)
  const { recommender, notes } = options
  const surroundings: Surroundings = {
    recommender,
    notes,
    stopping: stop.signal,
    guard,
    latency: () => metrics.latency(),
  }

  app.setValidatorCompiler(compileValidator as never)
  app.setSerializerCompiler(() => (value) => JSON.stringify(value))
  app.addContentTypeParser(LINE_TYPES, (_request, payload, done) => done(null, payload))
  // Some clients call a PUT without a body a form.
  app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "buffer" }, (_request, body, done) =>
    body.length === 0
      ? done(null, undefined)
      : done(new Refusal(415, "BAD_REQUEST", "body: expected application/json, got a form")),
  )
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(SECURITY_HEADERS)
    checkOrigin(request.headers, keys.read !== undefined || keys.write !== undefined)
  })
  app.addHook("preClose", async () => stop.abort())
  app.setNotFoundHandler(({ method, url }, reply) => {
    const [path] = url.split("?")
    const allowed = methodsOf(path, routes)
    if (allowed.length === 0)
      return sendProblem(
        reply,
        new Refusal(404, "NOT_FOUND", `path: expected one that /openapi.json describes, got ${show(path)}`),
      )
    reply.header("allow", allowed.join(", "))
    return sendProblem(
      reply,
      new Refusal(405, "BAD_REQUEST", `method: expected ${allowed.join(" or ")} for this path, got ${method}`),
    )
  })
  app.setErrorHandler((error, request, reply) => {
    if (describeError(error).status >= 500 && describeError(error).status !== 503)
      onError(error, `${request.method} ${request.routeOptions.url ?? "?"}`)
    return sendProblem(reply, error)
  })

  const gorse = options.gorse ? gorseRoutes(surroundings, options.gorse) : []
  const api = [...nativeRoutes(surroundings), ...gorse]
  const admit = createAdmission({ guard, metrics, requests: options.requests, bodyBytes })
  const routes = [...api, ...operationRoutes(surroundings, metrics, api)]
  for (const route of routes) addRoute(app, route, admit)
  addPage(app, options.page)
  return app
}

function addRoute(app: FastifyInstance, route: Route, admit: Admission): void {
  const { method, path: url, params, query, body, lines = false, long = false, type, handle } = route
  const schema = { ...(params && { params }), ...(query && { querystring: query }), ...(body && { body }) }
  app.route({
    method,
    url,
    // What balancers ask with; a stream that does not end has no head of its own.
    exposeHeadRoute: method === "GET" && !long,
    schema,
    onRequest: async (request, reply) => admit(route, request, reply),
    preValidation: async (request) => {
      if (!lines && LINE_TYPES.includes(mediaType(request)))
        throw new Refusal(415, "BAD_REQUEST", "body: expected application/json, got JSON lines")
    },
    handler: async (request, reply) => {
      const answer = await handle({
        params: request.params as never,
        query: request.query as never,
        body: request.body as never,
        request,
        reply,
      })
      if (reply.sent) return reply
      return reply.type(type ?? "application/json; charset=utf-8").send(answer)
    },
  })
}

function addPage(app: FastifyInstance, folder: string | undefined): void {
  for (const { path, type, tag, bytes } of folder === undefined ? [] : readPageFiles(folder))
    app.get(path, async (request, reply) => {
      reply.headers({ "content-security-policy": PAGE_POLICY, "cache-control": "no-cache", etag: tag })
      if (request.headers["if-none-match"] === tag) return reply.code(304).send()
      return reply.type(type).send(bytes)
    })
}
