import { expect, test, vi } from "vitest"
import { requirePackages } from "../../src/server/packages.ts"

vi.mock("fastify", () => {
  throw new Error("Cannot find package 'fastify'")
})

test("says which packages to install when Fastify is not there", async () => {
  await expect(requirePackages()).rejects.toMatchObject({
    code: "UNSUPPORTED",
    message: expect.stringContaining("npm install fastify typebox"),
  })
})
