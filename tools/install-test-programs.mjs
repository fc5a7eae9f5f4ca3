/**
 * Installs what tests need where it is missing and we may, and says so where we may not: Debian's Chromium, Redis, Postgres and C
 * compiler, and the runtimes that npm has inside packages.
 */

import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
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
install({
  name: "postgres",
  isThere: existsSync("/usr/lib/postgresql"),
  debian: "postgresql",
  tests: "tests of the Postgres source",
})
if (process.platform === "linux")
  install({
    name: "C compiler",
    isThere: buildFaults().reason === undefined,
    debian: "gcc libc6-dev",
    tests: "tests of failing disks",
  })
installRuntimes()

function installRuntimes() {
  const folder = fileURLToPath(new URL("./runtimes/", import.meta.url))
  const { optionalDependencies } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"))
  const versionOf = (/** @type {string} */ name) => {
    const file = `${folder}node_modules/${name}/package.json`
    return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined
  }
  const isThere = Object.entries(optionalDependencies).every(([name, wanted]) => wanted.endsWith(versionOf(name)))
  if (isThere) return
  console.log("Installing Node 20 to 26, Bun and Deno for the tests of the package …")
  const words = ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
  if (spawnSync("npm", words, { timeout: 300_000, shell: process.platform === "win32" }).status !== 0)
    console.warn("\nNO RUNTIMES and they cannot be installed: the tests of the package on them WILL BE SKIPPED.\n")
}

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
