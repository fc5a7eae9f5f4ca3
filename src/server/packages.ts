/** Fastify and TypeBox are optional packages: checked before anything that needs them is loaded. */

import { missingPackage } from "../errors.ts"

export async function requirePackages(): Promise<void> {
  try {
    await Promise.all([import("fastify"), import("typebox")])
  } catch (cause) {
    throw missingPackage("service", "fastify typebox", cause)
  }
}
