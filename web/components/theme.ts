/** Light or dark as the system says, until somebody says otherwise; kept for this browser where it lets us. */

const KEY = "dess-theme"
const dark = matchMedia("(prefers-color-scheme: dark)")

function recall(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

function keep(theme: string): void {
  try {
    localStorage.setItem(KEY, theme)
  } catch {}
}

/** Makes a button of the page the switch. */
export function startThemeSwitch(button: HTMLElement): void {
  const root = document.documentElement
  const show = (theme: string) => {
    root.dataset.theme = theme
    button.textContent = theme === "dark" ? "Light" : "Dark"
    button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours")
  }
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark"
    keep(theme)
    show(theme)
  })
  dark.addEventListener("change", () => {
    if (recall() === null) show(dark.matches ? "dark" : "light")
  })
  show(recall() ?? (dark.matches ? "dark" : "light"))
}
