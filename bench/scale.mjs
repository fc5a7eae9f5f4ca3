/**
 * `npm run bench -- scale [--events 20000263] [--recipes paper,default]`: a stream with ML-20M's counts (138,493 users,
 * 27,278 items) from end to end, `dess-cv`, binary, by the paper's recipe (NCF) and by the default: time, peak memory,
 * mean sizes, and whether an event costs the same at the end as at the beginning. Each in a process of its own.
 * `--events n` takes the first n of the 20 million and says what the whole would take at that pace.
 */

import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { printTable } from "./report.mjs"

const execute = promisify(execFile)
const ALL = 20_000_263
const PROGRAM = fileURLToPath(new URL("peers/scale-run.mjs", import.meta.url))
const [MINUTES, GIBIBYTES] = [15, 2]

/** @param {string[]} words */
export async function run(words = []) {
  const given = (name, otherwise) => (words.includes(name) ? words[words.indexOf(name) + 1] : otherwise)
  const events = Number(given("--events", words.includes("--quick") ? 200_000 : ALL))
  const results = []
  for (const recipe of given("--recipes", "paper,default").split(",")) {
    process.stderr.write(`… ${events} events, ${recipe}\n`)
    const { stdout } = await execute(process.execPath, [PROGRAM, recipe, String(events)], { maxBuffer: 1e8 })
    results.push({ recipe, ...JSON.parse(stdout) })
  }
  const within = (value, target, text) => `${text} (target < ${target}${value < target ? "" : ", missed"})`
  console.log(`${events.toLocaleString("en")} events of ${ALL.toLocaleString("en")}, 138,493 users, 27,278 items\n`)
  printTable(
    results.map(({ recipe, seconds, peakBytes, tenths, ...r }) => {
      const minutes = ((seconds / events) * ALL) / 60
      const gibibytes = peakBytes / 2 ** 30
      const whole = events === ALL ? "" : " at this pace"
      return {
        recipe,
        "whole stream": within(minutes, MINUTES, `${minutes.toFixed(1)} min${whole}`),
        "peak memory": within(gibibytes, GIBIBYTES, `${gibibytes.toFixed(2)} GiB`),
        "events/s": Math.round(events / seconds),
        "last tenth / first (without warm-up)": `${(tenths.at(-1).seconds / tenths[0].seconds).toFixed(2)}×`,
        "mean size user, item": `${r.meanSize.user.toFixed(1)}, ${r.meanSize.item.toFixed(1)}`,
        "accuracy, loss": `${r.accuracy.toFixed(4)}, ${r.loss.toFixed(4)}`,
      }
    }),
  )
  for (const { recipe, tenths, memory } of results) {
    console.log(`\n${recipe}: along the stream, a tenth each; milliseconds per segment of 500\n`)
    printTable(
      tenths.map(({ events: until, seconds, phases, streaming, peakBytes, meanSize }) => ({
        "until event": until,
        seconds,
        ...Object.fromEntries(Object.entries(phases).map(([phase, ms]) => [`${phase} ms`, ms])),
        "stream ms": streaming,
        "peak MB": Math.round(peakBytes / 1e6),
        "user size": meanSize.user,
        "item size": meanSize.item,
      })),
    )
    const parts = Object.entries(memory).map(([name, bytes]) => `${name} ${Math.round(bytes / 1e6)} MB`)
    console.log(`at the end: ${parts.join(", ")}`)
  }
}
