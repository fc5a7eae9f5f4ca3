/**
 * Makes the links of a release lead somewhere: `node tools/package-links.mjs <address of the repository> <tag>`. In the pages of
 * the package, what is not in the package (raw results, notebooks, sources) is linked to in the repository. The README is shown by
 * the registry, too, so all of its links are. Changes the files: for the release workflow, in its own checkout.
 */

import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { posix } from "node:path"
import { fileURLToPath } from "node:url"

const LINK = /(\]\()([^()\s]+)(\))/g

/** The file a relative link of a page leads to, or undefined where it leads to an address or a place on the page. */
export function targetOf(/** @type {string} */ page, /** @type {string} */ link) {
  if (/^[a-z]+:|^#/.test(link)) return undefined
  return posix.join(posix.dirname(page), link.split("#")[0])
}

/**
 * The text of a page with addresses for the links that `isInPackage` does not know; of the README for all.
 * @param {string} text
 * @param {{ page: string, isInPackage: (path: string) => boolean, address: string, tag: string }} p
 */
export function addressLinks(text, { page, isInPackage, address, tag }) {
  return text.replaceAll(LINK, (whole, open, link, close) => {
    const target = targetOf(page, link)
    if (target === undefined || (page !== "README.md" && isInPackage(target))) return whole
    const anchor = link.includes("#") ? `#${link.split("#")[1]}` : ""
    const kind = /\.(png|svg)$/.test(target) ? "raw" : "blob"
    return `${open}${address}/${kind}/${tag}/${target}${anchor}${close}`
  })
}

/** Paths of the files of the package. */
export function packedFiles() {
  const root = fileURLToPath(new URL("..", import.meta.url))
  const text = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  })
  return /** @type {string[]} */ (JSON.parse(text)[0].files.map(({ path }) => path)).sort()
}

/** Whether a path is a file of the package, or a folder with some. */
export const isIn = (/** @type {readonly string[]} */ files) => (/** @type {string} */ path) =>
  files.some((file) => file === path || file.startsWith(`${path.replace(/\/$/, "")}/`))

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [address, tag] = process.argv.slice(2)
  if (!address || !tag) throw new Error("usage: node tools/package-links.mjs <address of the repository> <tag>")
  const files = packedFiles()
  for (const page of files.filter((file) => file.endsWith(".md") && !file.startsWith("dist/"))) {
    const path = fileURLToPath(new URL(`../${page}`, import.meta.url))
    writeFileSync(path, addressLinks(readFileSync(path, "utf8"), { page, isInPackage: isIn(files), address, tag }))
  }
}
