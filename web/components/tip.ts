/** A small box that tells what is under the pointer, or where the arrow keys have come to. */

import { element } from "./element.ts"
import type { Stop, Stops } from "./stops.ts"

/** How far from a dot or cell the pointer may be. */
const REACH = 40

/** Listens on a drawn panel; the box goes into `holder`, which the panel fills. */
export function addTip(holder: HTMLElement, svg: SVGSVGElement, find: () => Stops): void {
  const box = element("div", { class: "tip", role: "status" })
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle")
  mark.setAttribute("class", "tip-mark")
  mark.setAttribute("r", "6")
  let known: Stops | undefined
  let current = -1
  const stops = () => {
    known ??= find()
    return known
  }
  const hide = () => {
    current = -1
    box.remove()
    mark.remove()
  }
  const show = (index: number) => {
    if (index === current) return
    current = index
    const stop = stops().stops[index]
    const [name, ...rest] = stop.lines
    box.replaceChildren(element("b", {}, name), ...rest.map((line) => element("span", {}, line)))
    mark.setAttribute("cx", String(stop.x))
    mark.setAttribute("cy", String(stop.y))
    svg.append(mark)
    holder.append(box)
    const left = Math.min(Math.max(0, stop.x + 12), holder.clientWidth - box.offsetWidth)
    const below = stop.y + 14 + box.offsetHeight < holder.clientHeight
    box.style.left = `${Math.max(0, left)}px`
    box.style.top = `${below ? stop.y + 14 : Math.max(0, stop.y - box.offsetHeight - 14)}px`
  }
  const follow = (event: PointerEvent) => {
    const frame = svg.getBoundingClientRect()
    const index = nearest(stops(), event.clientX - frame.left, event.clientY - frame.top)
    if (index < 0) hide()
    else show(index)
  }
  svg.addEventListener("pointermove", follow)
  svg.addEventListener("pointerdown", follow)
  svg.addEventListener("pointerleave", hide)
  svg.addEventListener("blur", hide)
  svg.addEventListener("keydown", (event) => {
    const count = stops().stops.length
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }
    if (event.key === "Escape") hide()
    if (!Object.hasOwn(steps, event.key) || count === 0) return
    event.preventDefault()
    const step = steps[event.key] * (event.shiftKey ? 10 : 1)
    show(Math.min(count - 1, Math.max(0, current < 0 ? 0 : current + step)))
  })
}

/** The index of the stop a pointer means, or −1. */
function nearest({ along, stops }: Stops, x: number, y: number): number {
  const distance = (stop: Stop) => {
    const [across, down] = [Math.abs(stop.x - x), Math.abs(stop.y - y)]
    return along === "x" ? across : along === "y" ? down : Math.hypot(across, down)
  }
  let best = -1
  for (const [i, stop] of stops.entries()) if (best < 0 || distance(stop) < distance(stops[best])) best = i
  return best >= 0 && distance(stops[best]) <= REACH ? best : -1
}
