/** The public names of `dess`. Importing them loads no optional package; DuckDB and Plot are loaded where they are used. */

export {
  type DataStream,
  type OpenOptions,
  openData,
  type PrepareOptions,
  type PrepareProgress,
  prepareData,
} from "./datasets/lazy.ts"
export { Recommender } from "./engine/open.ts"
export type {
  Accepted,
  Boost,
  Bytes,
  Duration,
  Event,
  Explanation,
  FeedbackOptions,
  FeedbackView,
  Filter,
  GuestOptions,
  Id,
  ItemEntry,
  ItemView,
  ListOptions,
  LiveReport,
  ObserveOptions,
  PageOptions,
  Prediction,
  Properties,
  PropertyValue,
  Receipt,
  Recommendation,
  RecommenderOptions,
  RecommendOptions,
  SimilarUser,
  SnapshotInfo,
  Source,
  Status,
} from "./engine/types.ts"
export { DessError, type ErrorCode } from "./errors.ts"
export { type CompareOptions, type Comparison, compare } from "./experiments/compare.ts"
export type { DataEntry } from "./experiments/data.ts"
export type { Grid } from "./experiments/grid.ts"
export { buildReport, drawFigures, type Report } from "./experiments/report.ts"
export { type CellRecord, type DoneRecord, isDone, readResults } from "./experiments/results.ts"
export { GRID_SCHEMA } from "./experiments/schema.ts"
export { type PairedTest, pairedTest } from "./experiments/statistics.ts"
export type { Table } from "./experiments/tables.ts"
export { writeReport } from "./experiments/write-report.ts"
export type { Kernels } from "./kernels/kernels.ts"
export { type KernelOptions, openKernels } from "./kernels/open.ts"
export { matchProbability } from "./learning/equal-memory.ts"
export { Run, runStream } from "./learning/loop.ts"
export { RUN_DEFAULTS, type RunOptions } from "./learning/options.ts"
export type { CreateModel, ModelStart, OwnModel } from "./learning/own.ts"
export type { Measures, Milliseconds, RunResult, SegmentReport } from "./learning/report.ts"
export type { LabelledPairs, Pairs, PlainModel, PlainRanker } from "./models/controls/model.ts"
export { EmbeddingTable, type TableOptions } from "./models/embedding-table.ts"
export { DEFAULT_SIZES, type ModelBatch, type PassResult } from "./models/model.ts"
export type { OwnRowModel } from "./models/own/row-model.ts"
export { Model, type ModelOptions } from "./models/paper/model.ts"
export { LinUcb, type LinUcbOptions } from "./policies/lin-ucb.ts"
export type { CreatePolicy, OwnOptions, PolicyStart } from "./policies/own.ts"
export type { Choices, Round, SizePolicy } from "./policies/policy.ts"
export {
  discountFor,
  type RegretBound,
  type RegretBoundOptions,
  regretBound,
  regretRate,
} from "./policies/regret-bound.ts"
export type { NamedStream } from "./stream/columns.ts"
export { streamFromInteractions } from "./stream/memory.ts"
export { shuffleStream } from "./stream/shuffled.ts"
export type { Stream } from "./stream/stream.ts"
export { type SyntheticOptions, type SyntheticStream, synthetic } from "./stream/synthetic/synthetic.ts"
export type { HeadKind, Interaction, ItemFeatures, Side, Task } from "./types.ts"
