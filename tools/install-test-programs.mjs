/**
 * Installs what tests need where it is missing and we may, and says so where we may not: Debian's Chromium, Redis, Postgres and C
 * compiler, and the runtimes that npm has inside packages. Both at once; takes no time where everything is there.
 */

import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { buildFaults } from "./faults/faults.mjs"
import { runPatiently } from "./run-patiently.mjs"

const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium"
const redis = process.env.REDIS_SERVER ?? "redis-server"

const PROGRAMS = [
  { name: `CHROMIUM at ${chromium}`, isThere: () => existsSync(chromium), debian: "chromium", tests: "browser tests" },
  {
    name: redis,
    isThere: () => spawnSync(redis, ["--version"]).status === 0,
    debian: "redis-server",
    tests: "cluster tests",
  },
  {
    name: "postgres",
    isThere: () => existsSync("/usr/lib/postgresql"),
    debian: "postgresql",
    tests: "tests of the Postgres source",
  },
  {
    name: "C compiler",
    isThere: () => process.platform !== "linux" || buildFaults().reason === undefined,
    debian: "gcc libc6-dev",
    tests: "tests of failing disks",
  },
]

await Promise.all([installPrograms(), installRuntimes()])

async function installPrograms() {
  const missing = PROGRAMS.filter(({ isThere }) => !isThere())
  if (missing.length === 0) return
  const reason = await installPackages(missing.flatMap(({ debian }) => debian.split(" ")))
  for (const { name, tests, isThere } of missing) if (!isThere()) warn(`NO ${name}`, reason, tests)
}

/** @param {string[]} packages @returns {Promise<string | undefined>} why they are not installed */
async function installPackages(packages) {
  if (process.getuid?.() !== 0) return "not root"
  const what = `installing ${packages.join(", ")}`
  console.log(`${what} …`)
  // Another that installs meanwhile is waited for.
  const apt = (/** @type {string[]} */ ...words) =>
    runPatiently("apt-get", ["-o", "DPkg::Lock::Timeout=600", ...words], {
      what,
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    })
  return (await apt("update")) ?? (await apt("install", "-y", "--no-install-recommends", ...packages))
}

async function installRuntimes() {
  if (process.platform !== "linux" || process.arch !== "x64")
    return warn("NO RUNTIMES", "their packages are for Linux on x64", "tests of the package on them")
  const folder = fileURLToPath(new URL("./runtimes/", import.meta.url))
  const { optionalDependencies } = JSON.parse(readFileSync(`${folder}package.json`, "utf8"))
  const versionOf = (/** @type {string} */ name) => {
    const file = `${folder}node_modules/${name}/package.json`
    return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined
  }
  if (Object.entries(optionalDependencies).every(([name, wanted]) => wanted.endsWith(versionOf(name)))) return
  const what = "installing Node 20 to 26, Bun and Deno"
  console.log(`${what} …`)
  const words = ["ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
  const reason = await runPatiently("npm", words, { what })
  if (reason !== undefined) warn("NO RUNTIMES", reason, "tests of the package on them")
}

/** @param {string} what @param {string | undefined} reason @param {string} tests */
function warn(what, reason, tests) {
  console.warn(
    `\n${what} and it cannot be installed (${reason ?? "not found afterwards"}): the ${tests} WILL BE SKIPPED.\n`,
  )
}
