/** `dess compare` as a person runs it: real processes, killed and started again. */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { runCell } from "../../src/experiments/cell-run.ts"
import { type DoneRecord, RESULTS_FILE, readResults } from "../../src/experiments/results.ts"
import { buildCommand, dess } from "../support/command.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-compare-cli-"))
beforeAll(buildCommand)
afterAll(() => rmSync(FOLDER, { recursive: true }))

const TINY = ["compare", "--interactions", "1500", "--segment", "100", "--sizes", "2,4"]
const linesOf = (out: string) => {
  const file = join(out, RESULTS_FILE)
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : []
}

async function until(true_: () => boolean): Promise<void> {
  for (let i = 0; i < 2000 && !true_(); i++) await sleep(10)
  if (!true_()) throw new Error("waited in vain")
}

/** The processes a process has started, where the system tells. */
function childrenOf(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`
  return existsSync(file) ? readFileSync(file, "utf8").trim().split(" ").filter(Boolean).map(Number) : []
}

describe("a comparison in processes", () => {
  test("that is killed with kill -9 leaves no process behind, keeps what was finished and computes only the rest", async () => {
    const out = join(FOLDER, "killed")
    const args = [...TINY, "--methods", "dess-fre,fixed-8", "--no-controls", "--seeds", "3", "--out", out, "--json"]
    let children: number[] = []
    const killed = await dess([...args, "--jobs", "2"], {
      started: async (child) => {
        await until(() => linesOf(out).length >= 2)
        children = childrenOf(child.pid!)
        child.kill("SIGKILL")
      },
    })
    expect(killed.signal).toBe("SIGKILL")
    await until(() => children.every((pid) => !existsSync(`/proc/${pid}`)))
    const before = linesOf(out)
    expect(before.length).toBeGreaterThanOrEqual(2)
    expect(before.length).toBeLessThan(6)
    writeFileSync(join(out, RESULTS_FILE), `${before.join("\n")}\n{"key":"half a li`)
    const again = await dess([...args, "--jobs", "1"])
    expect(again.code).toBe(0)
    expect(JSON.parse(again.stdout)).toMatchObject({ cells: 6, kept: before.length, computed: 6 - before.length })
    expect(linesOf(out).slice(0, before.length)).toEqual(before)
    expect(linesOf(out)).toHaveLength(6)

    // Whoever ran it, with however many others: the figures are those of a run alone.
    for (const record of readResults(out).slice(-2) as DoneRecord[]) {
      const alone = await runCell({ cell: record.cell, threads: 2 })
      if (alone.status !== "done") throw new Error("expected a finished run")
      const figures = ({ result }: Pick<DoneRecord, "result">) => {
        const { milliseconds: _, interactionsPerSecond: __, peakRssBytes: ___, ...same } = result
        return same
      }
      expect(figures(record)).toEqual(figures(alone))
      expect(record.series).toEqual(alone.series)
    }
  })

  test.each([
    ["--task", "topk", "--ranking", "bpr", "--discount", "auto", "--variation", "2", "--order", "shuffled"],
    ["--task", "binary", "--recipe", "paper", "--norm", "batch", "--discount", "0.9", "--protocol", "prequential"],
    ["--task", "binary", "--price", "1e-4", "--memory-budget", "256KB"],
  ])("gives the figures of dess run with the same flags: %s %s, …", async (...flags) => {
    const file = join(FOLDER, "odd.csv")
    const rows = Array.from({ length: 600 }, (_, i) => `u${i % 7},i${(i * i) % 31},${(i % 10) / 2 + 0.5},${i}`)
    writeFileSync(file, ["who,what,how,when", ...rows].join("\n"))
    const columns = "user=who,item=what,rating=how,timestamp=when"
    const common = ["--data", file, "--columns", columns, "--sizes", "2,4", "--segment", "100", ...flags]
    const out = mkdtempSync(join(FOLDER, "same-"))
    const one = ["compare", ...common, "--methods", "dess-fre", "--no-controls", "--seeds", "1", "--out", out]
    const [compared, ran] = await Promise.all([
      dess(one),
      dess(["run", ...common, "--method", "dess-fre", "--threads", "1", "--json"]),
    ])
    const said = 'dess: odd: columns: user from "who", item from "what", rating from "how", timestamp from "when"\n'
    expect(compared.stderr).toContain(said)
    expect([compared.code, ran.stderr, ran.code]).toEqual([0, said, 0])
    const [record] = readResults(out) as DoneRecord[]
    const figures = ({ recall, ndcg, accuracy, loss, regret, embeddingBytes }: DoneRecord["result"]) => ({
      ...{ recall, ndcg, accuracy, loss, regret, embeddingBytes },
    })
    expect(figures(record.result)).toEqual(figures(JSON.parse(ran.stdout) as DoneRecord["result"]))
  })

  test("stops cleanly at Ctrl-C with exit code 130 and says how to go on", async () => {
    const out = join(FOLDER, "interrupted")
    const args = ["compare", "--interactions", "900000", "--methods", "dess-fre", "--seeds", "1", "--out", out]
    let children: number[] = []
    const { code, stdout } = await dess([...args, "--no-controls"], {
      started: async (child) => {
        await until(() => existsSync(join(out, "lock")))
        await sleep(300)
        children = childrenOf(child.pid!)
        child.kill("SIGINT")
      },
    })
    expect(code).toBe(130)
    expect(stdout).toMatch(/0 of 1 cells finished .*; the same command goes on from here/)
    await until(() => children.every((pid) => !existsSync(`/proc/${pid}`)))
    expect(existsSync(join(out, "lock"))).toBe(false)
  })

  test("records failed and impossible cells, distinguishes them, and ends with exit code 1 only for a failure", async () => {
    const good = join(FOLDER, "films.csv")
    const rows = Array.from({ length: 300 }, (_, i) => `u${i % 7},i${i % 31},${(i % 10) / 2 + 0.5},${i}`)
    writeFileSync(good, ["user,item,rating,timestamp", ...rows].join("\n"))
    const bad = join(FOLDER, "broken.csv")
    writeFileSync(bad, "user,item,rating,timestamp\na,b,many,1\n")
    const out = join(FOLDER, "mixed")
    mkdirSync(join(FOLDER, "configs"))
    const config = join(FOLDER, "configs", "grid.json")
    const methods = ["dess-cv", "plain-bias"]
    writeFileSync(config, JSON.stringify({ methods, data: ["../films.csv"], seeds: 1, controls: false, sizes: [2, 4] }))
    const first = await dess(["compare", "--config", config, "--out", out])
    expect(first.stderr).toContain("dess-cv binary mf films seed 1: not possible (dess-cv needs item features")
    expect(first.stdout).toContain("N/A")
    expect(first.code).toBe(0)
    const second = await dess(["compare", "--config", config, "--data", bad, "--methods", "plain-bias", "--out", out])
    expect(second.code).toBe(1)
    expect(second.stdout).toMatch(/failed: plain-bias binary mf broken seed 1 \(.*expected a number.*"many"/)
    expect(
      readResults(out)
        .map(({ status }) => status)
        .sort(),
    ).toEqual(["done", "failed", "unsupported"])
  })
})

describe("the command", () => {
  test("refuses with exit code 2 and one line", async () => {
    const refusals: [string[], RegExp][] = [
      [
        ["--methods", "nonsense"],
        /^dess: method: expected one of .*, got "nonsense"; a method of your own comes with --plugin <file>\n$/,
      ],
      [["--tasks", "binary,,topk"], /^dess: --tasks: expected values with commas between them/],
      [["--seeds", "none"], /^dess: --seeds: expected a whole number from 1 to 1000, got "none"\n$/],
      [["--jobs", "0"], /^dess: --jobs: expected a whole number from 1, got "0"\n$/],
      [["--config", join(FOLDER, "absent.json")], /^dess: --config: expected a JSON file/],
      [["--paper", "table9"], /^dess: --paper: expected table1 or/],
      [["--tables"], /^dess: Unknown option '--tables'/],
    ]
    const outcomes = await Promise.all(refusals.map(([args]) => dess(["compare", ...args])))
    for (const [i, { code, stderr, stdout }] of outcomes.entries()) {
      expect(stderr).toMatch(refusals[i][1])
      expect([code, stdout]).toEqual([2, ""])
    }
  })

  test("prints its help and its schema", async () => {
    const [help, schema] = await Promise.all([dess(["compare", "--help"]), dess(["compare", "--schema"])])
    expect(help.stdout).toMatch(/Usage: dess compare[\s\S]*Examples\n {2}dess compare/)
    expect(JSON.parse(schema.stdout)).toMatchObject({ title: "dess compare grid", additionalProperties: false })
  })
})
