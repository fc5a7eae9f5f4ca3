/** Installs Debian's Redis for the cluster tests where there is none and we may; says so where we may not. */

import { execFileSync, spawnSync } from "node:child_process"

const program = process.env.REDIS_SERVER ?? "redis-server"
if (spawnSync(program, ["--version"]).status !== 0) {
  try {
    if (process.getuid?.() !== 0) throw new Error("not root")
    /** @param {string[]} args */
    const apt = (...args) =>
      execFileSync("apt-get", args, {
        stdio: ["ignore", "ignore", "pipe"],
        timeout: 300_000,
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      })
    console.log("Installing Redis for the cluster tests …")
    apt("update")
    apt("install", "-y", "--no-install-recommends", "redis-server")
  } catch (error) {
    const [reason] = /** @type {Error} */ (error).message.split("\n")
    console.warn(`\nNO ${program} and it cannot be installed (${reason}): the cluster tests WILL BE SKIPPED.\n`)
  }
}
