/** A route as a record: input, output and permission. Registration, checks and OpenAPI all read it. */

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Static, TSchema } from "typebox"

export type Access = "open" | "read" | "write"

/** One request with its parts checked. */
export interface Call<P extends TSchema, Q extends TSchema, B extends TSchema> {
  params: Static<P>
  query: Static<Q>
  body: Static<B>
  request: FastifyRequest
  reply: FastifyReply
}

export interface RouteOf<P extends TSchema, Q extends TSchema, B extends TSchema> {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** With `:name` for a part. */
  path: string
  tag: "native" | "gorse" | "operations"
  summary: string
  access: Access
  params?: P
  query?: Q
  body?: B
  /** Schema of the body of a 200. */
  gives: TSchema
  /** Content type of a 200, if it is not JSON. */
  type?: string
  /** Long-lived: neither counted among the requests under way nor timed. */
  long?: boolean
  /** It may take long: all such requests together get half of the places, so that they never block the others. */
  slow?: boolean
  /** Also takes a body of JSON lines, as a stream, which is slow. */
  lines?: boolean
  /** The answer, or undefined when it was sent. */
  handle(call: Call<P, Q, B>): unknown
}

export type Route = RouteOf<TSchema, TSchema, TSchema>

/** A route whose handler sees the types of its schemas. */
export function route<P extends TSchema, Q extends TSchema, B extends TSchema>(record: RouteOf<P, Q, B>): Route {
  return record as unknown as Route
}

/** The methods a path has. */
export function methodsOf(path: string, routes: readonly Route[]): string[] {
  const parts = path.replace(/\/$/, "").split("/")
  const found = new Set<string>()
  for (const { method, path: pattern, long } of routes) {
    const wanted = pattern.split("/")
    const fits = wanted.length === parts.length && wanted.every((part, i) => part.startsWith(":") || part === parts[i])
    if (!fits) continue
    found.add(method)
    if (method === "GET" && !long) found.add("HEAD")
  }
  return [...found]
}
