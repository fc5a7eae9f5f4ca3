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

/** Places of the `count` largest values, best first; of equals the earlier. −∞ is never chosen. */
export function best(values: Float32Array | Float64Array, count: number): number[] {
  if (count > FEW) return bestOfMany(values, count)
  const found: number[] = []
  let least = Number.NEGATIVE_INFINITY
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    if (!(value > least)) continue
    let at = found.length
    while (at > 0 && values[found[at - 1]] < value) at--
    found.splice(at, 0, i)
    if (found.length > count) found.pop()
    if (found.length === count) least = values[found[count - 1]]
  }
  return found
}
