import { buildReport, compare, writeReport } from "dess"

// Each run in a process of its own; called again with the same folder it goes on where it was stopped.
const grid = {
  methods: ["dess-fre", "always-grow", "plain-bias"],
  data: [{ path: "synthetic", interactions: 3000 }],
  seeds: 2,
  sizes: [2, 4, 8],
  segment: 100,
  controls: false, // otherwise every control is run as well
}
const { records } = await compare(grid, { out: "results/mine" })

const report = buildReport(records)
for (const { title, rows } of report.parts.flatMap(({ tables }) => tables)) {
  console.log(title)
  for (const { cells } of rows) console.log(cells.map(({ text }) => text).join("  "))
}
// One page that draws its own figures, and tables; with pictures: await drawFigures(report) also as SVG files.
writeReport("results/mine/report", { report, records })
