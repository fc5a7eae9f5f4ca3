/**
 * Changes whenever the same events give another state: tests/engine/build.test.ts has the hashes of states and fails
 * where they change and this does not.
 */
export const LEARNING = "16"
