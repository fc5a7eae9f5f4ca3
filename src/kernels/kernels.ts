/**
 * The floor: all arithmetic on batches. One interface, two twins: `reference.ts` (plain loops, the definition of
 * correct) and `wasm.ts` (SIMD, any number of threads).
 *
 * A kernel works on one flat working memory. An `Address` is an index into `floats` (and, with the same numbering,
 * into `ints`). Operations are queued and carried out in order by `run()`: one crossing into Wasm per phase of a batch.
 * Matrices are row-major and dense. Every operation splits its work over outputs, never over a sum, so that any
 * number of threads gives the same bits. Outputs never overlap inputs unless an operation says so.
 */

export type Floats = Float32Array | Float64Array
export type Address = number

/** No address: an optional block that is left out. Nothing is ever allocated here. */
export const NONE: Address = 0

/** out[rows×columns] = left·right, started from `bias` (one value a column) or, with `accumulate`, from what is there. */
export interface Multiply {
  out: Address
  /** rows×inner, or inner×rows with `transposeLeft`. */
  left: Address
  /** inner×columns, or columns×inner with `transposeRight`. */
  right: Address
  rows: number
  columns: number
  inner: number
  transposeLeft?: boolean
  transposeRight?: boolean
  accumulate?: boolean
  bias?: Address
}

/** The state of one batch norm. `center` and `scale` (1/√(variance+ε)) are those the last pass used. */
export interface Norm {
  gamma: Address
  beta: Address
  mean: Address
  variance: Address
  center: Address
  scale: Address
  epsilon: number
  momentum: number
}

/**
 * out = (input − center)·scale·γ + β, then tanh if asked. In training the statistics are those of the rows, row r
 * counted weights[r] times (`total` = Σ weights), and the running ones move by `momentum` towards them (variance
 * unbiased); otherwise the running ones are used.
 */
export interface Normalize {
  out: Address
  input: Address
  norm: Norm
  weights: Address
  total: number
  rows: number
  columns: number
  training: boolean
  tanh: boolean
}

/** Backward of a training `Normalize`; dOut[r] is summed over the weights[r] equal rows it stands for, and so is dInput[r]. */
export interface NormalizeBackward {
  dInput: Address
  dGamma: Address
  dBeta: Address
  dOut: Address
  input: Address
  /** What the forward pass gave; read only with `tanh`. */
  out: Address
  norm: Norm
  weights: Address
  total: number
  rows: number
  columns: number
  tanh: boolean
}

/** out[r] = dOut[r] ∘ (1 − activation[index[r]]²) ∘ γ·scale: through a running-statistics norm, row by row. May work in place. */
export interface NormalizeGradient {
  out: Address
  dOut: Address
  norm: Norm
  /** The tanh output the norm led to, or NONE where no tanh follows. */
  activation: Address
  /** Row of `activation` for each row, or NONE for the same row. */
  index: Address
  rows: number
  columns: number
}

/** Pairs of rows: pair p joins row userIndex[p] of `user` and row itemIndex[p] of `item`. */
export interface Pairs {
  user: Address
  item: Address
  userIndex: Address
  itemIndex: Address
  pairs: number
  columns: number
}

/** out[p] = tanh(norm(user[u] + item[i] + bias)), with the statistics of these pairs (training). */
export interface HiddenTrain extends Pairs {
  out: Address
  bias: Address
  norm: Norm
}

/**
 * Backward of `HiddenTrain` followed by a linear layer `weight` [outputs×columns]. dUser and dItem are overwritten with
 * sums per row. The gradient of the bias is zero, since the norm takes a constant out again, and is not computed.
 */
export interface HiddenTrainBackward extends HiddenTrain {
  dUser: Address
  dItem: Address
  dGamma: Address
  dBeta: Address
  dLogits: Address
  weight: Address
  outputs: number
  users: number
  items: number
}

/** logits[p] = weight·tanh(norm(user[u] + item[i] + bias)) + outputBias with running statistics. `activation` keeps the tanh unless NONE. */
export interface HiddenInfer extends Pairs {
  logits: Address
  activation: Address
  bias: Address
  norm: Norm
  weight: Address
  outputBias: Address
  outputs: number
}

/** out[r] = (dLogits[rowIndex[r]]·weight) ∘ (1 − activation²) ∘ γ·scale: the gradient at the hidden sum of chosen pairs (running statistics). */
export interface HiddenInferGradient {
  out: Address
  dLogits: Address
  activation: Address
  rowIndex: Address
  weight: Address
  norm: Norm
  rows: number
  columns: number
  outputs: number
}

/**
 * One side's share of tanh(norm(user + item + bias)) with running statistics, made ready for multiplying: out = e^{2y}
 * with y = (half + bias − mean)·γ·scale + β, or y = half·γ·scale where `bias` is NONE (one side of a pair has it), cut
 * off at ±limit ≤ 44. Then tanh(y_u + y_i) = 1 − 2/(out_u·out_i + 1). largest[c] is the largest |y| of column c, uncut.
 */
export interface HiddenPowers {
  out: Address
  largest: Address
  half: Address
  bias: Address
  norm: Norm
  limit: number
  rows: number
  columns: number
}

/**
 * scores[r, o] = outputBias[o] + Σ_c weight[o, c]·(1 − 2/(user[c]·items[r, c] + 1)): one user and many items, from their
 * `HiddenPowers`.
 */
export interface HiddenScores {
  scores: Address
  user: Address
  items: Address
  weight: Address
  outputBias: Address
  rows: number
  columns: number
  outputs: number
}

/** out[rows×outputs] = input·weightᵀ + bias, for few outputs. */
export interface Project {
  out: Address
  input: Address
  weight: Address
  bias: Address
  rows: number
  columns: number
  outputs: number
}

/** out[t] = Σ_k weight[k]·input[t + k], t < count, k < columns: a vector against every stretch of a longer one, or some. */
export interface Correlate {
  out: Address
  /** count + columns − 1 numbers. */
  input: Address
  weight: Address
  count: number
  columns: number
}

/**
 * out[id] = base + bias + ⟨x, d⟩ + ⟨x, ε⟩ of items in chunks, each where its index is. Word w of slot t stands at
 * chunk + w·slots + t: word 0 is the item's index, 1 its bias, then come its numbers d: floats, or of 8 or 16 bits a scale and
 * whole numbers, several in a word. x: floats, or whole numbers of 16 bits; `factor`: what one counts. Of 8 bits no more than 128
 * words. ε stands from `liftPlace(id)` on: ⟨x, ε⟩ is read from `sums`, by place, or, without them, computed of whole numbers.
 */
export interface ScoreChunks {
  out: Address
  /** Where chunks begin, as whole numbers. */
  chunks: Address
  slots: number
  /** Items: all chunks are full but the last. */
  count: number
  bits: number
  /** Numbers of d and x, of 8 and 16 bits whole words of them. */
  columns: number
  x: Address
  factor: number
  base: number
  sums: Address
  lift: {
    /** Zeros up to a multiple of 16. */
    x: Address
    noise: Address
    columns: number
    factor: number
  }
}

/** squared: (σ(z) − y)². logistic: cross-entropy of σ(z). softmax: cross-entropy over the outputs, label = class. */
export type LossKind = "squared" | "logistic" | "softmax"

/** losses[r] of the logits, and their gradient unless `dLogits` is NONE. */
export interface Loss {
  kind: LossKind
  losses: Address
  dLogits: Address
  logits: Address
  labels: Address
  rows: number
  outputs: number
}

/** dot: ⟨user, item⟩·factor. distance: −‖user − item‖²·factor. */
export type Metric = "dot" | "distance"

export interface PairScore extends Pairs {
  out: Address
  metric: Metric
  factor: number
}

/** Backward of `PairScore`: dUser and dItem are overwritten with sums per row. */
export interface PairScoreBackward extends Pairs {
  dUser: Address
  dItem: Address
  dScores: Address
  metric: Metric
  factor: number
  users: number
  items: number
}

/** out[r] = d score/d user (or item) of pair rowIndex[r], times dScores of that pair. */
export interface PairScoreGradient extends Pairs {
  out: Address
  dScores: Address
  rowIndex: Address
  rows: number
  side: "user" | "item"
  metric: Metric
  factor: number
}

/** out[c] = Σ_r input[r, c] */
export interface ColumnSums {
  out: Address
  input: Address
  rows: number
  columns: number
}

/** out[r] = base[index[r]] − rate·delta[r] */
export interface MoveRows {
  out: Address
  base: Address
  index: Address
  delta: Address
  rate: number
  rows: number
  columns: number
}

/**
 * Adam with L2 in the gradient: g += l2·w; m, v; w −= rate·(m·c₁)/(√(v·c₂) + ε), with row r's bias corrections
 * c₁ = 1/(1−β₁^t), c₂ = 1/(1−β₂^t) at corrections[2r], corrections[2r+1]. Works in place; the gradient is left as it is.
 */
export interface Adam {
  value: Address
  gradient: Address
  first: Address
  second: Address
  /** From one row's first (second) moments to the next one's; `columns` if left out. Numbers and gradients are dense. */
  momentStride?: number
  corrections: Address
  rows: number
  columns: number
  rate: number
  beta1: number
  beta2: number
  epsilon: number
  l2: number
}

/**
 * A soft sum: shares = softmax(logits[r]), out[r] = Σ_i shares[r, i]·parts[i, r]. `parts` holds `count` matrices
 * [rows×columns] one after the other; `shares` [rows×count] is written for the way back.
 */
export interface Mix {
  out: Address
  shares: Address
  logits: Address
  parts: Address
  count: number
  rows: number
  columns: number
}

/** Backward of `Mix`: dParts[i, r] = shares[r, i]·dOut[r]; dLogits through the softmax. */
export interface MixBackward {
  dParts: Address
  dLogits: Address
  dOut: Address
  shares: Address
  parts: Address
  count: number
  rows: number
  columns: number
}

/** Copies rows; from one to the next it is `columns` on either side, or what is said. */
export interface CopyRows {
  out: Address
  input: Address
  rows: number
  columns: number
  outStride?: number
  inputStride?: number
}

export interface Fill {
  out: Address
  value: number
  count: number
}

/**
 * Groups of rows, learned one after the other as models/calibrated/sequence.ts has it: a user, up to `latest` items that stand
 * for it, and an own item with others. The same bits whatever the build. Rows and groups are laid out as in layout.ts; addresses
 * in them count as all addresses do, and 0 is no row.
 *
 *   x = p + Σ_a ω_a·y_a      z = b + ⟨x, q̂⟩ + Σ_k w_k·f_k − log Q      e = weight·(softmax(z) − [own]), or weight·σ(z) of one alone
 */
export interface LearnGroups {
  groups: Address
  /** Which of them. */
  from: number
  to: number
  /** A pass takes its share of the others. */
  pass: number
  passes: number
  /** By row of the batch: where its item's row stands, log Q, and f_0, f_1 (NONE: no such). */
  rows: Address
  chances: Address
  features: Address
  /** w_0, w_1 and their accumulators. */
  fusion: Address
  /** ω_a of m latest items at m·latest + a. */
  decay: Address
  latest: number
  /** ε: what stands for numbers an item does not hold, from its place on. */
  lift: Address
  /** Of each group, in the first pass. */
  losses: Address
  /** Sizes of all rungs, then their bits: a group that is judged writes what it would have cost with a vector cut to each. */
  ladder: Address
  rungs: number
  /** `groupWork` numbers: the largest vector in whole blocks, and the rows of the largest group in fours. */
  work: Address
  widest: number
  longest: number
  constants: GroupConstants
}

export interface GroupConstants {
  /** Slow and quick: of the two biases of an item; mix: of how much the quick one is. */
  rate: { slow: number; quick: number; mix: number; item: number; user: number; input: number }
  l2: { item: number; user: number; input: number }
  /** An accumulator counts no more than this. */
  most: number
  fusion: { rate: number; most: number }
}

/** out[i] = b + ⟨x, q̂⟩ of rows that groups could learn from, of each of which `rows` says where it stands; x with zeros up to a whole block. */
export interface ScoreRows {
  out: Address
  rows: Address
  count: number
  x: Address
  columns: number
  lift: Address
}

/**
 * Pairs of a user's and an item's row, learned one after the other as models/calibrated/factor.ts has it with one output, so
 * often as there are passes. The same bits whatever the build. Rows are laid out as those of groups.
 *
 *   z = g + b_u + b_i + ⟨p̂, q̂⟩      e = σ(z) − y
 */
export interface LearnPairs {
  /** By row of the batch: where its user's and its item's row stand. */
  pairs: Address
  labels: Address
  /** Of how many events a row counts (NONE: of one). */
  weights: Address
  /** e² of every row in the first pass. */
  losses: Address
  /** By row: where the losses of either side cut to each rung are to be written, `rungs` each, or NONE (NONE: nowhere). */
  judged: Address
  /** Where the logit of every row is to be written, and nothing learned or judged (NONE: they are learned). */
  logits: Address
  /** ε: what stands for numbers an item does not hold, from its place on. */
  lift: Address
  /** g */
  global: Address
  /** Sizes of all rungs, which have the same bits. */
  ladder: Address
  rungs: number
  rows: number
  passes: number
  constants: PairConstants
}

export interface PairConstants {
  rate: { global: number; bias: number; user: number; item: number }
  l2: { bias: number; user: number; item: number }
  /** An accumulator of a vector counts no more than this. */
  most: number
}

/**
 * Adds up what rows of words say of the items they name. A word is 1 + an item in its low 24 bits, 0 for none, and the code
 * of a value above: that value times the row's `factor` is added to the sum of the row's `scorer`, for items below `limit`.
 * `slots`: by 1 + item, 1 + its place among those named; 0 for all at first. Out: by place, `items` and SCORERS `sums` each,
 * and room for one more; `out`: how many items, and of how many of them the first root is NaN.
 */
export interface SumWords {
  out: Address
  values: Address
  slots: Address
  items: Address
  sums: Address
  roots: Address
  limit: number
  rows: readonly WordRow[]
}

/** A row of words, the scorer it counts for, and how much. */
export interface WordRow {
  at: Address
  length: number
  scorer: number
  factor: number
}

/**
 * out[t] = Σ_k weights[k]·ln(1 + sums[t·SCORERS + k]/d_k), t < count, k < SCORERS: d_0 = roots[2·items[t]], the others the
 * number behind it. The same bits whatever the build. Unless it is NONE, `to[items[t]]` is that much more, and the `slots`
 * of these items are 0 again.
 */
export interface FuseLogs {
  out: Address
  sums: Address
  items: Address
  roots: Address
  to: Address
  slots: Address
  count: number
  weights: ArrayLike<number>
}

/**
 * Of `count` logits: `maxima` are the largest of every 16, `out` the largest of all and Σ e^(logit − it). What is no number
 * does not count. The same bits whatever the build.
 */
export interface SumPowers {
  out: Address
  maxima: Address
  input: Address
  count: number
}

/** What packed rows are made of (models/row-packing.ts); `lift` NONE: their first vector is kept as it is. */
export interface PackedForm {
  whole: number
  head: number
  vectors: number
  lift: Address
}

/** Unpacks rows in 8, 16 or 32 bits into rows that groups are learned from: all but whole numbers. */
export interface UnpackRows {
  records: Address
  count: number
  form: PackedForm
}

/** Packs them again, rounding by chance; the packed words are in `ints`. */
export interface PackRows extends UnpackRows {
  seed: number
}

export interface Kernels {
  readonly kind: "reference" | "simd" | "relaxed-simd"
  readonly threads: number
  /** Whether the calling thread does all the work and the others sleep; false at first. Changes no bit. */
  alone: boolean
  /** The working memory. Take the views again after `allocate`: it may have moved. */
  readonly floats: Floats
  readonly ints: Int32Array
  /** Reserves a block, not cleared, aligned to a cache line. */
  allocate(count: number): Address
  /** Everything allocated after `mark` is given back by `release`. */
  mark(): Address
  release(mark: Address): void
  /** Carries out what is queued. Results can be read afterwards. */
  run(): void
  /**
   * As `run`, but the last operation is left to the other threads while the caller does something else: until the next
   * `run`, which lends a hand, what it reads and writes is not to be touched.
   */
  start(): void
  /** Resolves when all threads are up. No need to wait: until then `run` makes do with those that are. */
  ready(): Promise<void>
  /** Ends the threads. Nothing can be run afterwards. */
  close(): void

  multiply(operation: Multiply): void
  normalize(operation: Normalize): void
  normalizeBackward(operation: NormalizeBackward): void
  normalizeGradient(operation: NormalizeGradient): void
  hiddenTrain(operation: HiddenTrain): void
  hiddenTrainBackward(operation: HiddenTrainBackward): void
  hiddenInfer(operation: HiddenInfer): void
  hiddenInferGradient(operation: HiddenInferGradient): void
  hiddenPowers(operation: HiddenPowers): void
  hiddenScores(operation: HiddenScores): void
  project(operation: Project): void
  correlate(operation: Correlate): void
  scoreChunks(operation: ScoreChunks): void
  loss(operation: Loss): void
  pairScore(operation: PairScore): void
  pairScoreBackward(operation: PairScoreBackward): void
  pairScoreGradient(operation: PairScoreGradient): void
  columnSums(operation: ColumnSums): void
  moveRows(operation: MoveRows): void
  mix(operation: Mix): void
  mixBackward(operation: MixBackward): void
  adam(operation: Adam): void
  copyRows(operation: CopyRows): void
  learnGroups(operation: LearnGroups): void
  scoreRows(operation: ScoreRows): void
  sumWords(operation: SumWords): void
  fuseLogs(operation: FuseLogs): void
  sumPowers(operation: SumPowers): void
  learnPairs(operation: LearnPairs): void
  unpackRows(operation: UnpackRows): void
  packRows(operation: PackRows): void
  fill(operation: Fill): void
}
