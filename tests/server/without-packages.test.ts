import { expect, test, vi } from "vitest"
import { serveCommand } from "../../src/cli/serve.ts"
import { requirePackages } from "../../src/server/packages.ts"

vi.mock("fastify", () => {
  throw Object.assign(new Error("Cannot find package 'fastify'"), { code: "ERR_MODULE_NOT_FOUND" })
})

test("says which packages to install when Fastify is not there", async () => {
  await expect(requirePackages()).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringMatching(/npm install .*fastify/),
  })
})

test("--help helps without them, and says what to install to see more", async () => {
  const said = vi.spyOn(console, "log").mockImplementation(() => {})
  await serveCommand(["--help"])
  expect(said.mock.calls.join()).toMatch(/Usage: dess serve.*npm install.*fastify/s)
  said.mockRestore()
})
