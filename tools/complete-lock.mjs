/**
 * Adds to package-lock.json the optional binaries of other platforms. npm leaves them out when the registry at hand does
 * not carry them, and `npm ci` then refuses the lock file. Run it after every `npm install`:
 * node tools/complete-lock.mjs [folder]
 */

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const SYSTEMS = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"]
const PROCESSORS = ["arm64", "arm", "ia32", "loong64", "mips64el", "ppc64", "riscv64", "s390x", "wasm32", "x64"]

const file = join(process.argv[2] ?? ".", "package-lock.json")
const lock = JSON.parse(readFileSync(file, "utf8"))
let added = 0
for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === "") continue
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const words = name.split(/[/-]/)
    const os = SYSTEMS.filter((system) => words.includes(system))
    const cpu = PROCESSORS.filter((processor) => words.includes(processor)).slice(0, 1)
    const nested = `${path}/node_modules/${name}`
    if (lock.packages[`node_modules/${name}`] || lock.packages[nested] || (os.length === 0 && cpu.length === 0))
      continue
    if (!/^\d/.test(version)) continue
    const group = { ...(entry.dev ? { dev: true } : {}), optional: true }
    lock.packages[`node_modules/${name}`] = {
      version,
      ...(cpu.length ? { cpu } : {}),
      ...group,
      ...(os.length ? { os } : {}),
    }
    added++
  }
}
lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`)
console.log(`${file}: ${added} entries added`)
