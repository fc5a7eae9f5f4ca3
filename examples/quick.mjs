import { Recommender } from "dess"

const recommender = await Recommender.open({ memoryBudget: "64MB" }) // { directory: "data" } keeps it on disk
const events = Array.from({ length: 4000 }, (_, n) => {
  const user = (7 * n) % 40 // forty readers: even ones read even books, odd ones odd books
  const pick = (Math.imul(n * n, 0x9e3779b1) >>> 16) % 29
  return { user: `reader ${user}`, item: `book ${2 * pick + (user % 2)}` }
})
await recommender.observe(events)
await recommender.drain() // waits until all is learned, for this first list only
const list = await recommender.recommend("reader 4", { count: 5, seen: true })
console.log(list.map(({ item, score }) => `${item} (${score.toFixed(2)})`).join(", "))
await recommender.close()
