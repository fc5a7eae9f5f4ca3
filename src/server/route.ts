/** A route as a record: what it takes, what it gives, who may. Registering, checking and OpenAPI read the same record. */

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
  /** What a 200 carries. */
  gives: TSchema
  /** What a 200 is, when it is not JSON. */
  type?: string
  /** Long-lived: neither counted among the requests under way nor timed. */
  long?: boolean
  /** Its work may take long: all such requests together have half of the places, so that they never keep out the others. */
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

/** The methods a path can be asked with. */
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
