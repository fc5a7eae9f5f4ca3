/** Every error that dess throws on purpose. The message says what was expected, what came, and what to do. */

export type ErrorCode =
  | "INVALID_ARGUMENT" // an option or parameter outside its domain
  | "INVALID_DATA" // an interaction, file or label that cannot be read
  | "NOT_FOUND" // an id, file or folder that does not exist
  | "UNSUPPORTED" // this machine or build cannot do it
  | "NUMERIC" // a loss or parameter stopped being finite
  | "INTERRUPTED" // the user asked to stop
  | "BUSY" // too much is waiting; the same request may succeed later
  | "LOCKED" // another process or recommender has the directory open
  | "CLOSED" // the recommender was closed, or its training stopped
  | "UNAVAILABLE" // what it stands on (Redis) does not answer or has no room; the same request may succeed later
  | "STALE" // what was asked to be read is not there yet

export class DessError extends Error {
  readonly code: ErrorCode
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = "DessError"
    this.code = code
  }
}

const LONGEST_SHOWN = 80

/** Shows a value in an error message: short, quoted when it is text, and never itself a reason to fail. */
export function show(value: unknown): string {
  let text: string
  try {
    text = typeof value === "string" || typeof value === "object" ? write(value, LONGEST_SHOWN) : String(value)
  } catch {
    text = Object.prototype.toString.call(value)
  }
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN - 3)}…` : text
}

/** JSON, cut off somewhere behind this many characters: what is shown may be large, or deep. */
function write(value: unknown, most: number): string {
  if (most < 0) return ""
  if (typeof value === "string") return JSON.stringify(value.slice(0, most))
  if (typeof value === "number" && !Number.isFinite(value)) return `"${value}"`
  if (typeof value !== "object" || value === null || "toJSON" in value) return JSON.stringify(value) ?? "null"
  if (Array.isArray(value)) {
    let text = "["
    for (let i = 0; i < value.length && text.length <= most; i++)
      text += `${i > 0 ? "," : ""}${write(value[i], most - text.length)}`
    return `${text}]`
  }
  const tag = Object.prototype.toString.call(value)
  if (tag !== "[object Object]") return tag
  let text = "{"
  for (const [key, part] of Object.entries(value)) {
    if (part === undefined || typeof part === "function" || typeof part === "symbol") continue
    text += `${text.length > 1 ? "," : ""}${write(key, most)}:${write(part, most - text.length)}`
    if (text.length > most) break
  }
  return `${text}}`
}

/** The error of an optional package that is not there, or not with its binary for this machine. */
export function missingPackage(noun: string, packages: string, cause: unknown): DessError {
  const { code, message } = cause as { code?: string; message: string }
  const missing = code === "ERR_MODULE_NOT_FOUND"
  return new DessError(
    "UNSUPPORTED",
    `${noun}: expected ${packages.replace(" ", " and ")}, got ${missing ? "none" : show(message)}; npm install ${missing ? "" : "--include=optional "}${packages}`,
    { cause },
  )
}
