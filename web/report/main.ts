/** The script a report carries: sorts its tables, draws its figures, offers their data. */

import "../style.css"
import type { Figure } from "../../src/figures/figure.ts"
import { element, find } from "../components/element.ts"
import { FigureView } from "../components/figure-view.ts"
import { offerFile } from "../components/offer-file.ts"
import { makeSortable } from "../components/sortable.ts"
import { addThemeSwitch } from "../components/theme.ts"

addThemeSwitch(find("header.page"))
for (const table of document.querySelectorAll("table")) makeSortable(table)
const data = find("#figures").textContent ?? "[]"
for (const figure of JSON.parse(data) as Figure[]) {
  const holder = document.getElementById(figure.id)
  if (holder) new FigureView(figure, holder)
}
const button = element("button", { type: "button", class: "button" }, "figures.json")
button.addEventListener("click", () => offerFile("figures.json", data))
find(".downloads").append(" ", button)
