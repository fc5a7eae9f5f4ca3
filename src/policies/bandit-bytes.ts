/** What a bandit has learned, in bytes. Matrices are symmetric: the part left of the diagonal and the diagonal. */

import type { Packer, Unpacker } from "../kernels/packing.ts"
import type { BanditEvidence, LinUcb } from "./lin-ucb.ts"

/** The arms that were discounted, and theirs. */
export function writeBanditEvidence(out: Packer, bandit: LinUcb): void {
  const evidence = bandit.takeEvidence()
  out.count(evidence.updates)
  if (evidence.updates === 0) return
  out.double(evidence.weight)
  write(out, bandit, evidence)
}

/** Reads it; the result adds it. */
export function readBanditEvidence(from: Unpacker, bandit: LinUcb): () => void {
  const updates = from.count()
  if (updates === 0) return () => {}
  const evidence = { updates, weight: from.double(), ...read(from, bandit) }
  return () => bandit.addEvidence(evidence)
}

/** All a bandit knows, in doubles. */
export function writeBandit(out: Packer, bandit: LinUcb): void {
  const { updates, weight, gram, gramSquared, response } = bandit.state()
  for (const value of [updates, weight, ...gram, ...gramSquared, ...response]) out.double(value)
}

export function readBandit(from: Unpacker, bandit: LinUcb): () => void {
  const { arms, dimension: d } = bandit
  const updates = Math.round(from.double())
  const weight = from.double()
  if (!(updates >= 0 && weight >= 0)) throw from.damaged("a number of updates and their weight", [updates, weight])
  const [gram, gramSquared] = [readMatrices(from, arms, d), readMatrices(from, arms, d)]
  const state = { updates, weight, gram, gramSquared, response: from.doubles(arms * d) }
  return () => bandit.restore(state)
}

function readMatrices(from: Unpacker, arms: number, d: number): Float64Array {
  const matrices = from.doubles(arms * d * d)
  for (let arm = 0; arm < arms; arm++) checkMatrix(from, matrices.subarray(arm * d * d, (arm + 1) * d * d), d)
  return matrices
}

/** Refuses a matrix that cannot be a sum of xxᵀ. */
function checkMatrix(from: Unpacker, matrix: Float64Array, d: number): void {
  for (let i = 0; i < d; i++)
    for (let j = 0; j <= i; j++) {
      const [value, mirrored] = [matrix[i * d + j], matrix[j * d + i]]
      const most = matrix[i * d + i] * matrix[j * d + j]
      if (!(matrix[i * d + i] >= 0 && value === mirrored && value * value <= most * (1 + 1e-6)))
        throw from.damaged("a matrix of sums of products", value)
    }
}

function write(out: Packer, { arms, dimension: d }: LinUcb, from: BanditEvidence): void {
  for (let arm = 0; arm < arms; arm++) {
    out.count(from.steps[arm])
    if (from.steps[arm] === 0) continue
    for (const matrix of [from.gram, from.gramSquared])
      for (let i = 0; i < d; i++) for (let j = 0; j <= i; j++) out.double(matrix[arm * d * d + i * d + j])
    for (let i = 0; i < d; i++) out.double(from.response[arm * d + i])
  }
}

function read(from: Unpacker, { arms, dimension: d }: LinUcb): Omit<BanditEvidence, "updates" | "weight"> {
  const steps = new Float64Array(arms)
  const [gram, gramSquared] = [new Float64Array(arms * d * d), new Float64Array(arms * d * d)]
  const response = new Float64Array(arms * d)
  for (let arm = 0; arm < arms; arm++) {
    steps[arm] = from.count()
    if (steps[arm] === 0) continue
    for (const matrix of [gram, gramSquared])
      for (let i = 0; i < d; i++)
        for (let j = 0; j <= i; j++) {
          const value = from.double()
          matrix[arm * d * d + i * d + j] = value
          matrix[arm * d * d + j * d + i] = value
        }
    for (const matrix of [gram, gramSquared]) checkMatrix(from, matrix.subarray(arm * d * d, (arm + 1) * d * d), d)
    for (let i = 0; i < d; i++) response[arm * d + i] = from.double()
  }
  return { steps, gram, gramSquared, response }
}
