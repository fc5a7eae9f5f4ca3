/** Which ids gain from a rung: mean Δ of the rows learned from, by what was known of the id. */

const SIDES = ["user", "item"]

/** Mean Δ of the rows of each rung, in 1e-4 with twice its standard error, by what was known of the id. */
export function printGains({ rows }) {
  const frequencyOf = bucket("frequency", [8, 32, 128, 512])
  for (const side of SIDES)
    for (let step = 0; step < 6; step++) {
      const own = rows.filter((row) => row.side === side && row.step === step)
      if (own.length < 1000) continue
      // Thirds of the rows of like frequency: diversity grows with frequency.
      for (const like of groups(own, frequencyOf).values()) {
        like.sort((a, b) => a.diversity - b.diversity)
        like.forEach((row, i) => {
          row.third = `diversity third ${1 + Math.floor((3 * i) / like.length)}`
        })
      }
      console.log(`\n${side}, rung ${step + 1}:`)
      for (const by of [frequencyOf, bucket("age", [5, 20, 100, 500]), (row) => row.third]) {
        const parts = [...groups(own, by)].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
        console.log(parts.map(([name, group]) => `${name}: ${gain(group)}`).join(", "))
      }
    }
}

function groups(rows, by) {
  const out = new Map()
  for (const row of rows) {
    if (!out.has(by(row))) out.set(by(row), [])
    out.get(by(row)).push(row)
  }
  return out
}

function bucket(name, edges) {
  return (row) => `${name} ${[0, ...edges].findLast((edge) => row[name] >= edge)}+`
}

function gain(rows) {
  let [sum, squares] = [0, 0]
  for (const { saved } of rows) {
    sum += saved
    squares += saved * saved
  }
  const average = sum / rows.length
  const error = 2 * Math.sqrt((squares / rows.length - average * average) / rows.length)
  return `${(1e4 * average).toFixed(1)} ± ${(1e4 * error).toFixed(1)} (${rows.length})`
}
