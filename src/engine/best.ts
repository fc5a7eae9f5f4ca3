/** The largest of many numbers. */

/** Up to here a short sorted list is quickest. */
const FEW = 128

/** Which of two equals comes first: smaller numbers of their places do. */
type Tie = (place: number) => number

function bestOfMany(values: Float32Array | Float64Array, count: number, tie: Tie): number[] {
  const least = values.length > count ? kthLargest(values.slice(), count) : Number.NEGATIVE_INFINITY
  const found: number[] = []
  const equals: number[] = []
  for (let i = 0; i < values.length; i++) {
    if (values[i] > least) found.push(i)
    else if (values[i] === least && least > Number.NEGATIVE_INFINITY) equals.push(i)
  }
  if (found.length + equals.length > count) equals.sort((a, b) => tie(a) - tie(b))
  found.push(...equals.slice(0, count - found.length))
  return found.sort((a, b) => values[b] - values[a] || tie(a) - tie(b))
}

/** By halving where it must be; the values are shuffled. */
function kthLargest(values: Float32Array | Float64Array, k: number): number {
  let [low, high] = [0, values.length - 1]
  while (low < high) {
    const pivot = values[(low + high) >> 1]
    let [i, j] = [low, high]
    while (i <= j) {
      while (values[i] > pivot) i++
      while (values[j] < pivot) j--
      if (i > j) break
      const value = values[i]
      values[i++] = values[j]
      values[j--] = value
    }
    if (k - 1 <= j) high = j
    else if (k - 1 >= i) low = i
    else break
  }
  return values[k - 1]
}

/** Values of which the largest may be known. */
const BLOCK = 16
/** Parts of all blocks: those as large as the largest of each part are looked at first. */
const PARTS = 5

interface Order {
  /** Places that are left out. */
  isOut?: ((place: number) => boolean) | undefined
  tie?: Tie
  /** What no value of every 16 is above. */
  maxima?: Float32Array | undefined
}

/**
 * Places of the `count` largest values, best first; of equals the one with the smaller tie. −∞ is never chosen, nor a place
 * that is left out.
 */
export function best(
  values: Float32Array | Float64Array,
  count: number,
  { isOut = () => false, tie = (place) => place, maxima }: Order = {},
): number[] {
  if (count > FEW) return bestOfMany(withoutThose(values, isOut), count, tie)
  const found: number[] = []
  let least = Number.NEGATIVE_INFINITY
  // What is found in the first blocks rules out most of the others.
  const first = maxima ? leastOfParts(maxima, Math.ceil(values.length / BLOCK)) : Number.POSITIVE_INFINITY
  for (const isFirst of maxima ? [true, false] : [false])
    for (let block = 0, from = 0; from < values.length; block++, from += BLOCK) {
      // Equals of the last one found may have a smaller tie.
      if (maxima && (maxima[block] >= first !== isFirst || maxima[block] < least)) continue
      const end = Math.min(from + BLOCK, values.length)
      for (let i = from; i < end; i++) {
        const value = values[i]
        // Most places end here; what may not be chosen is asked of the few others.
        if (!(value > least) && !(value === least && found.length === count && tie(i) < tie(found[count - 1]))) continue
        if (isOut(i)) continue
        let at = found.length < count ? found.push(i) - 1 : count - 1
        for (; at > 0; at--) {
          const other = found[at - 1]
          if (!(values[other] < value || (values[other] === value && tie(i) < tie(other)))) break
          found[at] = other
        }
        found[at] = i
        if (found.length === count) least = values[found[count - 1]]
      }
    }
  return found
}

/** The smallest of what is the largest of each part. */
function leastOfParts(maxima: Float32Array, length: number): number {
  const part = Math.ceil(length / PARTS)
  let least = Number.POSITIVE_INFINITY
  for (let from = 0; from < length; from += part) {
    let largest = Number.NEGATIVE_INFINITY
    for (let b = from; b < Math.min(from + part, length); b++) if (maxima[b] > largest) largest = maxima[b]
    if (largest < least) least = largest
  }
  return least
}

function withoutThose(
  values: Float32Array | Float64Array,
  isOut: (place: number) => boolean,
): Float32Array | Float64Array {
  return values.map((value, i) => (isOut(i) || Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value))
}
