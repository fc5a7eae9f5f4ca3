/** The dashboard: views over one running service, chosen by the address's hash. */

import "../style.css"
import { find } from "../components/element.ts"
import { startThemeSwitch } from "../components/theme.ts"
import { openExperiments } from "./experiments.ts"
import { explore, openExplorer, startExplorer } from "./explorer.ts"
import { startKey } from "./key.ts"
import { startLive } from "./live.ts"
import { openTryIt, startTryIt } from "./try-it.ts"

const TITLES: Readonly<Record<string, string>> = {
  live: "overview",
  explore: "explore",
  try: "try it",
  experiments: "experiments",
  method: "method",
}

/** "#explore/user/ada" → the explorer, asked for a user. */
function showView(): void {
  const [name, side, id] = location.hash.slice(1).split("/")
  const view = Object.hasOwn(TITLES, name) ? name : "live"
  for (const other of Object.keys(TITLES)) find(`#${other}`).hidden = other !== view
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page")
    else link.removeAttribute("aria-current")
  }
  document.title = `dess – ${TITLES[view]}`
  if (view === "explore" && (side === "user" || side === "item") && id) explore(side, decode(id))
  else if (view === "explore") openExplorer()
  if (view === "try") openTryIt()
  if (view === "experiments") openExperiments()
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

startThemeSwitch(find("header.page .theme"))
startKey()
startLive()
startExplorer()
startTryIt()
addEventListener("hashchange", showView)
showView()
