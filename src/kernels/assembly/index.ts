/** The tape: operations one after the other, each done in parts by whoever is awake. */

import {
  ADAM, COLUMN_SUMS, COPY_ROWS, CORRELATE, FILL, FUSE_LOGS, HIDDEN_INFER, HIDDEN_INFER_GRADIENT, HIDDEN_POWERS, HIDDEN_SCORES, HIDDEN_TRAIN,
  HIDDEN_TRAIN_BACKWARD, LEARN_GROUPS, LEARN_PAIRS, LOSS, MIX, MIX_BACKWARD,
  MOVE_ROWS, MULTIPLY, NORMALIZE, NORMALIZE_BACKWARD, NORMALIZE_GRADIENT, OPERATION_HEADER, PACK_ROWS, PAIR_SCORE, PAIR_SCORE_BACKWARD,
  PAIR_SCORE_GRADIENT, PROJECT, SCORE_CHUNKS, SCORE_ROWS, SCRATCH, SCRATCH_BYTES, SUM_POWERS, SUM_WORDS, UNPACK_ROWS,
} from "../layout";
import { fuseLogs, sumPowers, sumWords } from "./exact";
import { learnGroups, scoreRows } from "./groups";
import { learnPairs } from "./pairs";
import { hiddenTrainBackward } from "./hidden-backward";
import { hiddenInfer, hiddenInferGradient } from "./hidden-infer";
import { hiddenPowers, hiddenScores } from "./hidden-scores";
import { hiddenTrain } from "./hidden-train";
import { mix, mixBackward } from "./mix";
import { multiply } from "./multiply";
import { normalize, normalizeBackward, normalizeGradient } from "./norm";
import { packRows, unpackRows } from "./packed";
import { adam, columnSums, copyRows, fill, moveRows } from "./rows";
import { scoreChunks } from "./chunks";
import { correlate, loss, pairScore, pairScoreBackward, pairScoreGradient, project } from "./score";
import { dismiss, finish, join, offer, offered, report, takeHigh, takeLow } from "./threads";

function perform(code: i32, p: usize, part: i32, parts: i32, scratch: usize): void {
  switch (code) {
    case MULTIPLY: return multiply(p, part, parts, scratch);
    case NORMALIZE: return normalize(p, part, parts, scratch);
    case NORMALIZE_BACKWARD: return normalizeBackward(p, part, parts);
    case NORMALIZE_GRADIENT: return normalizeGradient(p, part, parts);
    case HIDDEN_TRAIN: return hiddenTrain(p, part, parts, scratch);
    case HIDDEN_TRAIN_BACKWARD: return hiddenTrainBackward(p, part, parts, scratch);
    case HIDDEN_INFER: return hiddenInfer(p, part, parts, scratch);
    case HIDDEN_INFER_GRADIENT: return hiddenInferGradient(p, part, parts);
    case HIDDEN_POWERS: return hiddenPowers(p, part, parts, scratch);
    case HIDDEN_SCORES: return hiddenScores(p, part, parts, scratch);
    case PROJECT: return project(p, part, parts);
    case CORRELATE: return correlate(p, part, parts);
    case SCORE_CHUNKS: return scoreChunks(p, part, parts);
    case LOSS: return loss(p, part, parts);
    case PAIR_SCORE: return pairScore(p, part, parts);
    case PAIR_SCORE_BACKWARD: return pairScoreBackward(p, part, parts);
    case PAIR_SCORE_GRADIENT: return pairScoreGradient(p, part, parts);
    case COLUMN_SUMS: return columnSums(p, part, parts);
    case MOVE_ROWS: return moveRows(p, part, parts);
    case ADAM: return adam(p, part, parts);
    case COPY_ROWS: return copyRows(p, part, parts);
    case FILL: return fill(p, part, parts);
    case MIX: return mix(p, part, parts);
    case MIX_BACKWARD: return mixBackward(p, part, parts);
    case LEARN_GROUPS: return learnGroups(p);
    case FUSE_LOGS: return fuseLogs(p, part, parts);
    case SUM_POWERS: return sumPowers(p);
    case SUM_WORDS: return sumWords(p);
    case SCORE_ROWS: return scoreRows(p, part, parts);
    case LEARN_PAIRS: return learnPairs(p);
    case UNPACK_ROWS: return unpackRows(p);
    case PACK_ROWS: return packRows(p, scratch);
    default: unreachable();
  }
}

/** One part of the operation at p. */
@inline
function performPart(p: usize, part: i32, parts: i32, scratch: usize): void {
  perform(load<i32>(p), p + OPERATION_HEADER, part, parts, scratch);
}

/** The operation that is under way without the first thread, or 0. */
let started: usize = 0;

/** Lends a hand with the parts of an operation that is offered, and sees it through. */
function complete(p: usize): void {
  const parts = load<i32>(p, 8);
  let own = 0;
  for (let part = takeLow(); part >= 0; part = takeLow()) {
    performPart(p, part, parts, SCRATCH);
    own++;
  }
  finish(own, parts);
}

/** Sees through what was left under way; before that the tape holds still. */
export function settle(): void {
  if (ASC_FEATURE_THREADS) {
    if (started) complete(started);
    started = 0;
  }
}

/** Works through the tape, with the help of the workers if it is shared; can leave its last operation to them. */
export function run(start: usize, end: usize, shared: bool, leave: bool): void {
  for (let p = start; p < end; p += load<u32>(p, 4) * 4) {
    const parts = load<i32>(p, 8);
    if (ASC_FEATURE_THREADS) {
      if (shared && parts > 1) {
        offer(p, parts);
        if (leave && p + load<u32>(p, 4) * 4 == end) started = p;
        else complete(p);
        continue;
      }
    }
    performPart(p, 0, 1, SCRATCH);
  }
}

/** A worker's life: takes parts of what is offered, until it is ended. `worker` counts from 1. */
export function work(worker: i32): void {
  if (ASC_FEATURE_THREADS) {
    const scratch: usize = SCRATCH + worker * SCRATCH_BYTES;
    join();
    for (let part = takeHigh(); part >= 0; part = takeHigh()) {
      const p = offered();
      performPart(p, part, load<i32>(p, 8), scratch);
      report();
    }
  }
}

/** Ends all workers. */
export function stop(): void {
  if (ASC_FEATURE_THREADS) dismiss();
}
