/** docs/method/method.md links its formulas to lines of examples/dess-in-300-lines.mjs: each line holds what the link says. */

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"

const ROOT = join(import.meta.dirname, "..")
const page = readFileSync(join(ROOT, "docs", "method", "method.md"), "utf8")
const lines = readFileSync(join(ROOT, "examples", "dess-in-300-lines.mjs"), "utf8").split("\n")
const links = [...page.matchAll(/\[([^\]]+)\]\(\.\.\/\.\.\/examples\/dess-in-300-lines\.mjs#L(\d+) "([^"]+)"\)/g)].map(
  ([, words, line, text]) => ({ words, line: Number(line), text }),
)

test("the model, growth, context, bandit and reward are all linked", () => {
  expect(links.length).toBeGreaterThanOrEqual(15)
  expect(page.match(/dess-in-300-lines\.mjs#L/g)?.length).toBe(links.length)
})

test.each(links)("$words is line $line", ({ line, text }) => {
  expect(lines[line - 1]).toContain(text)
})
