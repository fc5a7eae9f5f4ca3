/** A size policy from outside: its input, and the check of its output. */

import { DessError, show } from "../errors.ts"
import type { Side, Task } from "../types.ts"
import type { SizePolicy } from "./policy.ts"

/** Values of an author's own options. */
export type OwnOptions = Readonly<Record<string, number | string | boolean>>

/** What a policy is made for. */
export interface PolicyStart {
  task: Task
  /** Of everything random. */
  seed: number
  /** Numbers of a vector, by step. */
  sizes: readonly number[]
  /** Bytes of a row, by step. */
  bytes: Readonly<Record<Side, readonly number[]>>
  /** Coordinates of a context, by what the policy reads. */
  contextLengths: Readonly<Record<SizePolicy["context"], number>>
  /** Whether items have features; "cv" needs them. */
  features: boolean
  /** The author's own options, with those given in the method's name. */
  options: OwnOptions
}

export type CreatePolicy = (start: PolicyStart) => SizePolicy

/** Makes the policy; refuses an object that is none. */
export function openPolicy(given: SizePolicy | CreatePolicy, start: PolicyStart): SizePolicy {
  const policy: unknown = typeof given === "function" ? given(start) : given
  const refuse = (expected: string, got: unknown) => {
    throw new DessError("INVALID_ARGUMENT", `policy: expected ${expected}, got ${show(got)}`)
  }
  if (typeof policy !== "object" || policy === null)
    throw new DessError("INVALID_ARGUMENT", `policy: expected an object, got ${show(policy)}`)
  const { context, firstSegment, learn, decide } = policy as Partial<SizePolicy>
  if (context !== "none" && context !== "fre" && context !== "cv") refuse('a context "none", "fre" or "cv"', context)
  if (firstSegment !== 1 && firstSegment !== 2) refuse("a firstSegment of 1 or 2", firstSegment)
  for (const [name, method] of Object.entries({ learn, decide }))
    if (typeof method !== "function") refuse(`a function ${name}(side, …)`, method)
  if (context === "cv" && !start.features)
    throw new DessError("UNSUPPORTED", 'policy with the context "cv": expected items with features, this data has none')
  return policy as SizePolicy
}
