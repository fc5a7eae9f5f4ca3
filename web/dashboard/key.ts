/** The key of this tab: asked for when the service wants one, kept until the tab is closed or told to forget it. */

import { element, find } from "../components/element.ts"

const KEY = "dess-key"
/** What a header can carry. */
const ALLOWED = /^[\x21-\x7e]+$/

export const keyOfTab = () => {
  const key = sessionStorage.getItem(KEY)
  return key !== null && ALLOWED.test(key) ? key : null
}

export function forgetKey(): void {
  sessionStorage.removeItem(KEY)
  showButton()
}

/** Makes the header's button forget the key and reload the page. */
export function startKey(): void {
  find("#forget-key").addEventListener("click", () => {
    forgetKey()
    location.reload()
  })
  showButton()
}

function showButton(): void {
  find("#forget-key").hidden = keyOfTab() === null
}

let asking: Promise<void> | undefined

/** One question at a time, however many requests wait for the answer. */
export function askForKey(reason: string): Promise<void> {
  asking ??= new Promise<void>((resolve) => {
    const input = element("input", { type: "password", name: "key", required: true, autocomplete: "off" })
    const wrong = element("p", { class: "wrong", role: "status" })
    const form = element(
      "form",
      { method: "dialog", class: "key" },
      element("p", {}, reason),
      element("label", {}, "Key", input),
      wrong,
      element("button", { class: "primary" }, "Use it"),
      element("p", { class: "quiet" }, "Whoever runs the service has it. It is kept until this tab is closed."),
    )
    const dialog = element("dialog", { "aria-label": "Key" }, form)
    // Without a key there is nothing to see.
    dialog.addEventListener("cancel", (event) => event.preventDefault())
    form.addEventListener("submit", (event) => {
      event.preventDefault()
      const key = input.value.trim()
      if (!ALLOWED.test(key)) {
        wrong.textContent =
          "Expected letters, digits and signs without spaces, got another character; copy the key anew."
        return
      }
      sessionStorage.setItem(KEY, key)
      dialog.remove()
      asking = undefined
      showButton()
      resolve()
    })
    document.body.append(dialog)
    dialog.showModal()
  })
  return asking
}
