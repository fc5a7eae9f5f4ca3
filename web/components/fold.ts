/** Figures that a narrow page shows as a list of their questions, each opened when it is pressed. */

import { element } from "./element.ts"

const NARROW = "(max-width: 600px)"

export function fold(figure: HTMLElement, title: string): HTMLElement {
  const details = element("details", { class: "fold" }, element("summary", {}, title), figure)
  const narrow = matchMedia(NARROW)
  const follow = () => {
    details.open = !narrow.matches
  }
  narrow.addEventListener("change", follow)
  follow()
  return details
}
