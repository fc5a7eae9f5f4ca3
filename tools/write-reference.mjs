/**
 * Writes docs/reference from what the program checks its input by: options of commands, settings of the service, routes.
 * `npm run build && npm run docs:reference`; with --check it writes nothing and fails where a page is stale.
 */

import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { OPTION_ENTRIES } from "../dist/learning/options.js"
import { SETTINGS } from "../dist/server/configuration.js"

const root = join(import.meta.dirname, "..")
const main = join(root, "dist/cli/main.js")
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("DESS_")))
const dess = (...words) => execFileSync(process.execPath, [main, ...words], { encoding: "utf8", env: environment })
const NOTE = "Made by `npm run docs:reference` from the schemas that check the input: change those, not this page."

/** Text of a cell: no bars, and angle brackets are no HTML. */
const cell = (text) => text.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
const code = (value) => (value === undefined ? "" : `\`${typeof value === "string" ? value : JSON.stringify(value)}\``)
const table = (head, rows) => [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n")

function commandsPage() {
  const commands = [...dess("--help").matchAll(/^ {2}([a-z]+) {2,}\S/gm)].map(([, name]) => name)
  const parts = commands.map((name) => `## dess ${name}\n\n\`\`\`text\n${dess(name, "--help").trimEnd()}\n\`\`\``)
  return `# Commands\n\n${NOTE}\n\n${parts.join("\n\n")}\n`
}

function optionsPage() {
  const otherwise = ({ otherwise, default: value }) =>
    otherwise ? cell(otherwise) : typeof value === "function" ? "" : code(value)
  const options = OPTION_ENTRIES.map(([name, option]) => [
    `\`${name}\``,
    option.group ? `\`--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}\`` : "",
    cell(option.help),
    otherwise(option),
  ])
  const settings = SETTINGS.map((setting) => [
    `\`${setting.name}\``,
    `\`--${setting.flag}\``,
    `\`${setting.variable}\``,
    cell(setting.description),
    code(setting.default),
  ])
  return `# Options

${NOTE}

## Settings of the service

Each is a field of the config file, a flag of \`dess serve\` and a variable. Flags come before variables, variables before the file. The library takes the settings of the recommender under the same names.

${table(["field", "flag", "variable", "what it does", "default"], settings)}

## Options of a run

\`dess run\`, \`dess compare\` and \`runStream\` take them. Unknown ones are refused.

${table(["option", "flag", "what it does", "default"], options)}
`
}

/**
 * Methods of an interface of src/engine/types.ts, by name: arguments, results and the first sentence of the comment. The
 * compiler has no parser to call, and the formatter puts every member on a line of its own.
 */
function methodsOf(name) {
  const source = readFileSync(join(root, "src/engine/types.ts"), "utf8")
  const body = new RegExp(`^export interface ${name}\\b[^{]*\\{\\n(.*?)^\\}`, "ms").exec(source)?.[1]
  const members = [
    ...(body ?? "").matchAll(/^ {2}(?:\/\*\*([\s\S]*?)\*\/\n {2})?(?:readonly )?(\w+)(\(.*\))?: (.+)$/gm),
  ]
  const methods = new Map()
  for (const [, comment = "", member, taken = "a property", given] of members) {
    const [says] = comment
      .replaceAll(/\s*\n \s*\* ?/g, " ")
      .trim()
      .split(/(?<=\.) (?=[A-Z`])/)
    const row = methods.get(member) ?? { taken: [], given: new Set(), says }
    row.taken.push(taken.startsWith("(") ? code(taken) : taken)
    row.given.add(code(given))
    methods.set(member, row)
  }
  if (methods.size < 3) throw new Error(`src/engine/types.ts: expected methods of ${name}, got ${methods.size}`)
  return methods
}

function libraryPage() {
  const rows = (methods) =>
    [...methods].map(([name, { taken, given, says }]) => [
      `\`${name}\``,
      taken.map((one) => one.replaceAll("|", "\\|")).join(" or "),
      [...given].map((one) => one.replaceAll("|", "\\|")).join(" or "),
      cell(says),
    ])
  const head = ["method", "arguments", "result", "what it does"]
  return `# Library

Made by \`npm run docs:reference\` from the interfaces in \`src/engine/types.ts\`: change those, not this page.

\`const recommender = await Recommender.open(options)\` opens one; its options are the [settings of the recommender](options.md#settings-of-the-service). The package's declarations have the types named here with a comment on every field, which an editor shows.

## On one machine and of a cluster

${table(head, rows(methodsOf("ServedRecommender")))}

## On one machine only

${table(head, rows(methodsOf("Recommender")))}
`
}

/** The OpenAPI description of a service that is started for it. */
async function askForApi() {
  const child = spawn(process.execPath, [main, "serve", "--port", "0", "--threads", "1"], { env: environment })
  try {
    const url = await new Promise((resolve, reject) => {
      let text = ""
      const read = (chunk) => {
        text += chunk
        const [found] = /http:\/\/127\.0\.0\.1:\d+/.exec(text) ?? []
        if (found) resolve(found)
      }
      child.stdout.on("data", read)
      child.stderr.on("data", read)
      child.once("exit", (status) => reject(new Error(`dess serve: expected an address, got exit ${status}: ${text}`)))
    })
    return await (await fetch(`${url}/openapi.json`)).json()
  } finally {
    child.kill("SIGTERM")
  }
}

function apiPage({ paths, tags }) {
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => ({ path, method: method.toUpperCase(), ...route })),
  )
  const fields = ({ requestBody }) => {
    const schema = requestBody?.content["application/json"].schema
    if (!schema) return ""
    const one = (schema.anyOf ?? [schema]).find(({ properties }) => properties) ?? schema
    const { properties, required = [] } = (one.items?.properties ? one.items : one) ?? {}
    if (!properties) return ""
    return Object.keys(properties)
      .map((name) => `\`${name}\`${required.includes(name) ? " *" : ""}`)
      .join(", ")
  }
  const part = ({ name, description }) => {
    const rows = routes
      .filter((route) => route.tags.includes(name))
      .map((route) => [
        `\`${route.method} ${route.path}\``,
        cell(route.summary ?? ""),
        route.parameters
          .filter((parameter) => parameter.in === "query")
          .map((parameter) => `\`${parameter.name}\``)
          .join(", "),
        fields(route),
        route["x-access"] ?? "open",
      ])
    return `## ${name}\n\n${description}\n\n${table(["route", "what it does", "query", "body", "key"], rows)}`
  }
  return `# HTTP API

${NOTE}

\`GET /openapi.json\` of a running service has all of it: types, limits and answers. \`*\` marks fields that are needed.

${tags.map(part).join("\n\n")}
`
}

const pages = {
  "library.md": libraryPage(),
  "commands.md": commandsPage(),
  "options.md": optionsPage(),
  "http.md": apiPage(await askForApi()),
}
const folder = join(root, "docs/reference")
const check = process.argv.includes("--check")
mkdirSync(folder, { recursive: true })
for (const [name, text] of Object.entries(pages)) {
  const path = join(folder, name)
  const stale = !existsSync(path) || readFileSync(path, "utf8") !== text
  if (!stale) continue
  if (!check) writeFileSync(path, text)
  else {
    console.error(`docs/reference/${name}: expected what the schemas say, got something else: npm run docs:reference`)
    process.exitCode = 1
  }
}
