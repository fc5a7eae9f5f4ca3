/**
 * Puts the replay page and the API reference into the site, writes llms.txt (every page with what it is about), and refuses
 * links to files that are not there.
 */

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, posix } from "node:path"
import { SECTIONS } from "./pages.mjs"

const root = join(import.meta.dirname, "../..")
const site = join(root, "site")
// The dashboard's views are not here.
const replay = readFileSync(join(root, "dist/web/replay.html"), "utf8")
mkdirSync(join(site, "replay"), { recursive: true })
writeFileSync(
  join(site, "replay/index.html"),
  replay.replace(/<nav aria-label="Views">.*?<\/nav>/s, '<nav><a href="../">Documentation</a></nav>'),
)
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

const pages = readdirSync(site, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".html"))
const dead = pages.flatMap((page) => {
  const links = readFileSync(join(site, page), "utf8").matchAll(/(?:href|src)="([^"#?]+)[^"]*"/g)
  return Array.from(links, ([, link]) => decodeURI(link)).flatMap((link) => {
    if (/^[a-z]+:|^\/\//.test(link)) return []
    const path = join(site, link.startsWith("/") ? link : posix.join(dirname(page), link))
    return existsSync(path) || existsSync(`${path}.html`) ? [] : `${page}: ${link}`
  })
})
if (dead.length > 0) throw new Error(`site: expected the target of every link, got none for\n${dead.join("\n")}`)
