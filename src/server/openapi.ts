/**
 * OpenAPI 3.1 of the routes: their schemas are JSON Schema already. Not by @fastify/swagger: it would have to be given
 * all that is said here, as one more schema of each route.
 */

import type { TSchema } from "typebox"
import type { Route } from "./route.ts"
import * as schema from "./schemas.ts"

type Shape = { properties?: Record<string, TSchema>; required?: string[] }

export function describeApi(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const one of routes) {
    const path = one.path.replace(/:(\w+)/g, "{$1}")
    paths[path] ??= {}
    paths[path][one.method.toLowerCase()] = describeRoute(one)
  }
  return {
    openapi: "3.1.0",
    info: { title: "dess", version: "1", description: "A streaming recommender that learns from every event." },
    paths,
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        key: { type: "apiKey", in: "header", name: "X-API-Key" },
      },
      schemas: { Problem: schema.Problem },
    },
    tags: [
      { name: "native", description: "The API of dess." },
      { name: "gorse", description: "What clients of Gorse call." },
      { name: "operations", description: "For those who run the service." },
    ],
  }
}

function describeRoute(one: Route): object {
  const { params, query, body, gives, access, type = "application/json" } = one
  const json = body && { "application/json": { schema: body } }
  return {
    operationId: nameOf(one),
    tags: [one.tag],
    summary: one.summary,
    ...(access === "open" ? {} : { security: [{ bearer: [] }, { key: [] }], "x-access": access }),
    parameters: [
      ...parameters(params, "path").filter(({ name }) => one.path.includes(`:${name}`)),
      ...parameters(query, "query"),
    ],
    ...(json
      ? {
          requestBody: {
            required: true,
            content: { ...json, ...(one.lines ? { "application/x-ndjson": { schema: schema.Event } } : {}) },
          },
        }
      : {}),
    responses: {
      200: { description: "Done.", content: { [type.split(";")[0]]: { schema: gives } } },
      default: {
        description:
          "Refused: 400 what came, 401 and 403 the key, 404 the id, 413 the size, 429 and 503 try again later.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Problem" } } },
      },
    },
  }
}

function parameters(given: TSchema | undefined, place: "path" | "query") {
  const { properties = {}, required = [] } = (given ?? {}) as Shape
  return Object.entries(properties).map(([name, one]) => ({
    name,
    in: place,
    required: place === "path" || required.includes(name),
    schema: one,
  }))
}

/** get /v1/users/:id → getV1UsersId */
function nameOf({ method, path }: Route): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== "")
  return method.toLowerCase() + words.map((word) => word[0].toUpperCase() + word.slice(1)).join("")
}
