/** Types of events: the weight of each, and which leave their item out of the user's lists. */

import { DessError, show } from "../errors.ts"
import type { Task } from "../types.ts"
import { checkObject, checkType } from "./check.ts"
import type { EventsRecord } from "./records.ts"

export interface EventTypes {
  weights: Record<string, number>
  /** Types whose item is left out of the user's lists. */
  leaveOut: string[]
}

/** The weight of an event, and whether its item may still be recommended. */
export interface Weighed {
  weight: number
  stays: boolean
}

const MOST_TYPES = 256
/** A weight is a number of events: more at once would overshoot. */
const MOST_WEIGHT = 10

/** A number of events: negative ones say that the item is disliked. */
export function checkWeight(noun: string, weight: unknown, place = ""): number {
  if (typeof weight === "number" && Math.abs(weight) <= MOST_WEIGHT) return weight
  throw new DessError(
    "INVALID_DATA",
    `${noun}: expected a number from −${MOST_WEIGHT} to ${MOST_WEIGHT}, got ${show(weight)}${place}`,
  )
}

/** The configured types; undefined if none are. `leaveOut` defaults to the types of the highest weight, and dislikes. */
export function checkTypes(given: unknown, leaveOut: unknown): EventTypes | undefined {
  if (given === undefined) {
    if (leaveOut === undefined) return undefined
    throw new DessError("INVALID_ARGUMENT", `leaveOut: expected with types only, got ${show(leaveOut)}`)
  }
  checkObject("types", given)
  if (Object.keys(given as object).length > MOST_TYPES)
    throw new DessError(
      "INVALID_ARGUMENT",
      `types: expected an object of at most ${MOST_TYPES} types and their weights, got ${show(given)}`,
    )
  const weights = Object.fromEntries(
    Object.entries(given as object).map(([type, weight]) => [
      checkType(type),
      checkWeight(`weight of type ${show(type)}`, weight),
    ]),
  )
  return { weights, leaveOut: checkLeaveOut(leaveOut, weights) }
}

function checkLeaveOut(given: unknown, weights: Record<string, number>): string[] {
  const known = Object.keys(weights)
  if (given === undefined) {
    const most = Math.max(...Object.values(weights))
    return known.filter((type) => weights[type] === most || weights[type] < 0)
  }
  if (!Array.isArray(given)) throw new DessError("INVALID_ARGUMENT", `leaveOut: expected types, got ${show(given)}`)
  for (const type of given)
    if (!known.includes(type))
      throw new DessError("INVALID_ARGUMENT", `leaveOut: expected types of ${known.join(", ")}, got ${show(type)}`)
  return [...new Set(given as string[])]
}

/** Whether any types are set: then events of others are refused. */
export function hasTypes(types: EventTypes | undefined): types is EventTypes {
  return types !== undefined && Object.keys(types.weights).length > 0
}

/** The weight of an event, as it is journalled; its own comes before its type's. Refuses unknown types where types are configured. */
export function weighEvent(
  types: EventTypes | undefined,
  { type, weight }: { type: string | undefined; weight: number | undefined },
  place = "",
): Weighed {
  if (type === undefined || !hasTypes(types)) return { weight: Math.fround(weight ?? 1), stays: false }
  if (!Object.hasOwn(types.weights, type))
    throw new DessError(
      "INVALID_DATA",
      `event type: expected one of ${Object.keys(types.weights).join(", ")}, got ${show(type)}${place}`,
    )
  return { weight: Math.fround(weight ?? types.weights[type]), stays: !types.leaveOut.includes(type) }
}

/** How much more a like of 5 weighs than one without a rating; just above the threshold it is nothing. */
const RATED_MORE = 0.25

/** How many events each row counts as where it is learned; undefined where it is 1 of all, and none may come back. */
export function weighRows(
  { rating, weight, stays }: Pick<EventsRecord, "rating" | "weight" | "stays">,
  { task, likeThreshold }: { task: Task; likeThreshold: number },
): Float32Array | undefined {
  const rated = (value: number) =>
    task === "topk" && value > likeThreshold ? 1 + (RATED_MORE * (value - likeThreshold)) / (5 - likeThreshold) : 1
  const weights = weight.map((one, r) => Math.abs(one) * rated(rating[r]))
  return weights.some((one) => one !== 1) || stays.some((one) => one === 1) ? weights : undefined
}
