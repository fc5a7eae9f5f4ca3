import { Recommender } from "dess"

// In memory, within a budget. With { directory: "data" } an event is acknowledged when it is on disk.
const recommender = await Recommender.open({ memoryBudget: "64MB" })

// Forty people read thirty books: those with an even number read even books.
const events = Array.from({ length: 4000 }, (_, n) => {
  const user = (7 * n) % 40
  return { user: `reader ${user}`, item: `book ${2 * ((n * n + n) % 29) + (user % 2)}` }
})
await recommender.observe(events)
await recommender.drain() // only for this first list: later a click counts in the next one, learned or not

// Also books the reader has seen: here that is all there are.
const list = await recommender.recommend("reader 4", { count: 5, seen: true })
console.log(list.map(({ item, score }) => `${item} (${score.toFixed(2)})`).join(", "))
await recommender.close()
