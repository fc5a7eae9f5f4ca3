/** The package as npm packs it, in the node_modules of an empty project. */

import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, realpathSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buildCommand } from "./command.ts"

const ROOT = join(import.meta.dirname, "../..")

/** Packs, and unpacks where `npm install` would; `packages` of the optional ones are there, too. */
export function installPackage(packages: readonly string[] = []): string {
  buildCommand()
  const project = mkdtempSync(join(realpathSync(tmpdir()), "dess-outside-"))
  const run = (command: string, ...words: string[]) =>
    execFileSync(command, words, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
  const [{ filename }] = JSON.parse(run("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", project))
  const folder = join(project, "node_modules", "dess")
  mkdirSync(folder, { recursive: true })
  run("tar", "-xzf", join(project, filename), "-C", folder, "--strip-components=1")
  for (const name of packages) {
    mkdirSync(join(project, "node_modules", name, ".."), { recursive: true })
    symlinkSync(join(ROOT, "node_modules", name), join(project, "node_modules", name))
  }
  return project
}

/** The fenced pieces of code of a page that begin with the name of a file, by that name. */
export function filesOfPage(text: string): Map<string, string> {
  const found = [...text.matchAll(/```\w+\n(?:\/\/|#) ([\w.-]+\.\w+)\n([\s\S]*?)```/g)]
  return new Map(found.map(([, name, code]) => [name, code]))
}
