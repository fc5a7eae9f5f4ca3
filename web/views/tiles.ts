/** Numbers in boxes: a name, the figure, and what to compare it with. */

import { element } from "../components/element.ts"

export interface Tile {
  name: string
  value: string
  /** Below it. */
  note?: string
}

/** Shows the tiles in `holder`, in place of those it has. */
export function showTiles(holder: HTMLElement, tiles: readonly Tile[]): void {
  while (holder.childElementCount > tiles.length) holder.lastElementChild?.remove()
  while (holder.childElementCount < tiles.length)
    holder.append(element("div", { class: "tile" }, element("span"), element("b"), element("span")))
  for (const [i, { name, value, note = "" }] of tiles.entries()) {
    const [head, figure, foot] = holder.children[i].children
    head.textContent = name
    figure.textContent = value
    foot.textContent = note
  }
}

export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const unit =
    bytes < 1e6 ? { name: "kB", size: 1e3 } : bytes < 1e9 ? { name: "MB", size: 1e6 } : { name: "GB", size: 1e9 }
  return `${(bytes / unit.size).toFixed(1)} ${unit.name}`
}

export const formatPercent = (share: number) => `${(100 * share).toFixed(2)} %`
