import type { CellRecord } from "../src/experiments/results.ts"

export function labRows(records: readonly CellRecord[], model: string): Map<string, string>
