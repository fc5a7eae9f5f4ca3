/** `dess report`, and how `dess compare` looks on a terminal. */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, describe, expect, test, vi } from "vitest"
import { CompareView } from "../../src/cli/compare-view.ts"
import { reportCommand } from "../../src/cli/report.ts"
import { cellKey } from "../../src/experiments/cells.ts"
import { RESULTS_FILE, ResultsFolder } from "../../src/experiments/results.ts"
import { makeCell, makeRecord, makeRecords } from "../support/experiments.ts"

const FOLDER = mkdtempSync(join(tmpdir(), "dess-report-cli-"))
afterAll(() => rmSync(FOLDER, { recursive: true }))
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

function filled(): string {
  const directory = mkdtempSync(join(FOLDER, "r-"))
  const folder = new ResultsFolder(directory)
  for (const [method, value] of Object.entries({ "dess-fre": 0.6, "fixed-128": 0.5, "plain-bias": 0.7 }))
    for (const record of makeRecords({ method }, [value, value + 0.01])) folder.append(record)
  folder.close()
  return directory
}

/** What the command prints. */
async function printed(args: string[]): Promise<string> {
  const log = vi.spyOn(console, "log").mockImplementation(() => {})
  await reportCommand(args)
  const text = log.mock.calls.map(([line]) => String(line)).join("\n")
  log.mockRestore()
  return text
}

describe("dess report", () => {
  test("prints the tables and writes page, Markdown, CSV and figures", async () => {
    vi.stubEnv("NO_COLOR", "1")
    const directory = filled()
    const text = await printed([directory])
    expect(text).toMatch(/Rating prediction\n +toy, binary\nMethod +Accuracy % +Loss\n/)
    expect(text).toContain("dess-fre (60.50 %) is beaten by plain-bias (70.50 %")
    expect(text).toContain("toy, binary, ncf: Memory, sizes, regret and time")
    expect(text).not.toContain("\u001b")
    expect(readdirSync(join(directory, "report")).sort()).toEqual(
      [
        "figures",
        "latex",
        "report.html",
        "report.md",
        "runs.csv",
        "segments.parquet",
        "summary.csv",
        "users.parquet",
      ].sort(),
    )
    expect(readdirSync(join(directory, "report", "figures")).length).toBe(14)
  })

  test("refuses a folder in which nothing has ended, and leaves no half-written file where it cannot write", async () => {
    const empty = mkdtempSync(join(FOLDER, "empty-"))
    new ResultsFolder(empty).close()
    await expect(reportCommand([empty])).rejects.toThrow(/expected at least one finished cell, got none yet/)
    const directory = filled()
    mkdirSync(join(directory, "report", "report.md"), { recursive: true })
    await expect(reportCommand([directory, "--no-figures"])).rejects.toThrow(/report folder: expected one that can be/)
    expect(readdirSync(join(directory, "report")).filter((name) => name.endsWith(".part"))).toEqual([])
  })

  test("gives its tables as JSON, to another folder, without figures", async () => {
    const out = join(FOLDER, "elsewhere")
    const report = JSON.parse(await printed([filled(), "--json", "--no-figures", "--out", out]))
    expect(report.parts[0].tables[0].rows[1].cells[0]).toEqual({ text: "dess-fre" })
    expect(report.parts[0].costs[0].title).toBe("toy, binary, ncf")
    expect(readdirSync(out)).not.toContain("figures")
  })

  test("refuses no folder, two folders, a folder without results and one of another version", async () => {
    await expect(reportCommand([])).rejects.toThrow("dess report: expected one results folder, got []")
    await expect(reportCommand(["a", "b"])).rejects.toThrow('expected one results folder, got ["a","b"]')
    await expect(reportCommand([FOLDER])).rejects.toThrow(
      "results folder: expected results.jsonl of dess compare in it",
    )
    const old = mkdtempSync(join(FOLDER, "old-"))
    writeFileSync(
      join(old, RESULTS_FILE),
      `${JSON.stringify({ ...makeRecord({ method: "x", value: 1 }), version: "9" })}\n`,
    )
    await expect(reportCommand([old])).rejects.toThrow(/got "9"; choose another folder/)
    expect(existsSync(join(old, "report"))).toBe(false)
  })

  test("helps", async () => {
    expect(await printed(["--help"])).toMatch(/Usage: dess report <dir>[\s\S]*Examples\n/)
  })
})

describe("the view of a comparison", () => {
  const cells = ["dess-fre", "fixed-128", "plain-bias"].map((method) => makeCell({ method, data: "a\u001b[2Jb" }))
  const known = new Map(cells.map((cell) => [cellKey(cell), cell]))
  const done = (i: number, milliseconds = 10_000) => ({
    ...makeRecord({ method: cells[i].method, value: 0.6 }),
    key: cellKey(cells[i]),
    cell: cells[i],
    milliseconds,
  })
  let written = ""

  const screen = (isTTY: boolean) => {
    written = ""
    return {
      isTTY,
      columns: 60,
      write: (text: string) => {
        written += text
      },
    }
  }

  test("is a line per finished cell without a terminal", () => {
    const view = new CompareView(known, 2, screen(false))
    view.start(cells[0], cellKey(cells[0]))
    view.progress(cellKey(cells[0]), 50, 100)
    view.end(done(0), false)
    view.end(done(1), true)
    view.end({ ...done(2), status: "failed", message: "no\u001bluck" }, false)
    view.close()
    expect(written).toBe(
      "[1/3] dess-fre binary ncf a�[2Jb seed 1: accuracy 60.00 %, loss 0.4000, 10 s\n" +
        "[3/3] plain-bias binary ncf a�[2Jb seed 1: failed (no�luck), 10 s\n",
    )
  })

  test("on a terminal shows running cells, progress and the time left, and cleans up after itself", () => {
    const view = new CompareView(known, 1, screen(true))
    view.start(cells[0], cellKey(cells[0]))
    view.end(done(0), false)
    expect(written).toContain("1 of 3 cells")
    expect(written).toMatch(/20 s left\n$/)
    view.close()
    expect(written.endsWith("\u001b[1A\u001b[J")).toBe(true)
    for (const line of written.split("\n")) expect(line.replaceAll(/.\[(\dA|J)/g, "").length).toBeLessThan(60)
    expect(
      written
        .split("\u001b")
        .slice(1)
        .every((part) => /^\[(\dA|J)/.test(part)),
    ).toBe(true)
  })
})
