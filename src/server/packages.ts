/** Fastify and TypeBox are optional: asked for before anything that needs them is loaded. */

import { DessError } from "../errors.ts"

export async function requirePackages(): Promise<void> {
  try {
    await Promise.all([import("fastify"), import("typebox")])
  } catch (cause) {
    throw new DessError("UNSUPPORTED", "service: expected fastify and typebox, got none; npm install fastify typebox", {
      cause,
    })
  }
}
