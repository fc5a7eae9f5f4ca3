/** Follows a Postgres table until it is killed, and says how many events it has: node follow-child.mjs <directory> <url> <table> */

import { Recommender } from "../../dist/engine/open.js"
import { followPostgres } from "../../dist/server/postgres-source.js"

const [directory, url, table] = process.argv.slice(2)
const recommender = await Recommender.open({ directory })
let said = -1
setInterval(() => {
  const { accepted } = recommender.status().events
  if (accepted !== said) process.stdout.write(`${accepted}\n`)
  said = accepted
}, 5)
await followPostgres(recommender, {
  url,
  events: { table, cursor: "id" },
  columns: {},
  every: 10,
  signal: new AbortController().signal,
  onError: (error) => process.stderr.write(`${error.message}\n`),
})
