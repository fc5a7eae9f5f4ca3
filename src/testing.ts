/**
 * `dess/testing`: the contracts of size policies and models as checks that throw, for any test framework:
 * `for (const { name, run } of policyChecks(create)) test(name, run)`.
 */

export type { Check } from "./testing/check.ts"
export { type ModelCheckOptions, modelChecks } from "./testing/model-checks.ts"
export { drawChoices, drawRound, type PolicyCheckOptions, policyChecks, policyStart } from "./testing/policy-checks.ts"
