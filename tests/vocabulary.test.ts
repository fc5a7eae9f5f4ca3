/** Words that were given up (for others that a stranger can search for) do not come back. */

import { readdirSync, readFileSync } from "node:fs"
import { join, sep } from "node:path"
import { expect, test } from "vitest"

const ROOT = join(import.meta.dirname, "..")
const OWN = "tests/vocabulary.test.ts"

/** What is not said any more, and what is said instead. Names are whole words, in the case given. */
const GIVEN_UP: readonly (readonly [RegExp, string])[] = [
  [/\bExams?\b/, "TaskEvaluator"],
  [/\bWish(es)?\b/, "ListQuery"],
  [/\b(class|interface|type|new) Room\b|\bRoom[<.(]/, "SharedRegion"],
  [/\bthoughts\b/, "growScores"],
  [/\bdoors?\b/i, "lazy imports, entry points, validation"],
  [/\blivesOf\b/, "formerIndicesOf"],
  [/\bonHouseScale\b/, "toInternalScale"],
  [/\b(this|our) house\b/i, "the project"],
  [/\bfurther[A-Z]\w*/, "settingColumns"],
  [/\b(class|interface|type) Hands\b|: Hands\b/, "PartitionContext"],
  [/\brefuseOddities\b/, "rejectUnsupportedRequests"],
  [/\bSurroundings\b/, "RouteContext"],
  [/\bripening\b/i, "warmupEvents"],
  [/\bteller\b/, "mostSeeds"],
  [/\b(homeOf|itemHome)\b|FencedWrite\("home"|KEYS (\w+, )*home\b|\bhome of (an|the) item/, "owner"],
  [/#told\b|\btold\(/, "reported, shared, sent"],
  [/\bnews(?:Age|Of)?\b|_news_/, "updates"],
  [/from: 1 \| 2/, "firstSegment"],
  [/\bstudy\(|\bstudyUnplayed\b/, "learnUnplayed"],
]

const files = ["src", "tests", "web", "bench", "tools", "examples", "docs"]
  .flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((file) =>
      join(folder, file).split(sep).join("/"),
    ),
  )
  .concat("README.md", "CONTRIBUTING.md", "SECURITY.md")
  .filter((file) => /\.(ts|mts|mjs|md)$/.test(file) && file !== OWN)
  .filter((file) => !/node_modules|^tools\/docs\/work\/|^docs\/(results|api|site)\//.test(file))

const findGivenUp = (text: string) =>
  text.split("\n").flatMap((line, l) =>
    GIVEN_UP.flatMap(([word, better]) => {
      const [found] = word.exec(line) ?? []
      return found === undefined ? [] : [`${l + 1}: ${found} (say ${better})`]
    }),
  )

test("no file says a word that was given up", () => {
  expect(files.length).toBeGreaterThan(300)
  const found = files.flatMap((file) =>
    findGivenUp(readFileSync(join(ROOT, file), "utf8")).map((line) => `${file}:${line}`),
  )
  expect(found).toEqual([])
})

test.each([
  ["class Exam {", 1],
  ["const room = new Room(4)", 1],
  ["// behind the door", 1],
  ["interface Hands {\n  from: 1 | 2\n}", 2],
  ["// Room for choices. Further on, hands are examined at home.", 0],
])("of %j it finds %i", (text, count) => {
  expect(findGivenUp(text)).toHaveLength(count)
})
