/** Fastify is an optional package: checked before anything that needs them is loaded. */

import { missingPackage } from "../errors.ts"

export async function requirePackages(): Promise<void> {
  try {
    await import("fastify")
  } catch (cause) {
    throw missingPackage("service", "fastify", cause)
  }
}
