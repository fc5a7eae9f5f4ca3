/** Puts the replay page and the API reference into the site, and writes llms.txt: every page with what it is about. */

import { cpSync, existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { SECTIONS } from "./pages.mjs"

const root = join(import.meta.dirname, "../..")
const site = join(root, "site")
cpSync(join(root, "dist/web/replay.html"), join(site, "replay/index.html"))
cpSync(join(root, "dist/web/plot.js"), join(site, "replay/plot.js"))
cpSync(join(root, "dist/web/assets"), join(site, "replay/assets"), { recursive: true })
if (existsSync(join(root, "docs/api"))) cpSync(join(root, "docs/api"), join(site, "api"), { recursive: true })

const lines = ["# dess", "", "> A recommender for Node.js that learns from every event as it comes.", ""]
for (const { text, pages } of SECTIONS) {
  lines.push(`## ${text}`, "")
  for (const [page, { title, says }] of Object.entries(pages)) {
    cpSync(join(root, "docs", `${page}.md`), join(site, `${page}.md`))
    lines.push(`- [${title}](/${page}.md): ${says}`)
  }
  lines.push("")
}
writeFileSync(join(site, "llms.txt"), lines.join("\n"))
