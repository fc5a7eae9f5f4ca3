/** Installs Debian's Chromium, Redis and C compiler for the tests that need them, where there is none and we may; says so where we may not. */

import { execFileSync, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { buildFaults } from "./faults/faults.mjs"

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium"
const redis = process.env.REDIS_SERVER ?? "redis-server"

install({ name: `CHROMIUM at ${chromium}`, isThere: existsSync(chromium), debian: "chromium", tests: "browser tests" })
install({
  name: redis,
  isThere: spawnSync(redis, ["--version"]).status === 0,
  debian: "redis-server",
  tests: "cluster tests",
})
if (process.platform === "linux")
  install({
    name: "C compiler",
    isThere: buildFaults().reason === undefined,
    debian: "gcc libc6-dev",
    tests: "tests of failing disks",
  })

/** @param {{ name: string, isThere: boolean, debian: string, tests: string }} program */
function install({ name, isThere, debian, tests }) {
  if (isThere) return
  try {
    if (process.getuid?.() !== 0) throw new Error("not root")
    console.log(`Installing ${debian} for the ${tests} …`)
    apt("update")
    apt("install", "-y", "--no-install-recommends", ...debian.split(" "))
  } catch (error) {
    const [reason] = /** @type {Error} */ (error).message.split("\n")
    console.warn(`\nNO ${name} and it cannot be installed (${reason}): the ${tests} WILL BE SKIPPED.\n`)
  }
}

/** @param {string[]} args */
function apt(...args) {
  execFileSync("apt-get", args, {
    stdio: ["ignore", "ignore", "pipe"],
    timeout: 300_000,
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  })
}
