/** Pick what you like and see the list change: a visitor's events, through the real API. */

import { element, find } from "../components/element.ts"
import { getJson, postJson } from "./api.ts"
import { offerIds } from "./choices.ts"
import { idLink } from "./list-table.ts"
import type { Recommendation } from "./types.ts"

/** How often and how long a changed list is waited for. */
const ASK_INTERVAL = 400
const ASK_TIMES = 60

/** A name of this tab's own. */
const visitor = `visitor-${crypto.randomUUID()}`
const liked: string[] = []
let shown: Recommendation[] = []

const tell = (text: string) => {
  find("#try .message").textContent = text
}

export function startTryIt(): void {
  const form = find<HTMLFormElement>("#try form")
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const item = String(new FormData(form).get("item"))
    form.reset()
    like(item)
  })
}

/** Called when the view is opened. */
export async function openTryIt(): Promise<void> {
  offerIds("item")
  if (shown.length > 0) return
  await attempt(async () => {
    await refresh()
    tell(shown.length === 0 ? "There are no items yet: name one, and it is the first." : "")
  })
}

async function attempt(action: () => Promise<unknown>): Promise<void> {
  try {
    await action()
  } catch (error) {
    tell((error as Error).message)
  }
}

const askForList = () => getJson<Recommendation[]>(`/v1/users/${encodeURIComponent(visitor)}/recommendations?count=12`)

async function refresh(): Promise<void> {
  shown = await askForList()
  draw()
}

/** Tells the service, then waits until the list is another one. */
async function like(item: string): Promise<void> {
  if (item === "" || liked.includes(item)) return
  await attempt(async () => {
    await postJson("/v1/interactions", { user: visitor, item, timestamp: Date.now() })
    liked.push(item)
    tell("Learning …")
    draw()
    // What was picked goes at once, and what is trending changes; the model's list comes when the event is learned.
    const before = shown.map((entry) => entry.item).filter((other) => other !== item)
    let list = shown
    for (let i = 0; i < ASK_TIMES; i++) {
      await new Promise((resolve) => setTimeout(resolve, ASK_INTERVAL))
      list = await askForList()
      if (list[0]?.source === "model" && before.some((other, place) => list[place]?.item !== other)) break
    }
    shown = list
    draw()
    tell(`The list after ${liked.length} ${liked.length === 1 ? "like" : "likes"}.`)
  })
}

/** The list changes only when a new one has come, and the focus stays at its place in it. */
function draw(): void {
  find("#try .liked").replaceChildren(...liked.map((item) => element("li", {}, idLink("item", item))))
  const list = find("#try .list")
  const place = [...list.children].findIndex((row) => row.contains(document.activeElement))
  list.replaceChildren(...shown.map(createRow))
  if (place >= 0) list.querySelectorAll("button")[Math.min(place, shown.length - 1)]?.focus({ preventScroll: true })
}

function createRow({ item, score, source }: Recommendation): HTMLElement {
  const done = liked.includes(item)
  const button = element(
    "button",
    { type: "button", "aria-label": `Like ${item}`, "aria-disabled": String(done) },
    done ? "Liked" : "Like",
  )
  button.addEventListener("click", () => like(item))
  return element(
    "li",
    {},
    button,
    idLink("item", item),
    element("span", { class: "quiet" }, `${source}, ${score.toFixed(3)}`),
  )
}
