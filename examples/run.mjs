import { runStream, streamFromInteractions } from "dess"

// Your events: ids are strings or numbers, ratings 0 to 5, timestamps in seconds.
// Here few users come often and most hardly ever; even users like even items, odd users odd ones.
const interactions = Array.from({ length: 15_000 }, (_, i) => {
  const user = Math.floor(2000 * ((i * 0.618034) % 1) ** 4)
  const item = (i * i) % 91
  return { user, item, rating: (user + item) % 2 === 0 ? 5 : 2, timestamp: 1_700_000_000 + i }
})

const run = runStream(streamFromInteractions({ interactions }), { method: "dess-fre" })
for (;;) {
  const { value, done } = await run.next()
  console.log(done ? "whole stream" : `segment ${value.segment}`, value.accuracy, value.meanSize.user)
  if (done) break
}
