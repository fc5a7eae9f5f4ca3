/** Suites on processes whose file operations are made to fail: tools/faults. Where it cannot be built they are skipped, loudly. */

import { spawn } from "node:child_process"
import { describe, test } from "vitest"
import { buildFaults, type Faults } from "../../tools/faults/faults.mjs"

export { Faults } from "../../tools/faults/faults.mjs"

const ROOT = new URL("../../", import.meta.url)

/** A suite that may start processes under faults. With CI=true a missing compiler is a failure. */
export function describeWithFaults(name: string, body: () => void): void {
  const { reason } = buildFaults()
  if (reason === undefined) describe(name, body)
  else if (process.env.CI === "true")
    test(name, () => {
      throw new Error(`faults: ${reason}`)
    })
  else {
    console.warn(`SKIPPED: ${name} – ${reason} (apt-get install gcc libc6-dev)`)
    describe.skip(name, body)
  }
}

export interface FaultyOutcome {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

/** Runs a module's text in a process under faults, to its end. It can import packages and `./` from the project's root. */
export function runUnderFaults(
  faults: Faults,
  text: string,
  started?: (child: ReturnType<typeof spawn>) => void,
): Promise<FaultyOutcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", text], {
      cwd: ROOT,
      env: { ...process.env, ...faults.env() },
      timeout: 60_000,
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
    started?.(child)
  })
}
