import { runStream, streamFromInteractions } from "dess"

// Your events: ids are strings or numbers, ratings 0.5 to 5, timestamps in seconds. Here everybody likes odd items.
const interactions = Array.from({ length: 3000 }, (_, i) => {
  const item = (i * i) % 91
  return { user: `user ${i % 40}`, item, rating: item % 2 === 1 ? 5 : 2, timestamp: 1_700_000_000 + i }
})

const run = runStream(streamFromInteractions({ interactions }), { method: "dess-fre", segment: 100 })
for (;;) {
  const { value, done } = await run.next()
  console.log(done ? "whole stream" : `segment ${value.segment}`, value.accuracy, value.meanSize.user)
  if (done) break
}
