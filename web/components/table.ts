/** A table from rows of texts or elements. */

import { element } from "./element.ts"
import { makeSortable } from "./sortable.ts"

export interface TableColumn {
  title: string
  text?: boolean
}

export function createTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly (string | Node)[])[],
): HTMLTableElement {
  const look = ({ text = false }: TableColumn) => (text ? { class: "text" } : {})
  const heads = columns.map((column) => element("th", { scope: "col", ...look(column) }, column.title))
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell, i) => element("td", look(columns[i]), cell))))
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body))
  makeSortable(table)
  return table
}
