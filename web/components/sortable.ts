/** Tables that sort by a click or a key on a column's head; a third one brings back the order they came in. */

import { element } from "./element.ts"

const DIRECTIONS = ["none", "descending", "ascending"] as const
type Direction = (typeof DIRECTIONS)[number]

export function makeSortable(table: HTMLTableElement): void {
  const body = table.tBodies[0]
  const heads = [...(table.tHead?.rows[table.tHead.rows.length - 1].cells ?? [])]
  const original = [...body.rows]
  for (const [column, head] of heads.entries()) {
    const text = head.classList.contains("text")
    const order: readonly Direction[] = text ? ["none", "ascending", "descending"] : DIRECTIONS
    const button = head.querySelector("button") ?? element("button", { type: "button", class: "sort" })
    if (button.parentNode === null) {
      button.append(...head.childNodes)
      head.append(button)
    }
    head.setAttribute("aria-sort", "none")
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort") as Direction
      const next = order[(order.indexOf(now) + 1) % order.length]
      for (const other of heads) other.setAttribute("aria-sort", "none")
      head.setAttribute("aria-sort", next)
      table.classList.toggle("sorted", next !== "none")
      body.append(...sortRows(original, column, text, next))
    })
  }
}

/** Rows without a value stay last in both directions. */
function sortRows(rows: HTMLTableRowElement[], column: number, text: boolean, direction: Direction) {
  if (direction === "none") return rows
  const sign = direction === "ascending" ? 1 : -1
  const read = (row: HTMLTableRowElement) => row.cells[column].textContent ?? ""
  if (text)
    return rows.toSorted((a, b) => sign * read(a).localeCompare(read(b), "en", { numeric: true, sensitivity: "base" }))
  return rows.toSorted((a, b) => {
    const [left, right] = [readNumber(read(a)), readNumber(read(b))]
    if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right))
    return sign * (left - right)
  })
}

/** The first number of a cell such as "65.84 ± 0.85**", "−0.02", "1,200" or "p < .001"; NaN where there is none. */
export function readNumber(text: string): number {
  const found = /[-−+]?(?:\d[\d,]*\.?\d*|\.\d+)/.exec(text)
  return found ? Number(found[0].replaceAll(",", "").replace("−", "-")) : Number.NaN
}
