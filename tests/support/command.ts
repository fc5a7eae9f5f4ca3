/** The command as a person runs it: a process of its own, from what the package has. */

import { execFileSync, spawn } from "node:child_process"
import { existsSync, readdirSync, statSync } from "node:fs"
import { join } from "node:path"

const ROOT = join(import.meta.dirname, "..", "..")
const MAIN = join(ROOT, "dist", "bundle", "main.js")

export interface Outcome {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface CommandOptions {
  env?: Record<string, string>
  /** Called with the started process. */
  started?: (child: ReturnType<typeof spawn>) => void
}

/** Builds what is missing or older than its sources, and fails loudly when it cannot. */
export function buildCommand(): void {
  const sources = newest(join(ROOT, "src"))
  const pages = Math.max(sources, newest(join(ROOT, "web")))
  if (sources <= timeOf(MAIN) && pages <= timeOf(join(ROOT, "dist", "web", "report.js"))) return
  try {
    execFileSync(process.execPath, [join(ROOT, "tools", "build-kernels.mjs")], { cwd: ROOT, stdio: "pipe" })
    const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc")
    execFileSync(process.execPath, [compiler, "-p", "tsconfig.build.json"], { cwd: ROOT, stdio: "pipe" })
    for (const tool of ["build-bundle.mjs", "build-web.mjs"])
      execFileSync(process.execPath, [join(ROOT, "tools", tool)], { cwd: ROOT, stdio: "pipe" })
  } catch (error) {
    const { stdout, message } = error as Error & { stdout?: Buffer }
    throw new Error(`dist is missing or stale and cannot be built:\n${stdout ?? message}`)
  }
}

/** When a file was written; never, where there is none. */
const timeOf = (path: string) => (existsSync(path) ? statSync(path).mtimeMs : Number.NEGATIVE_INFINITY)

/** When the youngest source was written. */
function newest(folder: string): number {
  let time = 0
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true }))
    if (/\.(ts|js|css|html)$/.test(entry.name))
      time = Math.max(time, statSync(join(entry.parentPath, entry.name)).mtimeMs)
  return time
}

/** Runs `dess` to its end, both outputs piped. */
export function dess(args: readonly string[], options: CommandOptions = {}): Promise<Outcome> {
  const { NO_COLOR: _, FORCE_COLOR: __, NODE_OPTIONS: ___, ...inherited } = process.env
  return new Promise((resolve, reject) => {
    // Killed before a test's time is up: a command that hangs is not left behind.
    const child = spawn(process.execPath, [MAIN, ...args], {
      env: { ...inherited, ...options.env },
      timeout: 50_000,
      killSignal: "SIGKILL",
    })
    let [stdout, stderr] = ["", ""]
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk.toString()
    })
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    child.on("error", reject)
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }))
    options.started?.(child)
  })
}
