/** Pick what you like and see the list change: a preview for somebody unknown, which writes nothing. */

import { element, find } from "../components/element.ts"
import { findItem, offerIds } from "./choices.ts"
import { idLink, noteTitles } from "./list-table.ts"
import { previewList } from "./lists.ts"
import type { Recommendation } from "./types.ts"

const LIST_LENGTH = 12

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
    attempt(async () => {
      await like(await findItem(item))
      form.reset()
    })
  })
}

/** Called when the view is opened. */
export async function openTryIt(): Promise<void> {
  offerIds("item")
  if (shown.length > 0) return
  await attempt(async () => {
    await refresh()
    tell(shown.length === 0 ? "No items and no events yet: there is nothing to try." : "")
  })
}

async function attempt(action: () => Promise<unknown>): Promise<void> {
  try {
    await action()
  } catch (error) {
    tell((error as Error).message)
  }
}

async function refresh(): Promise<void> {
  const trials = liked.map((item) => ({ item }))
  shown = await previewList(visitor, trials, LIST_LENGTH)
  draw()
}

/** The list as it would be after one more. */
async function like(item: string): Promise<void> {
  if (item === "" || liked.includes(item)) return
  liked.push(item)
  draw()
  await attempt(async () => {
    await refresh()
    tell(`The list after ${liked.length} ${liked.length === 1 ? "like" : "likes"}. Nothing was written.`)
  })
}

/** The list changes only when a new one has come, and the focus stays at its place in it. */
function draw(): void {
  noteTitles(shown)
  find("#try .liked").replaceChildren(...liked.map((item) => element("li", {}, idLink("item", item))))
  const list = find("#try .list")
  const place = [...list.children].findIndex((row) => row.contains(document.activeElement))
  list.replaceChildren(...shown.map(createRow))
  list.classList.toggle("none", shown.length === 0)
  if (place >= 0) list.querySelectorAll("button")[Math.min(place, shown.length - 1)]?.focus({ preventScroll: true })
}

/** A chance between 0 and 1 with two digits; what is tiny is said to be so. */
const formatShare = (share: number) => (share < 0.001 ? "< 0.1 %" : `${Number((100 * share).toPrecision(2))} %`)

function createRow({ item, title, score, source }: Recommendation): HTMLElement {
  const done = liked.includes(item)
  const button = element(
    "button",
    { type: "button", "aria-label": `Like ${title ?? item}`, "aria-disabled": String(done) },
    done ? "Liked" : "Like",
  )
  button.addEventListener("click", () => like(item))
  return element(
    "li",
    {},
    button,
    idLink("item", item),
    element("span", { class: "quiet" }, source === "model" ? `chance ${formatShare(score)}` : source),
  )
}
