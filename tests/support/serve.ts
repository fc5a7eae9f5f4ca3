/** `dess serve` as a process. */

import { type ChildProcess, spawn } from "node:child_process"
import { join } from "node:path"
import { until } from "./service.ts"

export interface Running {
  url: string
  child: ChildProcess
  stderr: () => string
  exit: Promise<number | null>
}

const running = new Set<ChildProcess>()

/** Ends what is still running of the processes started here. */
export function killServices(): void {
  for (const child of running) child.kill("SIGKILL")
  running.clear()
}

/** Starts it on a free port, or on the one among `args`, and waits until it is ready. */
export async function serve(args: string[], environment: Record<string, string> = {}): Promise<Running> {
  const service = await start(args, environment)
  await until(async () => service.stderr().includes("ready;"))
  return service
}

/** The same, and waits until it listens. */
export async function start(args: string[], environment: Record<string, string> = {}): Promise<Running> {
  const main = join(import.meta.dirname, "..", "..", "dist", "bundle", "main.js")
  const child = spawn(process.execPath, [main, "serve", "--port", "0", ...args], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  })
  running.add(child)
  let stderr = ""
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const exit = new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)))
  await until(async () => stderr.includes("listening on"))
  return { url: /http:\S+/.exec(stderr)?.[0] ?? "", child, stderr: () => stderr, exit }
}
