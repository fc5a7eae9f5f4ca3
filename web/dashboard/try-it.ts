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

const message = () => find("#try .message")

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
  if (shown.length === 0) await attempt(refresh)
}

async function attempt(action: () => Promise<unknown>): Promise<void> {
  try {
    await action()
  } catch (error) {
    message().textContent = (error as Error).message
  }
}

async function refresh(): Promise<void> {
  const path = `/v1/users/${encodeURIComponent(visitor)}/recommendations?count=12`
  shown = await getJson<Recommendation[]>(path)
  draw()
}

/** Tells the service, then waits until the list is another one. */
async function like(item: string): Promise<void> {
  if (item === "" || liked.includes(item)) return
  await attempt(async () => {
    await postJson("/v1/interactions", { user: visitor, item, timestamp: Date.now() })
    liked.push(item)
    // What was picked goes at once, and what is trending changes; the model's list comes when the event is learned.
    const before = shown.map((entry) => entry.item).filter((other) => other !== item)
    message().textContent = "Learning …"
    draw()
    for (let i = 0; i < ASK_TIMES; i++) {
      await new Promise((resolve) => setTimeout(resolve, ASK_INTERVAL))
      await refresh()
      if (shown[0]?.source === "model" && before.some((other, place) => shown[place]?.item !== other)) break
    }
    message().textContent = `The list after ${liked.length} ${liked.length === 1 ? "like" : "likes"}.`
  })
}

function draw(): void {
  find("#try .liked").replaceChildren(...liked.map((item) => element("li", {}, idLink("item", item))))
  find("#try .list").replaceChildren(
    ...shown.map(({ item, score, source }) => {
      const button = element("button", { type: "button", "aria-label": `Like ${item}` }, "Like")
      button.addEventListener("click", () => like(item))
      const about = element("span", { class: "quiet" }, `${source}, ${score.toFixed(3)}`)
      return element("li", {}, button, idLink("item", item), about)
    }),
  )
}
