/** Installs Debian's Chromium for the browser tests where there is none and we may; says so where we may not. */

import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"

const path = process.env.CHROMIUM ?? "/usr/bin/chromium"
if (!existsSync(path)) {
  try {
    if (process.getuid?.() !== 0) throw new Error("not root")
    /** @param {string[]} args */
    const apt = (...args) =>
      execFileSync("apt-get", args, {
        stdio: ["ignore", "ignore", "pipe"],
        timeout: 300_000,
        env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      })
    console.log("Installing Chromium for the browser tests …")
    apt("update")
    apt("install", "-y", "--no-install-recommends", "chromium")
  } catch (error) {
    const [reason] = /** @type {Error} */ (error).message.split("\n")
    console.warn(
      `\nNO CHROMIUM at ${path} and it cannot be installed (${reason}): the browser tests WILL BE SKIPPED.\n`,
    )
  }
}
