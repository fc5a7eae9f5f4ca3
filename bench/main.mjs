/**
 * `npm run bench -- <name…> [--option value …]`: runs the benches of this folder. A bench is a file here that exports
 * `async function run(options)`; it gets the arguments from the first `--` on, as given.
 */

import { readdirSync } from "node:fs"
import os from "node:os"

const folder = new URL(".", import.meta.url)
const available = readdirSync(folder)
  .filter((file) => file.endsWith(".mjs") && !["main.mjs", "report.mjs"].includes(file))
  .map((file) => file.slice(0, -".mjs".length))
  .sort()

const words = process.argv.slice(2)
const firstOption = words.findIndex((word) => word.startsWith("--"))
const names = firstOption < 0 ? words : words.slice(0, firstOption)
const options = firstOption < 0 ? [] : words.slice(firstOption)
const unknown = names.filter((name) => !available.includes(name))

if (names.length === 0 || unknown.length > 0) {
  for (const name of unknown) console.error(`bench: expected a name from the list below, got ${JSON.stringify(name)}`)
  console.error(`usage: npm run bench -- <name…>\navailable: ${available.join(", ") || "none"}`)
  process.exitCode = 2
} else {
  printMachine()
  for (const name of names) {
    console.log(`\n## ${name}\n`)
    const { run } = await import(new URL(`${name}.mjs`, folder))
    await run(options)
  }
}

function printMachine() {
  const cores = os.cpus()
  const load = os.loadavg()[0].toFixed(2)
  console.log(`${cores[0]?.model.trim() ?? os.arch()}, ${os.availableParallelism()} cores (load ${load})`)
  console.log(`Node ${process.version}, ${os.type()} ${os.release()}, ${new Date().toISOString()}`)
}
