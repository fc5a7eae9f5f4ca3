/** What if it liked something? Asked of the service, which learns nothing from it. */

import { element } from "../components/element.ts"
import { findItem, offerIds } from "./choices.ts"
import { listTable } from "./list-table.ts"
import { previewList } from "./lists.ts"

/** A form, and the list as it would be beside the one of the same moment. */
export function createPreview(user: string): HTMLElement {
  const item = element("input", { name: "item", required: true, list: "item-ids", autocomplete: "off" })
  const like = element("option", { value: "like" }, "liked")
  const dislike = element("option", { value: "dislike" }, "disliked")
  const kind = element("select", { name: "kind" }, like, dislike)
  const message = element("p", { class: "message quiet", role: "status" })
  const answer = element("div", { class: "scroll" })
  const form = element(
    "form",
    { class: "controls" },
    element("label", {}, "They", kind),
    element("label", {}, "Item", item),
    element("button", { type: "submit" }, "Preview"),
  )
  form.addEventListener("submit", async (event) => {
    event.preventDefault()
    message.textContent = "Asking …"
    try {
      const trial = { item: await findItem(item.value), ...(kind.value === "dislike" ? { rating: 0 } : {}) }
      // Both now: the model has learned from others since the page was opened.
      const [changed, list] = await Promise.all([previewList(user, [trial]), previewList(user)])
      answer.replaceChildren(listTable(changed, list))
      message.textContent = "The list as it would be, and where each item is now. Nothing was learned."
    } catch (error) {
      answer.replaceChildren()
      message.textContent = (error as Error).message
    }
  })
  offerIds("item")
  return element(
    "section",
    { class: "preview" },
    element("b", {}, "What if they chose something?"),
    form,
    message,
    answer,
  )
}
