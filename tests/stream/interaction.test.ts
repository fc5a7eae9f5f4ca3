import { expect, test } from "vitest"
import { DessError } from "../../src/errors.ts"
import { checkInteraction, checkRating, parseRatingScale } from "../../src/stream/interaction.ts"
import { binaryLabel, classLabel } from "../../src/stream/labels.ts"

const good = { user: "ann", item: 7, rating: 4, timestamp: 978300760 }

test("a good interaction passes unchanged, without its other fields", () => {
  expect(checkInteraction({ ...good, comment: "fine" }, "line 1")).toEqual(good)
})

test("ids may be fractions, zero, one character, 512 characters and __proto__", () => {
  for (const user of [0.5, 0, -3, "x", "x".repeat(512), "__proto__"]) {
    expect(checkInteraction({ ...good, user }).user).toBe(user)
  }
})

const id = "a text of 1 to 512 characters or a finite number"
const refusals: [string, Record<string, unknown>, string][] = [
  ["an empty id", { user: "" }, `interaction user: expected ${id}, got "" (line 17)`],
  ["a long id", { item: "x".repeat(513) }, `interaction item: expected ${id}, got 513 characters (line 17)`],
  ["an id that is no number", { item: Number.NaN }, `interaction item: expected ${id}, got NaN (line 17)`],
  ["an endless id", { user: Number.POSITIVE_INFINITY }, `interaction user: expected ${id}, got Infinity (line 17)`],
  ["a missing id", { user: undefined }, `interaction user: expected ${id}, got undefined (line 17)`],
  ["a boolean id", { user: true }, `interaction user: expected ${id}, got true (line 17)`],
  ["a word as rating", { rating: "abc" }, 'interaction rating: expected a number from 0 to 5, got "abc" (line 17)'],
  ["a digit as text", { rating: "4" }, 'interaction rating: expected a number from 0 to 5, got "4" (line 17)'],
  ["a rating above", { rating: 5.5 }, "interaction rating: expected a number from 0 to 5, got 5.5 (line 17)"],
  ["a rating below", { rating: -1 }, "interaction rating: expected a number from 0 to 5, got -1 (line 17)"],
  ["a NaN rating", { rating: Number.NaN }, "interaction rating: expected a number from 0 to 5, got NaN (line 17)"],
  [
    "a time before 1970",
    { timestamp: -1 },
    "interaction timestamp: expected a time in seconds or milliseconds, from 0 to the year 5138, got -1 (line 17)",
  ],
  [
    "a time as text",
    { timestamp: "2001" },
    'interaction timestamp: expected a time in seconds or milliseconds, from 0 to the year 5138, got "2001" (line 17)',
  ],
  [
    "no time",
    { timestamp: undefined },
    "interaction timestamp: expected a time in seconds or milliseconds, from 0 to the year 5138, got undefined (line 17)",
  ],
]

test.each(refusals)("%s is refused", (_, change, message) => {
  const attempt = () => checkInteraction({ ...good, ...change }, "line 17")
  expect(attempt).toThrow(new DessError("INVALID_DATA", message))
  expect(attempt).toThrow(expect.objectContaining({ code: "INVALID_DATA" }))
})

test("what is no object at all is refused", () => {
  const expected = "interaction: expected an object with user, item, rating and timestamp"
  expect(() => checkInteraction(null, "line 2")).toThrow(`${expected}, got null (line 2)`)
  expect(() => checkInteraction("1::2::3")).toThrow(`${expected}, got "1::2::3"`)
})

test("a timestamp above 1e11 is in milliseconds", () => {
  expect(checkInteraction({ ...good, timestamp: 978300760123 }).timestamp).toBe(978300760.123)
  expect(checkInteraction({ ...good, timestamp: 1e11 }).timestamp).toBe(1e11)
  expect(Object.is(checkInteraction({ ...good, timestamp: -0 }).timestamp, 0)).toBe(true)
})

test("ratings of 0 to 10 are halved, and a like is more than 7", () => {
  const scale = parseRatingScale("0-10")
  expect(checkRating(9, "", scale)).toBe(4.5)
  expect([7, 7.5, 8].map((rating) => binaryLabel(checkRating(rating, "", scale)))).toEqual([0, 1, 1])
  expect(() => checkRating(11, "line 3", scale)).toThrow("expected a number from 0 to 10, got 11 (line 3)")
})

test("any scale maps its top to 5 and keeps its zero", () => {
  expect(checkRating(100, "", parseRatingScale("1-100"))).toBe(5)
  expect(checkRating(70, "", parseRatingScale("1-100"))).toBe(3.5)
  expect(checkRating(0.7, "", parseRatingScale("0-1"))).toBe(3.5)
  expect(checkRating(0.5)).toBe(0.5)
  expect(() => checkRating(0.5, "", parseRatingScale("1-5"))).toThrow("expected a number from 1 to 5, got 0.5")
})

test.each(["", "10", "10-0", "5-5", "a-b", "0-10-20", "-1-1", "0-1e400", "0 - 10"])(
  "the scale %j is refused",
  (text) => {
    expect(() => parseRatingScale(text)).toThrow(
      `rating scale: expected two numbers like 0-10, none below 0, the lower first, got ${JSON.stringify(text)}`,
    )
  },
)

test("a like is above the threshold and a class is clipped to 0 to 4", () => {
  expect([3, 3.5, 4].map((rating) => binaryLabel(rating))).toEqual([0, 0, 1])
  expect(binaryLabel(3, 2.5)).toBe(1)
  const ratings = [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
  expect(ratings.map(classLabel)).toEqual([0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
})
