/** What the commands share of the terminal: tables, a progress bar on stderr, colours that know when to stay away. */

import type { ReplayProgress } from "../engine/types.ts"

const colours = (stream: { isTTY?: boolean }): boolean =>
  process.env.NO_COLOR ? false : process.env.FORCE_COLOR ? true : stream.isTTY === true

export function bold(text: string): string {
  return colours(process.stdout) ? `\u001b[1m${text}\u001b[22m` : text
}

export function dim(text: string): string {
  return colours(process.stdout) ? `\u001b[2m${text}\u001b[22m` : text
}

/** Text from outside, without the control characters that could move the cursor. */
export function plain(text: string): string {
  return [...text].map((c) => (c < " " || (c >= "\u007f" && c < "\u00a0") ? "�" : c)).join("")
}

export interface TableColumn {
  title: string
  align?: "left" | "right"
  /** Neighbours of one group stand under its name. */
  group?: string
}

/** Lines of a table with aligned columns. */
export function formatTable(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map((column, c) => Math.max(column.title.length, ...rows.map((row) => row[c].length)))
  const groups = formatGroups(columns, widths)
  const pad = (text: string, c: number) =>
    columns[c].align === "right" ? text.padStart(widths[c]) : text.padEnd(widths[c])
  const head = bold(columns.map((column, c) => pad(column.title, c)).join("  "))
  const rule = dim(widths.map((width) => "─".repeat(width)).join("  "))
  return [...groups, head, rule, ...rows.map((row) => row.map(pad).join("  ").trimEnd())].join("\n")
}

/** The line of group names, if there are any; columns become wider where a name needs it. */
function formatGroups(columns: readonly TableColumn[], widths: number[]): string[] {
  if (columns.every(({ group }) => group === undefined)) return []
  const parts: string[] = []
  for (let c = 0, next = 0; c < columns.length; c = next) {
    const { group = "" } = columns[c]
    while (next < columns.length && (columns[next].group ?? "") === group) next++
    const width = widths.slice(c, next).reduce((sum, each) => sum + each + 2, -2)
    widths[next - 1] += Math.max(0, group.length - width)
    parts.push(group.padStart(Math.max(width, group.length)))
  }
  return [bold(parts.join("  "))]
}

/** The same table as Markdown. */
export function formatMarkdown(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`
  const rule = line(columns.map((column) => (column.align === "right" ? "---:" : "---")))
  return [line(columns.map((column) => column.title)), rule, ...rows.map(line)].join("\n")
}

export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"]
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)))
  const value = bytes / 1000 ** step
  return `${value.toFixed(step === 0 || value >= 100 ? 0 : 1)} ${units[step]}`
}

/** A measure with four digits, a dash where nothing was tested. */
export function formatMeasure(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toFixed(4)
}

/** A measure in percent, a dash where nothing was tested. */
export function formatPercent(share: number | null | undefined): string {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(2)} %`
}

/** A bar and its percentage. */
export function formatBar(share: number, width = 24): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * width)
  return `${"█".repeat(full).padEnd(width, "░")} ${(100 * share).toFixed(0).padStart(3)} %`
}

/**
 * A bar on stderr that appears when a job takes longer than a moment. Where stderr is no terminal: nothing, or with `pause`
 * a line at this interval, in milliseconds.
 */
export class Progress {
  readonly #label: string
  readonly #total: number | undefined
  readonly #pause: number
  readonly #started = performance.now()
  #drawn = 0

  constructor(label: string, total?: number, pause = Number.POSITIVE_INFINITY) {
    this.#label = label
    this.#total = total
    this.#pause = pause
  }

  /** `share`: how much of all that is, where a total does not say it. */
  update(done: number, share = this.#total ? Math.min(1, done / this.#total) : undefined): void {
    const now = performance.now()
    const { isTTY } = process.stderr
    const [after, every] = isTTY ? [700, 100] : [this.#pause, this.#pause]
    if (now - this.#started < after || now - this.#drawn < every) return
    this.#drawn = now
    const seconds = (now - this.#started) / 1000
    const bar = share === undefined ? "" : `${formatBar(share)}, `
    const left = share ? `, ${formatSeconds((seconds * (1 - share)) / share)} left` : ""
    const rate = `${Math.round(done / seconds).toLocaleString("en")}/s`
    const text = `${this.#label} ${bar}${done.toLocaleString("en")}, ${rate}${left}`
    process.stderr.write(isTTY ? `\r\u001b[K${text}` : `dess: ${text}\n`)
  }

  done(): void {
    if (this.#drawn > 0 && process.stderr.isTTY) process.stderr.write("\r\u001b[K")
  }
}

/** How far a replay of the journal is, on stderr: a line that moves on a terminal, else one after two seconds and every ten. */
export class ReplayLine {
  readonly #label: string
  #reported: number | undefined
  #isDrawn = false
  #latest: ReplayProgress | undefined

  constructor(label: string) {
    this.#label = label
  }

  /** How far it is, in words; undefined when there is no replay under way. */
  get reached(): string | undefined {
    if (!this.#latest) return undefined
    const { events, share } = this.#latest
    return `${(100 * share).toFixed(0)} % of the journal, ${events.toLocaleString("en")} events`
  }

  update(progress: ReplayProgress): void {
    this.#latest = progress
    const { events, share, elapsed, remaining } = progress
    const [first, pause] = process.stderr.isTTY ? [1000, 200] : [2000, 10_000]
    if (elapsed < (this.#reported === undefined ? first : this.#reported + pause)) return
    this.#reported = elapsed
    const left = remaining === null ? "" : `, ${formatSeconds(remaining / 1000)} left`
    const rate = Math.round((1000 * events) / elapsed).toLocaleString("en")
    const text = `${this.#label} ${formatBar(share)}, ${events.toLocaleString("en")} events, ${rate}/s${left}`
    this.#isDrawn = process.stderr.isTTY
    process.stderr.write(process.stderr.isTTY ? `\r\u001b[K${text}` : `${text}\n`)
  }

  done(): void {
    if (this.#isDrawn) process.stderr.write("\r\u001b[K")
    this.#isDrawn = false
    this.#latest = undefined
  }
}

export function formatSeconds(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`
}

/** Reports that a data file was not UTF-8. */
export function noteLatin1(path: string): void {
  process.stderr.write(
    `dess: ${plain(path)} is not UTF-8 and is read as Latin-1; save it as UTF-8 if names look wrong\n`,
  )
}
