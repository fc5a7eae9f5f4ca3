import type { CellRecord } from "../src/experiments/results.ts"

export function short(value: number, digits: number): string
export function labTable(records: readonly CellRecord[], model: string): string[]
