import { runStream, streamFromInteractions } from "dess"

// Your events, in any order: ids are strings or numbers, ratings 0.5 to 5, timestamps in seconds.
const interactions = Array.from({ length: 3000 }, (_, i) => {
  const [user, item] = [`user ${i % 40}`, `item ${(7 * i + (i % 13)) % 90}`]
  return { user, item, rating: (i % 40) % 2 === ((7 * i + (i % 13)) % 90) % 2 ? 5 : 2, timestamp: i }
})

const run = runStream(streamFromInteractions({ interactions }), { method: "dess-fre" })
for (;;) {
  const { value, done } = await run.next()
  if (!done)
    console.log(`segment ${value.segment}: accuracy ${value.accuracy}, numbers per user ${value.meanSize.user}`)
  else {
    console.log(`whole stream: accuracy ${value.accuracy}, ${value.embeddingBytes} bytes of embeddings`)
    break
  }
}
