/** The script a report carries: sorts its tables, draws its figures, offers their data. */

import "../style.css"
import type { Figure } from "../../src/figures/figure.ts"
import { find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { offerFile } from "../components/offer-file.ts"
import { makeSortable } from "../components/sortable.ts"
import { startThemeSwitch } from "../components/theme.ts"

startThemeSwitch(find("header.page .theme"))
for (const table of document.querySelectorAll("table")) makeSortable(table)
const data = find("#figures").textContent ?? "[]"
for (const figure of JSON.parse(data) as Figure[]) {
  const holder = document.getElementById(figure.id)
  if (holder) new FigureView(figure, holder)
}
find(".downloads button").addEventListener("click", () => offerFile("figures.json", data))
