/**
 * What the two sides of the Wasm border agree on: operation codes, the control block and the scratch space.
 * Compiled twice, by TypeScript and by AssemblyScript; so plain whole-number constants only. Places are in bytes.
 */

export const MULTIPLY = 1
export const NORMALIZE = 2
export const NORMALIZE_BACKWARD = 3
export const NORMALIZE_GRADIENT = 4
export const HIDDEN_TRAIN = 5
export const HIDDEN_TRAIN_BACKWARD = 6
export const HIDDEN_INFER = 7
export const HIDDEN_INFER_GRADIENT = 8
export const PROJECT = 9
export const LOSS = 10
export const PAIR_SCORE = 11
export const PAIR_SCORE_BACKWARD = 12
export const PAIR_SCORE_GRADIENT = 13
export const COLUMN_SUMS = 14
export const MOVE_ROWS = 15
export const ADAM = 16
export const FILL = 17
export const MIX = 18
export const MIX_BACKWARD = 19
export const COPY_ROWS = 20
export const HIDDEN_POWERS = 21
export const HIDDEN_SCORES = 22
export const CORRELATE = 23
export const MULTIPLY_CODES = 24

/** Every operation on the tape starts with: code, its length in words, the parts it is worth cutting into. */
export const OPERATION_HEADER = 12
export const MAXIMUM_PARTS = 255

export const TRANSPOSE_LEFT = 1
export const TRANSPOSE_RIGHT = 2
export const ACCUMULATE = 4

export const TRAINING = 1
export const TANH = 2

export const SQUARED = 0
export const LOGISTIC = 1
export const SOFTMAX = 2

export const DOT = 0
export const DISTANCE = 1

// The control block. Words that different threads write stand on cache lines of their own.
/** sequence · 65536 + low · 256 + high: parts [low, high) of the operation at OPERATION are free. Workers sleep on it. */
export const TICKET = 64
export const OPERATION = 68
export const STOP = 72
/** Parts that are done. The first thread sleeps on it. */
export const DONE = 128
export const DONE_SLEEPERS = 192
export const TICKET_SLEEPERS = 196
/** Workers that have come up. */
export const READY = 200

/** Looks at a word before going to sleep on it: about a millisecond, so that the pauses between the phases of a step are not slept through. */
export const SPINS = 1000000

export const TAPE = 1024
export const TAPE_BYTES = 64512
/** Each thread's own space, one after the other. */
export const SCRATCH = 65536
export const SCRATCH_BYTES = 589824
