import { Recommender } from "dess"

// No directory: in memory only. With { directory: "data" } everything survives a power cut.
const recommender = await Recommender.open({ memoryBudget: "256MB" })

// What the shop sells. Items that only occur in events need no entry.
await recommender.putItems([
  { item: "dune", categories: ["book"] },
  { item: "solaris", categories: ["book"] },
  { item: "stalker", categories: ["film"], hidden: true },
])

// Every event is learned within about a second. Without a rating it is a positive: a click, a purchase.
await recommender.observe({ user: "ada", item: "dune", rating: 5, timestamp: Date.now() })
const readers = Array.from({ length: 400 }, (_, n) => ({
  user: `reader ${n % 40}`,
  item: `book ${(7 * n + (n % 11)) % 60}`,
}))
await recommender.observe([{ user: "ada", item: "book 1", key: "order-4711" }, ...readers])

await recommender.drain() // only to see it at once; a service never waits
for (const { item, score, source } of await recommender.recommend("ada", { count: 5 }))
  console.log(`${item}: ${score.toFixed(3)} (${source})`)
console.log(
  "for a stranger:",
  (await recommender.recommend("stranger", { count: 3 })).map(({ item }) => item).join(", "),
)
console.log(
  "for a guest who clicked on two books:",
  (await recommender.recommend({ items: ["book 1", "book 3"], count: 3 })).map(({ item }) => item).join(", "),
)
console.log("like book 1:", (await recommender.similar("book 1", { count: 3 })).map(({ item }) => item).join(", "))
const { size, bytes, indicators } = await recommender.explain("user", "ada")
console.log(`ada: ${size} numbers, ${bytes} bytes, seen ${indicators.frequency} times`)
console.log("forgotten:", await recommender.forget("ada"))
await recommender.close()
