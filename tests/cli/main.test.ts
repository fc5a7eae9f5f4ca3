/** `dess` as a person meets it: what it prints, where, and with which exit code. */

import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest"
import { demoCommand } from "../../src/cli/demo.ts"
import { runCommand } from "../../src/cli/run.ts"
import { DessError } from "../../src/errors.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import { buildCommand, dess, type Outcome } from "../support/command.ts"
import { record, untimed } from "../support/runs.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-cli-"))
const SMALL = ["run", "--interactions", "600", "--segment", "200", "--sizes", "2,4,8", "--threads", "1"]

beforeAll(buildCommand)
afterAll(() => rmSync(FOLDER, { recursive: true }))

/** Writes a file into a folder of its own; the data are called "films" every time. */
function file(text: string | Buffer): string {
  const folder = join(mkdtempSync(join(FOLDER, "data-")), "films")
  mkdirSync(folder)
  writeFileSync(join(folder, "ratings.csv"), text)
  return join(folder, "ratings.csv")
}

const HEADER = "userId,movieId,rating,timestamp"
const { batch } = record({ interactions: 500, users: 20, items: 60 })
const ROWS = Array.from(
  batch.user,
  (user, r) => [user, batch.item[r], batch.rating[r], Math.floor(batch.timestamp[r])] as const,
)
const csv = (rows: readonly (readonly unknown[])[], end = "\n") =>
  [HEADER, ...rows.map((row) => row.join(","))].join(end) + end

/** A run on a file, small and quick. */
const onFile = (path: string, ...more: string[]) =>
  `run --method always-grow --segment 100 --sizes 2,4,8 --threads 1 --json`.split(" ").concat("--data", path, ...more)

/** What a command prints, run in this process: quicker than one of its own. One at a time. */
async function printed([name, ...args]: readonly string[]): Promise<string> {
  const lines: unknown[] = []
  const log = vi.spyOn(console, "log").mockImplementation((line: unknown) => {
    lines.push(line)
  })
  try {
    await (name === "demo" ? demoCommand : runCommand)(args)
    return lines.join("\n")
  } finally {
    log.mockRestore()
  }
}

/** Without the line that says which columns of a file were taken for what. */
const withoutColumns = (stderr: string) => stderr.replace(/^dess: \S+: columns: .+\n/, "")

/** The object on stdout; the command must have ended well and said nothing else. */
function parse({ code, signal, stdout, stderr }: Outcome): Record<string, unknown> {
  expect({ code, signal, stderr: withoutColumns(stderr) }).toEqual({ code: 0, signal: null, stderr: "" })
  expect(stdout.trimEnd()).not.toContain("\n")
  return JSON.parse(stdout) as Record<string, unknown>
}

/** Exit code 2, nothing on stdout, one line on stderr that says what was expected. */
function expectRefused({ code, stdout, stderr }: Outcome, ...parts: (string | RegExp)[]): void {
  expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: "" })
  expect(withoutColumns(stderr)).toMatch(/^dess: [^\n]+\n$/)
  expect(stderr).not.toMatch(/\bat .*\.(js|ts):\d+/)
  for (const part of parts) expect(stderr).toMatch(part)
}

const KEYS =
  "method preset recipe task model protocol order seed interactions segments accuracy loss lastQuarter majorityAccuracy embeddingBytes rowBytes rowBytesOverTime heldBytes meanSize meanSizeOverTime sizeHistogram regret milliseconds interactionsPerSecond peakRssBytes".split(
    " ",
  )
const EXTRAS = ["vectorsSave", "data", "embeddingBytesOverTime", "growShare", "liked", "memory"]

describe.concurrent("dess run --json", () => {
  test("prints one object with the keys of the contract, and six more", async () => {
    const result = parse(await dess([...SMALL, "--json"]))
    expect(Object.keys(result).toSorted()).toEqual([...KEYS, ...EXTRAS].toSorted())
    expect(result).toMatchObject({
      ...{ method: "dess-fre", preset: "calibrated", recipe: "calibrated", task: "binary", model: "mf" },
      ...{ protocol: "split", order: "time", seed: 1, data: "synthetic", interactions: 600, segments: 3 },
      lastQuarter: { accuracy: expect.any(Number), loss: expect.any(Number) },
      milliseconds: {
        ...{ policy: expect.any(Number), growth: expect.any(Number) },
        ...{ train: expect.any(Number), inference: expect.any(Number) },
      },
    })
    for (const key of ["meanSize", "meanSizeOverTime", "sizeHistogram", "regret"])
      expect(Object.keys(result[key] as object)).toEqual(["user", "item"])
    for (const key of ["accuracy", "loss", "majorityAccuracy", "embeddingBytes", "heldBytes", "interactionsPerSecond"])
      expect(result[key], key).toBeGreaterThan(0)
    expect(result.peakRssBytes).toBeGreaterThan(20e6)
    const { rows, indicators, met } = result.memory as Record<string, number>
    expect(rows).toBeGreaterThanOrEqual(result.heldBytes as number)
    expect(indicators, "what dess-fre keeps of an id is in its row").toBe(0)
    expect(met, "only the top-k task keeps it").toBe(0)
  })

  test("shows what was asked for: method, task, head, protocol, order, seed", async () => {
    const path = file(csv(ROWS))
    const told = { method: "random-grow", task: "multiclass", model: "mf", protocol: "prequential", order: "shuffled" }
    const flags = Object.entries({ ...told, preset: "paper", recipe: "paper", seed: 7 }).flatMap(([name, value]) => [
      `--${name}`,
      String(value),
    ])
    const result = parse(await dess(onFile(path, ...flags, "--probability", "0.3,0.9", "--limit", "300")))
    expect(result).toMatchObject({ ...told, preset: "paper", recipe: "paper", seed: 7, interactions: 300, segments: 3 })
    const { user, item } = result.meanSize as { user: number; item: number }
    expect(item, "more of the items grow").toBeGreaterThan(user)
  })

  test("says the recipe and the head that were run, not the defaults, and keeps to price and budget", async () => {
    const small = [...SMALL, "--json"]
    const [esapn, distance, held, free, dear] = await Promise.all([
      dess([...small, "--method", "esapn"]),
      dess([...small, "--method", "fixed-4", "--model", "distance"]),
      dess([...small, "--memory-budget", "72KB"]),
      dess(small),
      dess([...small, "--price", "1"]),
    ])
    expect(parse(esapn)).toMatchObject({ recipe: "paper", model: "ncf" })
    expect(parse(distance)).toMatchObject({ recipe: "paper", model: "distance" })
    expect(parse(held).heldBytes).toBeLessThanOrEqual(73_728)
    expect(Object.keys(parse(held))).toEqual(Object.keys(parse(free)))
    expect(parse(dear).embeddingBytes).toBeLessThan(0.5 * Number(parse(free).embeddingBytes))
  })

  test("says which γ Corollary 1 chose, and nothing where none was asked for", async () => {
    const auto = [...SMALL, "--json", "--discount", "auto", "--variation", "2"]
    const table = auto.filter((word) => word !== "--json")
    const [chosen, fixed, shown] = await Promise.all([
      ...[auto, [...auto, "--method", "never-grow"], table].map((words) => dess(words)),
    ])
    const { discount, interactions } = parse(chosen)
    expect(discount).toBeCloseTo(1 - (2 / (Math.sqrt(2) * Number(interactions))) ** 0.4, 12)
    expect(parse(fixed)).not.toHaveProperty("discount")
    expect(shown.stdout).toContain(`discount γ       ${Number(discount).toFixed(6)} (Corollary 1)`)
  })

  test("gives the same object twice and for any number of threads, the clock aside", async () => {
    const [one, again, two, other] = (
      await Promise.all([
        dess([...SMALL, "--json"]),
        dess([...SMALL, "--json"]),
        dess([...SMALL, "--json", "--threads", "2"]),
        dess([...SMALL, "--json", "--seed", "2"]),
      ])
    ).map((outcome) => untimed(parse(outcome)))
    expect(again).toBe(one)
    expect(two).toBe(one)
    expect(other).not.toBe(one)
  })

  test("--recipe paper has the paper's ladder: 222 numbers in slices and 6 weights", async () => {
    const words = ["run", "--interactions", "1000", "--recipe", "paper", "--method", "darts", "--json"]
    expect(parse(await dess(words))).toMatchObject({ meanSize: { user: 228, item: 228 } })
  })

  test.each(["plain-popular", "plain-trending", "plain-knn", "isgd", "ease", "dess-fre"])(
    "--task topk with %s has recall, ndcg and k instead of accuracy and loss",
    async (method) => {
      const result = parse(await dess([...SMALL, "--task", "topk", "--k", "5", "--method", method, "--json"]))
      const rating = ["accuracy", "loss", "majorityAccuracy", "liked", "vectorsSave"]
      const keys = [
        ...[...KEYS, ...EXTRAS].filter((key) => !rating.includes(key)),
        "recall",
        "ndcg",
        "popularRecall",
        "popularNdcg",
        "k",
        "recallCeiling",
      ]
      expect(Object.keys(result).toSorted()).toEqual(keys.toSorted())
      expect(result).toMatchObject({
        k: 5,
        task: "topk",
        lastQuarter: { recall: expect.any(Number), ndcg: expect.any(Number) },
      })
      expect(result.recall).toBeGreaterThan(0)
    },
  )

  test("keeps V8's young generation small: it would grow to 32 MB, more than all vectors take", async () => {
    const probe = `import v8 from "node:v8"
      const young = () => v8.getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size
      process.on("exit", () => console.error("young generation " + young()))`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(probe)}` }
    const { stderr } = await dess(["run", "--interactions", "100000", "--threads", "1", "--json"], { env })
    const bytes = Number(/young generation (\d+)/.exec(stderr)?.[1])
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThanOrEqual(4 * 1024 * 1024)
  })

  test("--out writes the object and one line per segment, and leaves nothing half-written", async () => {
    const out = join(FOLDER, "deep", "results")
    const printed = parse(await dess([...SMALL, "--json", "--out", out]))
    expect(readdirSync(out).toSorted()).toEqual(["result.json", "segments.jsonl"])
    expect(JSON.parse(readFileSync(join(out, "result.json"), "utf8"))).toEqual(printed)
    const lines = readFileSync(join(out, "segments.jsonl"), "utf8").trimEnd().split("\n")
    const segments = lines.map((line) => JSON.parse(line) as SegmentReport)
    expect(segments.map(({ segment }) => segment)).toEqual([1, 2, 3])
    expect(segments[2].regret).toEqual(printed.regret)
    expect(segments[2].sizeHistogram).toEqual(printed.sizeHistogram)
  })
})

describe.concurrent("what a person reads", () => {
  test("a run ends with a table of its figures", async () => {
    const { code, stdout, stderr } = await dess(SMALL)
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    for (const part of [/^dess-fre/, /600 in 3 segments/, /accuracy +\d+\.\d\d %/, /loss +0\.\d{4}/, /interactions\/s/])
      expect(stdout).toMatch(part)
  })

  test("no escape codes when piped, some when forced, none again with NO_COLOR", async () => {
    const args = [...SMALL, "--method", "plain-bias"]
    const [piped, forced, refused] = await Promise.all([
      dess(args),
      dess(args, { env: { FORCE_COLOR: "1" } }),
      dess(args, { env: { FORCE_COLOR: "1", NO_COLOR: "1" } }),
    ])
    const code = "\u001b["
    expect(piped.stdout + piped.stderr).not.toContain(code)
    expect(forced.stdout).toContain(code)
    expect(refused.stdout).not.toContain(code)
  })

  test("--help names every option and gives examples", async () => {
    const { code, stdout } = await dess(["run", "--help"])
    expect(code).toBe(0)
    expect(stdout).toMatch(/Examples\n( +dess run.*\n){2,}/)
    expect((await dess(["run", "-h"])).stdout).toBe(stdout)
  })

  test("without a command it lists the commands, and the version is the package's", async () => {
    const [bare, help, version] = await Promise.all([dess([]), dess(["--help"]), dess(["--version"])])
    expect(bare).toMatchObject({ code: 0, stdout: help.stdout })
    expect(help.stdout).toMatch(/\n {2}run +\S/)
    expect(help.stdout).toMatch(/\n {2}demo +\S/)
    const { version: want } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
      version: string
    }
    expect(version.stdout).toBe(`${want}\n`)
  })

  test("a reader that goes away is no error", async () => {
    const outcome = await dess([...SMALL, "--method", "plain-bias"], { started: ({ stdout }) => stdout?.destroy() })
    expect(outcome).toEqual({ code: 0, signal: null, stdout: "", stderr: "" })
  })

  test("demo ends with tables of predictions and lists that fit a terminal of 80 columns, random-grow at the bytes of DESS", async () => {
    const out = join(FOLDER, "demo")
    const { code, stdout, stderr } = await dess(["demo", "--interactions", "3000", "--out", out])
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
    const [predictions, lists] = stdout.split("\nLists: ")
    for (const name of "dess-fre random-grow uniform-16 fixed-128 plain-bias dess-cv".split(" "))
      expect(predictions).toMatch(new RegExp(`\n${name}`))
    for (const name of "dess-fre fixed-128 plain-neighbours plain-knn plain-popular".split(" "))
      expect(lists).toMatch(new RegExp(`\n${name} +0\\.\\d{4} +0\\.\\d{4} `))
    expect(predictions).toContain("(3,000 events)")
    const longest = Math.max(...stdout.split("\n").map((line) => line.length))
    expect(longest).toBeLessThanOrEqual(80)
    expect(readFileSync(join(out, "demo.md"), "utf8")).toMatch(/\| dess-fre \|/)
    expect(readFileSync(join(out, "demo.html"), "utf8").match(/<svg/g)).toHaveLength(2)
    const results = JSON.parse(readFileSync(join(out, "demo.json"), "utf8")) as {
      name: string
      result: { rowBytesOverTime: { user: number; item: number } }
    }[]
    const entry = (prefix: string) => results.find(({ name }) => name.startsWith(prefix))
    const bytes = (prefix: string) => entry(prefix)?.result.rowBytesOverTime ?? { user: 0, item: 0 }
    const [random, target] = [bytes("random-grow"), bytes("dess-fre")]
    // Equal to 2 %, or the name says that it could not be.
    const holds = (side: "user" | "item") => {
      const ratio = random[side] / target[side]
      return Math.abs(ratio - 1) <= 0.02 ? "equal" : ratio > 1 ? "more" : "less"
    }
    const [user, item] = [holds("user"), holds("item")]
    expect(entry("random-grow")?.name).toBe(
      `random-grow (${user === item ? user : `${user} user, ${item} item`} bytes)`,
    )
  })
})

describe("Ctrl-C", () => {
  test("ends with what was measured so far and exit code 130", async () => {
    const out = join(FOLDER, "interrupted")
    const args = [
      "run",
      "--interactions",
      "5000000",
      "--method",
      "never-grow",
      "--sizes",
      "2,4",
      "--threads",
      "1",
      "--json",
      "--out",
      out,
    ]
    let outcome: Outcome | undefined
    // Sent too early it ends a process that has not begun: then wait longer.
    for (let wait = 1200; wait < 20_000 && (outcome === undefined || outcome.signal === "SIGINT"); wait *= 2)
      outcome = await dess(args, { started: (child) => setTimeout(() => child.kill("SIGINT"), wait) })
    expect(outcome).toMatchObject({ code: 130, signal: null })
    const result = JSON.parse(outcome?.stdout ?? "") as Record<string, number>
    expect(outcome?.stderr).toBe(`dess: stopped after ${result.interactions} interactions; the figures are of these\n`)
    expect(result.interrupted).toBe(true)
    expect(result.interactions).toBeGreaterThan(0)
    expect(result.interactions).toBeLessThan(5_000_000)
    expect(result.interactions).toBe(500 * result.segments)
    expect(result.accuracy).toBeGreaterThan(0)
    const lines = readFileSync(join(out, "segments.jsonl"), "utf8").trimEnd().split("\n")
    expect(lines).toHaveLength(result.segments)
  })
})

describe("Ctrl-C of the demo", () => {
  test("ends with a table of what was measured so far and exit code 130", async () => {
    const out = join(FOLDER, "interrupted demo")
    let outcome: Outcome | undefined
    for (let wait = 1500; wait < 20_000 && (outcome === undefined || outcome.signal === "SIGINT"); wait *= 2)
      outcome = await dess(["demo", "--interactions", "5000000", "--out", out], {
        started: (child) => setTimeout(() => child.kill("SIGINT"), wait),
      })
    expect(outcome).toMatchObject({ code: 130, signal: null, stderr: "" })
    expect(outcome?.stdout).toMatch(/\ndess-fre, first \d[\d,]* /)
    expect(outcome?.stdout).toContain("stopped before the end")
    const results = JSON.parse(readFileSync(join(out, "demo.json"), "utf8")) as { whole: boolean }[]
    expect(results.map(({ whole }) => whole)).toEqual([false])
  })
})

describe("files that are not as they should be are read all the same", () => {
  const figures = async (path: string, ...more: string[]) => {
    const { liked: _, ...result } = JSON.parse(await printed(onFile(path, ...more)))
    return untimed(result)
  }
  const rows = (change: (row: (typeof ROWS)[number], r: number) => readonly unknown[]) => csv(ROWS.map(change))
  let [plain, want] = ["", ""]

  beforeAll(async () => {
    plain = file(csv(ROWS))
    want = await figures(plain)
  })

  test.each<[string, string]>([
    ["line ends of Windows", csv(ROWS, "\r\n")],
    ["a byte order mark", `\ufeff${csv(ROWS)}`],
    ["both", `\ufeff${csv(ROWS, "\r\n")}`],
    ["no line end at the end", csv(ROWS).trimEnd()],
    ["timestamps in milliseconds", rows(([user, item, rating, time]) => [user, item, rating, 1000 * time])],
    [
      "timestamps out of order",
      csv(ROWS.map(([u, i, x], r) => [u, i, x, 1e9 + r]).toSorted((a, b) => (a[3] % 7) - (b[3] % 7))),
    ],
    [
      "another order of columns",
      ["rating,timestamp,item_id,user_id", ...ROWS.map(([u, i, x, t]) => `${x},${t},${i},${u}`)].join("\n"),
    ],
  ])("%s: the same figures", async (_, text) => {
    expect(await figures(file(text))).toBe(want)
  })

  test("ratings on another scale, once it is declared", async () => {
    const doubled = file(rows(([user, item, rating, time]) => [user, item, 2 * rating, time]))
    expect(await figures(doubled, "--rating-scale", "0-10")).toBe(want)
    await expect(printed(onFile(doubled))).rejects.toThrow(/rating: expected a number from 0 to 5, .*--rating-scale/)
    const lower = await figures(doubled, "--rating-scale", "0-10", "--like-threshold", "5")
    expect(lower).toBe(await figures(plain, "--like-threshold", "2.5"))
    expect(lower).not.toBe(want)
    const readLiked = async (...more: string[]) =>
      (await printed(["run", "--data", doubled, "--method", "plain-bias", "--rating-scale", "0-10", ...more])).match(
        /liked +(.*)/,
      )?.[1]
    expect(await readLiked()).toBe("a rating above 7 (scale 0-10)")
    expect(JSON.parse(await printed(onFile(doubled, "--rating-scale", "0-10"))).liked).toEqual({
      above: 7,
      scale: { min: 0, max: 10 },
    })
    expect(await readLiked("--like-threshold", "5.5")).toBe("a rating above 5.5 (scale 0-10)")
    expect(await readLiked("--task", "multiclass")).toBeUndefined()
  })

  test("a MovieLens folder brings its genres, so that dess-cv runs", async () => {
    const folder = join(file(csv(ROWS)), "..")
    const movies = Array.from({ length: 60 }, (_, i) => `${i},Film ${i} (1999),${i % 2 === 0 ? "Drama|War" : "Comedy"}`)
    writeFileSync(join(folder, "movies.csv"), `movieId,title,genres\n${movies.join("\n")}\n`)
    const result = JSON.parse(await printed(onFile(folder, "--method", "dess-cv"))) as object
    expect(result).toMatchObject({ method: "dess-cv", data: "films", interactions: 500 })
  })
})

describe.concurrent("bad input is refused with exit code 2", () => {
  test("a folder without ratings", async () => {
    const folder = join(FOLDER, "empty folder")
    mkdirSync(folder)
    const expected = /data folder: expected ratings\.dat, ratings\.csv, u\.data.*, got none/
    expectRefused(await dess(onFile(folder)), expected, /empty folder/)
  })

  test("a zip or Parquet file that is none", async () => {
    for (const name of ["films.zip", "films.parquet"]) {
      writeFileSync(join(FOLDER, name), "<html>404</html>")
      const expected = /data file: expected (zip|parquet) as its name says, got other bytes; .*films\./
      expectRefused(await dess(onFile(join(FOLDER, name))), expected)
    }
  })

  test.runIf(process.platform === "linux")("a standard output that is full", async () => {
    const args = ["-c", 'exec "$0" "$@" > /dev/full', process.execPath, join("dist", "bundle", "main.js"), ...SMALL]
    const { status, stderr } = spawnSync("sh", args, { cwd: join(import.meta.dirname, "../.."), encoding: "utf8" })
    expect(stderr).toMatch(/^dess: standard output: expected to write to it, got ENOSPC[^\n]+\n$/)
    expect(status).toBe(2)
  })

  const line = (row: string) => csv(ROWS).split("\n").with(200, row).join("\n")
  test.each<[string, string, RegExp]>([
    [
      "a missing column",
      csv(ROWS).replace("movieId", "film-or-so"),
      /expected .*movieid.*, got .*film-or-so.*ratings\.csv, line 1/,
    ],
    [
      "a rating that is not a number",
      line("1,2,abc,1000000000"),
      /rating: expected a number, got "abc" \(.*ratings\.csv, line 201\)/,
    ],
    ["a timestamp that is none", line("1,2,3,soon"), /timestamp: expected .*, got "soon" \(.*ratings\.csv, line 201\)/],
    ["a half line at the end", `${csv(ROWS)}7,9`, /line: expected 4 fields, got 2: "7 9" \(.*ratings\.csv, line 502\)/],
    ["an empty file", "", /data file: expected .*, got an empty file \(.*ratings\.csv\)/],
    ["a header alone", `${HEADER}\n`, /data file: expected interactions, got none \(.*ratings\.csv\)/],
  ])("%s", async (_, text, message) => {
    expectRefused(await dess(onFile(file(text))), message)
  })

  test("dess-cv on data without features, naming dess-fre", async () => {
    expectRefused(
      await dess(["run", "--data", file(csv(ROWS)), "--method", "dess-cv"]),
      /dess-cv: expected items with features, this data has none; use dess-fre/,
    )
  })

  test.each<[string, RegExp]>([
    ["dance", /command: expected one of run, .*, got "dance"/],
    ["run --method dance", /method: expected one of dess-cv, .*, got "dance"/],
    ["run --dance", /--dance/],
    ["run dance", /dance/],
    ["run --segment 0", /--segment: expected a whole number from 1 to 10000000, got "0"/],
  ])("dess %s", async (args, message) => {
    expectRefused(await dess(args.split(" ")), message)
  })

  test.each(["run", "demo"])("an --out of dess %s that cannot be written, before anything is run", async (name) => {
    const out = join(file("not a folder"), "results")
    const outcome = await dess([name, "--interactions", "5000000", "--out", out])
    expectRefused(outcome, /--out: expected a folder that can be written, got/)
  })
})

describe("options outside their domain are refused with what was expected and what came", () => {
  test.each<[string, RegExp]>([
    ["run --seed", /--seed/],
    ["run --seed x", /--seed: expected a whole number, got "x"/],
    ["run --limit 1.5", /--limit: expected a whole number from 1, got "1.5"/],
    ["run --sizes 4,2 --method never-grow", /sizes: expected strictly increasing/],
    ["run --sizes 2,,4", /--sizes: expected values with commas between them, got "2,,4"/],
    ["run --task rank", /task: expected binary or multiclass or topk, got "rank"/],
    ["run --model cnn", /model: expected ncf or mf or distance, got "cnn"/],
    ["run --preset best", /preset: expected paper or calibrated, got "best"/],
    ["run --recipe best", /recipe: expected paper or calibrated, got "best"/],
    ["run --protocol best", /protocol: expected split or prequential or next, got "best"/],
    ["run --norm layer", /norm: expected running or batch, got "layer"/],
    ["run --order up", /--order: expected time or shuffled, got "up"/],
    ["run --threads 0", /threads: expected a whole number from 1/],
    ["run --method random-grow --probability 1,2", /--probability: expected a number from 0 to 1, got "2"/],
    ["run --probability 1,1,1", /--probability: expected one number or 2, got "1,1,1"/],
    [
      "run --method fixed-8 --probability 0.5",
      /probability: expected with method random-grow only, got method fixed-8/,
    ],
    ["run --data nowhere.csv --method dance", /method: expected one of dess-cv, .*, got "dance"/],
    ["run --data nowhere.csv --method plain-knn", /plain-knn: expected with the top-k task only, got binary/],
    ["run --segment 1", /segment: expected at least 2 with the split protocol, .*, got 1/],
    ["run --segment 100000000000", /--segment: expected a whole number from 1 to 10000000, got "100000000000"/],
    ["run --interactions 1e15", /interactions: expected a number from 1 to 1000000000, got 1000000000000000/],
    ["run --method fixed-99999", /sizes: expected strictly increasing whole numbers up to 65536 .*, got \[99999\]/],
    ["run --method uniform-3", /expected uniform-<s> with s one of the sizes/],
    ["run --method plain-knn", /plain-knn: expected with the top-k task only, got binary/],
    ["run --price x", /--price: expected a number from 0, got "x"/],
    ["run --price -1", /--price/],
    ["run --memory-budget 12q", /--memory-budget: expected bytes or a text such as 256MB, got "12q"/],
    ["run --memory-budget 1KB", /memory budget: expected at least \d+ bytes, got 1024/],
    [
      "run --method fixed-8 --price 1e-4",
      /price: expected with method dess-\* or never-grow or always-grow or random-grow, recipe calibrated, preset calibrated only, got method fixed-8/,
    ],
    [
      "run --model ncf --memory-budget 1MB",
      /memory budget: expected with method dess-\*, .* only, got recipe paper, preset paper/,
    ],
    ["run --interactions 0", /interactions: expected a whole number/],
    ["run --columns user=1", /data columns: expected with a file or folder, got it with "synthetic"/],
    ["run --discount auto", /discount auto: expected with a variation, got none; .*--variation <B>/],
    ["run --variation 5", /variation: expected with discount auto only/],
    ["run --rating-scale 0-10", /data rating scale: expected with a file or folder/],
    ["run --data ratings.csv --rating-scale 10", /rating scale: expected two numbers like 0-10, .*, got "10"/],
    [
      "run --data ratings.csv --items 5",
      /data items: expected with the synthetic stream only, got it with "ratings.csv"; use limit/,
    ],
    ["run --data ml-1m", /got nothing at ml-1m; to fetch it: dess prepare ml-1m --out ml-1m/],
    ["run --data nowhere.csv", /data: expected a file or folder, got nothing at nowhere.csv/],
    ["demo --interactions x", /--interactions: expected a whole number from 1, got "x"/],
    ["demo --sizes 2", /--sizes/],
  ])("dess %s", async (args, message) => {
    const error: unknown = await printed(args.split(" ")).catch((caught: unknown) => caught)
    // The two kinds of error that the command turns into one line and exit code 2.
    const code = error instanceof DessError ? "DessError" : (error as NodeJS.ErrnoException).code
    expect(code).toMatch(/^(DessError|ERR_PARSE_ARGS_\w+)$/)
    expect((error as Error).message).toMatch(message)
  })

  test.each<[string, string, RegExp]>([
    ["a rating off the scale", "1,2,17,1000000000", /rating: expected a number from 0 to 5, got "17" \(.*line 502\)/],
    ["a user without an id", ",2,3,1000000000", /user: expected an id, got "" \(.*ratings\.csv, line 502\)/],
    ["a line that is no text", "1,2,3,4\0", /data file: expected text, got a NUL byte \(.*ratings\.csv, line 502\)/],
  ])("%s in a file", async (_, row, message) => {
    await expect(printed(onFile(file(`${csv(ROWS)}${row}\n`)))).rejects.toThrow(message)
  })
})
