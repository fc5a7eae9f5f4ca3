import { Recommender } from "dess"

const recommender = await Recommender.open({ memoryBudget: "64MB" }) // { directory: "data" } keeps it on disk
const events = Array.from({ length: 4000 }, (_, n) => ({
  user: `reader ${n % 40}`, // forty readers: even ones read even books, odd ones odd books
  item: `book ${2 * ((Math.imul(n * n, 0x9e3779b1) >>> 16) % 29) + (n % 2)}`,
}))
await recommender.observe(events)
await recommender.drain() // waits until all is learned, for this first list only
console.log(await recommender.recommend("reader 4", { count: 3, seen: true }))
await recommender.close()
