/**
 * A small box that tells what is under the pointer, or where the arrow keys have come to. It outlives the drawing: when a
 * picture is drawn again, the box stays at what it told of.
 */

import { element, find } from "./element.ts"
import type { Stop, Stops } from "./stops.ts"

/** How far from a dot or cell the pointer may be. */
const REACH = 40

const STEPS: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }

/** What is shown follows the pointer, which has not moved, or a stop the keys have chosen. */
type Followed = { x: number; y: number } | { key: Stop["key"] }

export class Tip {
  readonly #holder: HTMLElement
  readonly #box = element("div", { class: "tip", "aria-hidden": "true" })
  readonly #mark = document.createElementNS("http://www.w3.org/2000/svg", "circle")
  #svg: SVGSVGElement | undefined
  #find: () => Stops = () => ({ along: "x", stops: [] })
  /** Found when first needed. */
  #known: Stops | undefined
  #followed: Followed | undefined
  #current = -1

  /** The box goes into `holder`, which pictures fill. */
  constructor(holder: HTMLElement) {
    this.#holder = holder
    this.#mark.setAttribute("class", "tip-mark")
    this.#mark.setAttribute("r", "6")
  }

  /** Listens on a picture, in place of the one before. */
  attach(svg: SVGSVGElement, find: () => Stops): void {
    this.#svg = svg
    this.#find = find
    this.#known = undefined
    this.#current = -1
    const follow = (event: PointerEvent) => {
      const frame = svg.getBoundingClientRect()
      this.#follow({ x: event.clientX - frame.left, y: event.clientY - frame.top })
    }
    svg.addEventListener("pointermove", follow)
    svg.addEventListener("pointerdown", follow)
    svg.addEventListener("pointerleave", () => this.#hide())
    svg.addEventListener("blur", () => {
      if (this.#svg === svg) this.#hide()
    })
    svg.addEventListener("keydown", (event) => this.#press(event))
    if (this.#followed) this.#follow(this.#followed)
  }

  /** To be called before a picture is taken away: that it loses the focus then says nothing. */
  detach(): void {
    this.#svg = undefined
  }

  get #stops(): Stops {
    this.#known ??= this.#find()
    return this.#known
  }

  #follow(followed: Followed): void {
    const index = "key" in followed ? indexOf(this.#stops, followed.key) : nearest(this.#stops, followed.x, followed.y)
    if (index < 0) this.#hide()
    else this.#show(index)
    this.#followed = followed
  }

  #press(event: KeyboardEvent): void {
    const { stops } = this.#stops
    if (event.key === "Escape") this.#hide()
    if (!Object.hasOwn(STEPS, event.key) || stops.length === 0) return
    event.preventDefault()
    const step = STEPS[event.key] * (event.shiftKey ? 10 : 1)
    const index = Math.min(stops.length - 1, Math.max(0, this.#current < 0 ? 0 : this.#current + step))
    this.#followed = { key: stops[index].key }
    this.#show(index)
    speak(stops[index].lines.join(", "))
  }

  #hide(): void {
    this.#followed = undefined
    this.#current = -1
    this.#box.remove()
    this.#mark.remove()
  }

  #show(index: number): void {
    if (index === this.#current) return
    this.#current = index
    const { x, y, lines, marked = true } = this.#stops.stops[index]
    const [name, ...rest] = lines
    const [holder, box] = [this.#holder, this.#box]
    box.replaceChildren(element("b", {}, name), ...rest.map((line) => element("span", {}, line)))
    this.#mark.setAttribute("cx", String(x))
    this.#mark.setAttribute("cy", String(y))
    if (marked) this.#svg?.append(this.#mark)
    else this.#mark.remove()
    if (box.parentNode !== holder) holder.append(box)
    const left = Math.min(Math.max(0, x + 12), holder.clientWidth - box.offsetWidth)
    const below = y + 14 + box.offsetHeight < holder.clientHeight
    box.style.left = `${Math.max(0, left)}px`
    box.style.top = `${below ? y + 14 : Math.max(0, y - box.offsetHeight - 14)}px`
  }
}

/** Tells a screen reader; the place it listens to is in the page from its start. */
function speak(text: string): void {
  find("#spoken").textContent = text
}

/** The stop of that name, or of the nearest number; −1 where there is none. */
function indexOf({ stops }: Stops, key: Stop["key"]): number {
  if (typeof key === "string") return stops.findIndex((stop) => stop.key === key)
  const distance = (stop: Stop) => Math.abs(Number(stop.key) - key)
  let best = stops.length - 1
  for (const [i, stop] of stops.entries()) if (distance(stop) < distance(stops[best])) best = i
  return best
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
