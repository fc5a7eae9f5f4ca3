/**
 * Regret as bandit theory counts it: what the best linear policy in hindsight would have earned more. The raw count
 * (method.md §9) takes the better arm event by event, after its noise is known, and no policy can know that.
 */

const SIDES = ["user", "item"]

/** Writes down every row a rent policy plays, by side and rung, until stopped; `now` gives the segment. */
export function watchRounds(Rent, now) {
  const { learn } = Rent.prototype
  const rungs = new Map()
  Rent.prototype.learn = function (side, round) {
    const arms = learn.call(this, side, round)
    const d = round.contexts.length / round.ids.length
    for (let l = 0; l < round.length; l++) {
      const rung = round.steps[l] * SIDES.length + SIDES.indexOf(side)
      if (!rungs.has(rung)) rungs.set(rung, [])
      const context = Array.from(round.contexts.subarray(l * d, l * d + d))
      rungs.get(rung).push({ at: now(), keep: round.keepRewards[l], grow: round.growRewards[l], arm: arms[l], context })
    }
    return arms
  }
  const stop = () => {
    Rent.prototype.learn = learn
  }
  return { rungs, stop }
}

/** What the best linear policy of each rung, fitted to all of its rows afterwards, earns more than was earned; cumulative. */
export function beyondHindsight(rungs, length) {
  const out = new Float64Array(length)
  for (const rows of rungs.values()) {
    const theta = regress(rows)
    for (const { at, keep, grow, arm, context } of rows) {
      const best = dot(theta, context) > keep ? grow : keep
      out[Math.min(at, length - 1)] += best - (arm === 1 ? grow : keep)
    }
  }
  for (let t = 1; t < length; t++) out[t] += out[t - 1]
  return out
}

/** Ridge regression of what growing earned on the context. */
function regress(rows) {
  const d = rows[0].context.length
  const a = Array.from({ length: d }, (_, i) => Float64Array.from({ length: d + 1 }, (_, j) => (i === j ? 0.1 : 0)))
  for (const { grow, context } of rows)
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < d; j++) a[i][j] += context[i] * context[j]
      a[i][d] += context[i] * grow
    }
  for (let i = 0; i < d; i++)
    for (let j = 0; j < d; j++) {
      if (j === i) continue
      const factor = a[j][i] / a[i][i]
      for (let k = i; k <= d; k++) a[j][k] -= factor * a[i][k]
    }
  return a.map((row, i) => row[d] / row[i])
}

function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0)
}

/** Least-squares slope of log regret over log segment, the first tenth left out. */
export function slope(regret) {
  let [n, sx, sy, sxx, sxy] = [0, 0, 0, 0, 0]
  for (let t = Math.floor(regret.length / 10); t < regret.length; t++) {
    const [x, y] = [Math.log(t + 1), Math.log(Math.max(1e-9, regret[t]))]
    n++
    sx += x
    sy += y
    sxx += x * x
    sxy += x * y
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx)
}
