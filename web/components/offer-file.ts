/** Gives a text to the browser to be saved. */

import { element } from "./element.ts"

export function offerFile(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }))
  element("a", { href: address, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
