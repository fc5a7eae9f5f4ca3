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
export const SCORE_CHUNKS = 24
export const LEARN_GROUPS = 25
export const UNPACK_ROWS = 26
export const PACK_ROWS = 27
export const SCORE_ROWS = 28
export const LEARN_PAIRS = 29
export const FUSE_LOGS = 30
export const SUM_POWERS = 31
export const SUM_WORDS = 32

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

/** A row that is learned from: numbers of its head, how many a vector has, where ε starts, its rung; then its vectors, each in whole blocks of 16. */
export const ROW_SIZE = 4
export const ROW_LIFT = 5
export const ROW_STEP = 6
export const ROW_HEAD = 8

/** A group of rows to be learned; where it is judged, else 0, and its latest item that is judged, or −1. */
export const GROUP_USER = 0
export const GROUP_TRAIL = 1
export const GROUP_COUNT = 2
export const GROUP_OWN = 3
export const GROUP_FROM = 4
export const GROUP_TO = 5
export const GROUP_ALONE = 6
export const GROUP_WEIGHT = 7
export const GROUP_JUDGED = 8
export const GROUP_INPUT = 9
export const GROUP_WORDS = 12

/** Where a packed row and its numbers stand, and what they are. */
export const PACKED_AT = 0
export const PACKED_ROW = 1
export const PACKED_SIZE = 2
export const PACKED_BITS = 3
export const PACKED_LIFT = 4
export const PACKED_ID = 5
export const PACKED_STEP = 6
export const PACKED_WORDS = 8

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

/** Scores beside the product of vectors: as many as a vector of floats has. */
export const SCORERS = 4
