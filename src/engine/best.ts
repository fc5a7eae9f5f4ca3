/** The largest of many numbers. */

/** Up to here a short sorted list is quickest. */
const FEW = 128

function bestOfMany(values: Float32Array | Float64Array, count: number): number[] {
  const least = values.length > count ? kthLargest(values.slice(), count) : Number.NEGATIVE_INFINITY
  const found: number[] = []
  let equals = 0
  for (let i = 0; i < values.length; i++) {
    if (values[i] > least) found.push(i)
    else if (values[i] === least) equals++
  }
  for (let i = 0; equals > 0 && found.length < count && least > Number.NEGATIVE_INFINITY && i < values.length; i++)
    if (values[i] === least) found.push(i)
  return found.sort((a, b) => values[b] - values[a] || a - b)
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

/**
 * Places of the `count` largest values, best first; of equals the earlier. −∞ is never chosen, nor a place that is left out.
 * `maxima`: what no value of every 16 is above.
 */
export function best(
  values: Float32Array | Float64Array,
  count: number,
  isOut: (place: number) => boolean = () => false,
  maxima?: Float32Array,
): number[] {
  if (count > FEW) return bestOfMany(withoutThose(values, isOut), count)
  const found = new Int32Array(count)
  let [length, least] = [0, Number.NEGATIVE_INFINITY]
  for (let i = 0; i < values.length; i++) {
    if (maxima && i % BLOCK === 0) while (i < values.length && !(maxima[i / BLOCK] > least)) i += BLOCK
    // Most places end here; what may not be chosen is asked of the few others.
    if (!(values[i] > least) || isOut(i)) continue
    const value = values[i]
    let at = length < count ? length++ : count - 1
    for (; at > 0 && values[found[at - 1]] < value; at--) found[at] = found[at - 1]
    found[at] = i
    if (length === count) least = values[found[count - 1]]
  }
  return Array.from(found.subarray(0, length))
}

function withoutThose(
  values: Float32Array | Float64Array,
  isOut: (place: number) => boolean,
): Float32Array | Float64Array {
  return values.map((value, i) => (isOut(i) || Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value))
}
