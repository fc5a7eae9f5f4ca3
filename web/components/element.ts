/** Elements made by hand: whatever is data goes in as text, never as HTML. */

type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>

/** An element with attributes (functions are listeners, `true` is an empty attribute, `false` none) and children. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value)
    else if (value !== false) made.setAttribute(key, value === true ? "" : String(value))
  }
  made.append(...children)
  return made
}

/** The element of a page that is known to have it. */
export function find<T extends HTMLElement>(selector: string, within: ParentNode = document): T {
  const found = within.querySelector<T>(selector)
  if (!found) throw new Error(`page: expected an element ${selector}, got none`)
  return found
}
