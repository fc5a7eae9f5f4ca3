/** Runs a command that may take long on a busy machine: says that it goes on, ends it at a limit, and tries once more. */

import { spawn } from "node:child_process"
import { setTimeout as pause } from "node:timers/promises"

/**
 * Resolves to undefined when the command has ended well, otherwise to why it did not.
 * @param {string} command
 * @param {readonly string[]} words
 * @param {import("./run-patiently.d.mts").Patience} options
 * @returns {Promise<string | undefined>}
 */
export async function runPatiently(command, words, options) {
  const { what, say = console.log, tries = 2, waitSeconds = 5 } = options
  for (let n = 1; ; n++) {
    const reason = await runOnce(command, words, options)
    if (reason === undefined || n === tries) return reason
    say(`… ${what}: ${reason}; trying once more`)
    await pause(waitSeconds * 1000)
  }
}

/** @param {string} command @param {readonly string[]} words @param {import("./run-patiently.d.mts").Patience} options */
function runOnce(command, words, { what, say = console.log, seconds = 900, every = 30, env = process.env }) {
  return new Promise((resolve) => {
    const from = Date.now()
    const child = spawn(command, words, {
      env,
      stdio: ["ignore", "ignore", "pipe"],
      timeout: seconds * 1000,
      killSignal: "SIGKILL",
      shell: process.platform === "win32",
    })
    let last = ""
    child.stderr.on("data", (text) => {
      last = String(text).trim().split("\n").at(-1) || last
    })
    const timer = setInterval(() => say(`… ${what}, ${Math.round((Date.now() - from) / 1000)} s`), every * 1000)
    const end = (/** @type {string | undefined} */ reason) => {
      clearInterval(timer)
      resolve(reason)
    }
    child.once("error", (error) => end(error.message))
    child.once("close", (code, signal) =>
      end(code === 0 ? undefined : signal ? `not done in ${seconds} s` : last || `ended with ${code}`),
    )
  })
}
