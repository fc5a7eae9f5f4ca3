/** What each user's tests gave, in a run's record: sums as text of bytes, so that 20,000 users take 320 kB. */

export interface KeptUsers {
  /** Users of one group, where there are more than can be kept: a group is every n-th user. */
  groups: number
  /** Base64 of little-endian columns: tests, and sums of the task's two measures. */
  counts: string
  first: string
  second: string
}

const MOST_GROUPS = 20_000

/** The columns of a run, or of kept users. Loss sums lose what 32 bits do not hold. */
export function keepUsers(
  { counts, first, second }: Record<"counts" | "first" | "second", ArrayLike<number>>,
  most = MOST_GROUPS,
): KeptUsers {
  const groups = Math.min(most, counts.length)
  const sums = [new Float32Array(groups), new Float32Array(groups), new Float32Array(groups)]
  for (let u = 0; u < counts.length; u++) {
    const g = u % groups
    sums[0][g] += counts[u]
    sums[1][g] += first[u]
    sums[2][g] += second[u]
  }
  const [c, f, s] = sums.map((column) => Buffer.from(column.buffer).toString("base64"))
  return { groups, counts: c, first: f, second: s }
}

export function readUsers({ counts, first, second }: KeptUsers): Record<"counts" | "first" | "second", Float32Array> {
  const read = (text: string) => {
    const bytes = Buffer.from(text, "base64")
    return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
  }
  return { counts: read(counts), first: read(first), second: read(second) }
}
