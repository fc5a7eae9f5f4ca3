/** Asks the service, with the key of this tab where one is needed. */

import { element } from "../components/element.ts"

const KEY = "dess-key"

export class ApiError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** A request to the service; asks for a key once it is refused for want of one. */
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  for (;;) {
    const key = sessionStorage.getItem(KEY)
    const headers = { ...options.headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) }
    const response = await fetch(path, { ...options, headers, cache: "no-store" })
    if (response.ok) return response
    if (response.status !== 401) throw new ApiError(response.status, await messageOf(response))
    await askForKey(key === null ? "This service asks for a key." : "That key was refused.")
  }
}

export async function getJson<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T
}

export async function postJson<T>(path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" }
  return (await (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json()) as T
}

async function messageOf(response: Response): Promise<string> {
  try {
    const { message, error } = (await response.json()) as { message?: string; error?: string }
    return message ?? error ?? response.statusText
  } catch {
    return response.statusText
  }
}

let asking: Promise<void> | undefined

/** One question at a time, however many requests wait for the answer. The key is kept for the tab only. */
function askForKey(reason: string): Promise<void> {
  asking ??= new Promise<void>((resolve) => {
    const input = element("input", { type: "password", name: "key", required: true, autocomplete: "off" })
    const form = element(
      "form",
      { method: "dialog", class: "key" },
      element("p", {}, reason),
      element("label", {}, "Key", input),
      element("button", { class: "primary" }, "Use it"),
      element("p", { class: "quiet" }, "It is kept until this tab is closed."),
    )
    const dialog = element("dialog", { "aria-label": "Key" }, form)
    dialog.addEventListener("cancel", (event) => event.preventDefault())
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value)
      dialog.remove()
      asking = undefined
      resolve()
    })
    document.body.append(dialog)
    dialog.showModal()
  })
  return asking
}
