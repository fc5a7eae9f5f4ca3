/** The image and the workflows, as far as they can be tried without a builder: each step of the Dockerfile in a clean folder. */

import { execFileSync, spawn, spawnSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { addressLinks, isIn } from "../tools/package-links.mjs"
import { startServer } from "../tools/redis-cluster.mjs"
import { dess } from "./support/command.ts"

const ROOT = join(import.meta.dirname, "..")
const folder = mkdtempSync(join(realpathSync(tmpdir()), "dess-release-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const hasRedis = spawnSync(process.env.REDIS_SERVER ?? "redis-server", ["--version"]).status === 0
const lines = readFileSync(join(ROOT, "Dockerfile"), "utf8").split("\n")
const second = lines.findLastIndex((line) => line.startsWith("FROM"))
const runs = (from: readonly string[]) => from.flatMap((line) => (line.startsWith("RUN ") ? line.slice(4) : []))

function run(command: string, cwd: string): void {
  const { NODE_OPTIONS: _, CI: __, ...inherited } = process.env
  // What npm has fetched before is not asked for again.
  const env = { ...inherited, npm_config_prefer_offline: "true", npm_config_audit: "false", npm_config_fund: "false" }
  execFileSync("sh", ["-c", command], { cwd, env, stdio: ["ignore", "ignore", "pipe"], timeout: 240_000 })
}

test("the steps of the Dockerfile give a service that starts", { timeout: 400_000 }, async () => {
  const [build, image] = ["build", "image"].map((name) => join(folder, name))
  mkdirSync(image)
  const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n")
  for (const path of tracked) cpSync(join(ROOT, path), join(build, path))
  for (const command of runs(lines.slice(0, second))) run(command, build)
  for (const name of readdirSync(build)) if (name.endsWith(".tgz")) cpSync(join(build, name), join(image, name))
  // The folder of the data is made by the image alone.
  for (const command of runs(lines.slice(second)).filter((line) => !line.startsWith("mkdir"))) run(command, image)
  const words = JSON.parse(lines.find((line) => line.startsWith("ENTRYPOINT"))?.slice(11) ?? "[]") as string[]
  const child = spawn(process.execPath, [...words.slice(1), "--port", "0"], { cwd: image })
  let said = ""
  try {
    await new Promise<void>((resolve, reject) => {
      child.stderr.on("data", (text) => {
        said += text
        if (said.includes("ready")) resolve()
      })
      child.once("exit", () => reject(new Error(said)))
    })
    const url = /http:\/\/[^ ]+/.exec(said)?.[0]
    expect((await fetch(`${url}/health/ready`)).status).toBe(200)
  } finally {
    child.kill()
  }
  expect(readdirSync(join(image, "node_modules"))).toEqual(expect.arrayContaining(["redis", "pg", "fastify"]))
})

test.each([".", "tools/docs", "tools/typedoc"])(
  "npm ci takes the lock file of %s: every optional part is in it",
  (folder) => {
    type Lock = { packages: Record<string, { optionalDependencies?: Record<string, string> }> }
    const { packages } = JSON.parse(readFileSync(join(ROOT, folder, "package-lock.json"), "utf8")) as Lock
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !packages[`node_modules/${name}`] && !packages[`${path}/node_modules/${name}`],
      ),
    )
    expect(missing).toEqual([])
  },
)

test("flags of the compose file are the commands'", async () => {
  const text = readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8")
  for (const [name, words] of [
    ["trainer", ["train", "--help"]],
    ["service", ["serve", "--help"]],
  ] as const) {
    const part = text.slice(text.indexOf(`  ${name}:`))
    const command = JSON.parse(/command: (\[.*\])/.exec(part)?.[1] ?? "[]") as string[]
    const help = (await dess([...words])).stdout
    for (const flag of command.filter((word) => word.startsWith("--"))) expect(help).toContain(flag)
  }
})

test("trainers of the compose file have no health check, and that of the image asks the port of the service", () => {
  const text = readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8")
  expect(text.slice(text.indexOf("  trainer:"), text.indexOf("  service:"))).toContain("healthcheck: { disable: true }")
  expect(lines.find((line) => line.startsWith("HEALTHCHECK"))).toContain("process.env.DESS_PORT")
})

test.skipIf(!hasRedis && process.env.CI !== "true")(
  "the compose file joins three empty Redis nodes, and finds them joined the next time",
  { timeout: 60_000 },
  async () => {
    const text = readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8")
    const addresses = [...text.matchAll(/ipv4_address: ([\d.]+)/g)].map(([, address]) => address)
    expect(addresses).toHaveLength(3)
    const [, folded] = /^ {2}cluster:\n(?:.*\n)*?.*command: >\n((?: {6}.+\n)+)/m.exec(text) ?? []
    const command = folded.replaceAll(/\n */g, " ").trim().replaceAll("$$", "$")
    const first = 20_000 + (process.pid % 20_000)
    const nodes = await Promise.all(
      addresses.map((_, n) =>
        startServer({ folder: join(folder, `redis-${n}`), port: first + n, bus: first + 10 + n, settings: [] }),
      ),
    )
    try {
      // In the place of redis-cli: the same with the addresses that the nodes have here.
      const here = addresses.map(
        (address, n) => `-e 's/-h redis-${n + 1}/-p ${first + n}/' -e 's/${address}:6379/127.0.0.1:${first + n}/'`,
      )
      const path = `${folder}:${process.env.PATH}`
      const real = execFileSync("sh", ["-c", "command -v redis-cli"], { encoding: "utf8" }).trim()
      writeFileSync(join(folder, "redis-cli"), `#!/bin/sh\nexec ${real} $(echo "$@" | sed ${here.join(" ")})\n`, {
        mode: 0o755,
      })
      const up = () =>
        spawnSync("sh", ["-c", command], { encoding: "utf8", timeout: 25_000, env: { ...process.env, PATH: path } })
      expect(up()).toMatchObject({ status: 0, stdout: expect.stringContaining("All 16384 slots covered") })
      expect(up()).toMatchObject({ status: 0, stdout: "PONG\nPONG\nPONG\n" })
    } finally {
      await Promise.all(nodes.map((node) => node.stop()))
    }
  },
)

test("the release checks the version, sets the addresses and publishes with provenance", () => {
  const text = readFileSync(join(ROOT, ".github/workflows/release.yml"), "utf8")
  expect(text).toContain("npm publish --provenance")
  for (const field of ["repository.url", "homepage", "bugs.url"]) expect(text).toContain(field)
  expect(text).toContain('node tools/package-links.mjs "$address" "$GITHUB_REF_NAME"')
  for (const version of [20, 22, 24, 26])
    expect(readFileSync(join(ROOT, ".github/workflows/test.yml"), "utf8")).toMatch(new RegExp(`node: \\[.*${version}`))
})

test("the steps of the release set the addresses in package.json and in the links, and refuse a tag of another version", () => {
  const copy = join(folder, "release")
  for (const path of [
    "package.json",
    "README.md",
    "CHANGELOG.md",
    "tools/package-links.mjs",
    "docs/guide",
    "docs/lab/results.md",
  ])
    cpSync(join(ROOT, path), join(copy, path), { recursive: true })
  const { version, ...before } = JSON.parse(readFileSync(join(copy, "package.json"), "utf8"))
  const workflow = readFileSync(join(ROOT, ".github/workflows/release.yml"), "utf8")
  const [check] = /(?<=- run: )test .+/.exec(workflow) ?? []
  const [, steps] = /- run: \|\n((?: {10}.+\n)+)/.exec(workflow) ?? []
  const release = (command = "false", tag = `v${version}`) => {
    const { NODE_OPTIONS: _, ...env } = process.env
    const github = { GITHUB_SERVER_URL: "https://example.org", GITHUB_REPOSITORY: "some/dess", GITHUB_REF_NAME: tag }
    return spawnSync("sh", ["-ec", command], { cwd: copy, env: { ...env, ...github } }).status
  }
  expect([release(check), release(check, "v99.0.0"), release(steps)]).toEqual([0, 1, 0])
  expect(JSON.parse(readFileSync(join(copy, "package.json"), "utf8"))).toEqual({
    ...before,
    version,
    repository: { type: "git", url: "git+https://example.org/some/dess.git" },
    homepage: "https://example.org/some/dess#readme",
    bugs: { url: "https://example.org/some/dess/issues" },
  })
  expect(readFileSync(join(copy, "README.md"), "utf8")).toContain(
    `](https://example.org/some/dess/blob/v${version}/docs/guide/quick-start.md)`,
  )
})

test("links of a released package lead into it or to the repository, those of the README to the repository", () => {
  const files = ["README.md", "docs/guide/lists.md", "docs/images/a.svg", "examples/shop/shop.mjs"]
  const p = { isInPackage: isIn(files), address: "https://example.org/dess", tag: "v1.2.3" }
  const page =
    "[a](../../README.md#dess) [b](lists.md) ![c](../images/a.svg) [d](../../examples/shop) [e](../results/x/results.jsonl) [f](#here) [g](https://x.org) [h](../lab/results.md#top)"
  expect(addressLinks(page, { ...p, page: "docs/guide/lists.md" })).toBe(
    page
      .replace("../results/x/", "https://example.org/dess/blob/v1.2.3/docs/results/x/")
      .replace("../lab/", "https://example.org/dess/blob/v1.2.3/docs/lab/"),
  )
  const readme = addressLinks(readFileSync(join(ROOT, "README.md"), "utf8"), { ...p, page: "README.md" })
  const links = [...readme.matchAll(/\]\(([^()\s]+)\)/g)].map(([, link]) => link)
  expect(links.filter((link) => !link.startsWith("https://"))).toEqual([])
  expect(links).toContain("https://example.org/dess/blob/v1.2.3/docs/guide/quick-start.md")
  expect(links).toContain("https://example.org/dess/raw/v1.2.3/docs/images/dashboard.png")
})
