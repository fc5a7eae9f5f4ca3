/** Points of lines, made readable. */

export interface Point {
  x: number
  y: number
}

/** A running mean over a twentieth of the stream, and at least `least` points to each side: one segment's test is a hundred rows. */
export function smooth(points: readonly Point[], least = 1): Point[] {
  const reach = Math.max(least, Math.round(points.length / 40))
  return points.map(({ x }, i) => {
    const near = points.slice(Math.max(0, i - reach), i + reach + 1)
    return { x, y: near.reduce((sum, { y }) => sum + y, 0) / near.length }
  })
}

/** Every so many of them that at most `most` are left, the last one always. */
export function thin<T>(values: readonly T[], most: number): readonly T[] {
  const step = Math.ceil(values.length / most)
  return step <= 1 ? values : values.filter((_, i) => (values.length - 1 - i) % step === 0)
}
