/** A service in this process, on a free port, and a client that checks every answer against the API's description. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect } from "vitest"
import { configure } from "../../src/server/configuration.ts"
import type { ConnectionLimits } from "../../src/server/limits.ts"
import { type Service, startService } from "../../src/server/service.ts"
import { createCheck } from "../../src/server/validate.ts"

export interface Answer {
  status: number
  headers: Headers
  body: unknown
}

export interface CallOptions {
  body?: unknown
  headers?: Record<string, string>
}

export interface TestService extends Service {
  errors: string[]
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

export interface TestOptions {
  flags?: Record<string, string | boolean>
  environment?: Record<string, string>
  page?: string
  limits?: Partial<ConnectionLimits>
}

export function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "dess-server-"))
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}

/** Starts a service and waits until it is ready. */
export async function openService({
  flags = {},
  environment = {},
  page,
  limits,
}: TestOptions = {}): Promise<TestService> {
  const errors: string[] = []
  const service = await startService({
    ...configure({ port: "0", delay: "50ms", "publish-delay": "10ms", threads: "1", ...flags }, environment),
    page,
    limits,
    onError: (error, where) => errors.push(`${where}: ${error instanceof Error ? error.stack : error}`),
  })
  await service.ready
  const description = (await (await fetch(`${service.url}/openapi.json`)).json()) as Description
  return {
    ...service,
    errors,
    async call(method, path, { body, headers = {} } = {}) {
      const response = await fetch(service.url + path, {
        method,
        headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      })
      const text = await response.text()
      const json = response.headers.get("content-type")?.startsWith("application/json")
      const answer = { status: response.status, headers: response.headers, body: json ? JSON.parse(text) : text }
      checkAnswer(description, { method, path, ...answer })
      return answer
    },
  }
}

interface Description {
  paths: Record<string, Record<string, { responses: Record<string, { content: Record<string, { schema: object }> }> }>>
  components: { schemas: { Problem: object } }
}

/** What came is what the description says. */
function checkAnswer(description: Description, answer: Answer & { method: string; path: string }): void {
  const { method, path, status, body } = answer
  if (status >= 400) {
    createCheck(description.components.schemas.Problem, `${method} ${path} → ${status}`)(body)
    return
  }
  const parts = path.split("?")[0].replace(/\/$/, "").split("/")
  const found = Object.entries(description.paths).find(([pattern, methods]) => {
    const wanted = pattern.split("/")
    const fits = wanted.length === parts.length && wanted.every((part, i) => part.startsWith("{") || part === parts[i])
    return fits && methods[method.toLowerCase()] !== undefined
  })
  if (!found) return
  const { content } = found[1][method.toLowerCase()].responses["200"]
  const schema = content["application/json"]?.schema
  expect(status, `${method} ${path}`).toBe(200)
  if (schema) createCheck(schema, `${method} ${path} → 200`)(body)
}

/** Asks until it is so, for at most half a minute. */
export async function until(question: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000
  while (!(await question())) {
    if (performance.now() > end) throw new Error("expected it to come true within half a minute")
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Waits until everything accepted is learned. */
export function learned({ call }: TestService): Promise<void> {
  return until(async () => ((await call("GET", "/v1/status")).body as { events: { queue: number } }).events.queue === 0)
}
