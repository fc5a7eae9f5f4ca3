/**
 * Other recipes for the vectors of src/models/calibrated/factor.ts, one output: its training written down again around a step, with
 * its constants open.
 */

import { CalibratedFamily } from "../../dist/learning/calibrated-family.js"
import { withDefaults } from "../../dist/learning/options.js"
import { SizedLearner } from "../../dist/learning/sized-learner.js"
import { FactorModel } from "../../dist/models/calibrated/factor.js"

/** Row optimizers and the rates tried, of users, 8 numbers for everybody; items have a quarter, as in the default. */
const RATES = {
  sgd: [0.2, 0.4, 0.6],
  adagrad: [0.1, 0.2, 0.4],
  "row adagrad": [0.3, 0.4, 0.5],
  adam: [0.003, 0.01, 0.03],
  ftrl: [0.1, 0.2, 0.4],
}

/** The recipe's constants one by one, 8 numbers for everybody. */
const CONSTANTS = {
  "as it is": {},
  "one pass": { passes: 1 },
  "three passes": { passes: 3 },
  "four passes": { passes: 4 },
  "user rate .2": { rate: 0.2, itemRate: 0.1 },
  "user rate .8": { rate: 0.8, itemRate: 0.1 },
  "item rate .05": { itemRate: 0.05 },
  "item rate .2": { itemRate: 0.2 },
  "A from .2": { start: 0.2 },
  "A from 3.2": { start: 3.2 },
  "A up to 3": { most: 3 },
  "A without an end": { most: Number.POSITIVE_INFINITY },
  "L2 a fifth": { shrink: 0.2 },
  "L2 five times": { shrink: 5 },
}

/**
 * The constants; every optimizer at every rate, by name; and the default's, whose accumulator takes ‖G‖²/√n, beside ‖G‖² and ‖G‖²/n,
 * at several widths n: the three are the same at 8 numbers.
 */
export const ROW_VARIANTS = [
  ...Object.entries(CONSTANTS).map(([name, constants]) => ({
    name: `constants: ${name}`,
    optimizer: "row adagrad",
    rate: 0.4,
    ...constants,
  })),
  ...Object.entries(RATES).flatMap(([optimizer, rates]) =>
    rates.map((rate) => ({ name: `${optimizer} ${rate}`, optimizer, rate })),
  ),
  ...[0, 0.5, 1].flatMap((power) =>
    [2, 8, 16, 128].map((width) => {
      const as8 = 8 ** (power - 0.5)
      const scaled = { rate: 0.4 / Math.sqrt(as8), start: 0.8 / as8, most: 10 / as8 }
      const variant = { optimizer: "row adagrad", ...scaled, power, width }
      return { name: `n^${power}, ${width} numbers`, ...variant }
    }),
  ),
]

/** One step of a number w on its gradient g; s holds two numbers of its own. */
const STEPS = {
  sgd: (w, g, { rate }) => w - rate * g,
  adagrad: (w, g, { rate, s, k }) => {
    s[k] += g * g
    return w - (rate * g) / Math.sqrt(0.1 + s[k])
  },
  // The sum has been stepped for the whole row.
  "row adagrad": (w, g, { rate, s, most }) => w - (rate * g) / Math.sqrt(Math.min(s[0], most)),
  adam: (w, g, { rate, s, k, steps }) => {
    s[k] = 0.9 * s[k] + 0.1 * g
    s[k + 1] = 0.999 * s[k + 1] + 0.001 * g * g
    return w - (rate * (s[k] / (1 - 0.9 ** steps))) / (Math.sqrt(s[k + 1] / (1 - 0.999 ** steps)) + 1e-8)
  },
  // Proximal with L1 = 0.01, without which it is Adagrad; z begins such that w is what the row began with.
  ftrl: (w, g, { rate, s, k, steps }) => {
    const scale = (squares) => Math.sqrt(0.1 + squares) / rate
    if (steps === 1) s[k + 1] = -w * scale(0) - 0.01 * Math.sign(w)
    const before = scale(s[k])
    s[k] += g * g
    s[k + 1] += g - (scale(s[k]) - before) * w
    return -(Math.sign(s[k + 1]) * Math.max(0, Math.abs(s[k + 1]) - 0.01)) / scale(s[k])
  },
}

/** This many numbers for everybody, their vectors learned by another optimizer; the biases as in the default. */
export function uniformLearner(variant, seed) {
  const { optimizer, rate, itemRate = rate / 4, start = 0.8, most = 10, power = 0.5, width = 8 } = variant
  const { passes = 2, shrink = 1 } = variant
  const options = { method: `uniform-${width}`, task: "binary", seed }
  const sizes = [0, ...withDefaults(options).sizes]
  const model = new FactorModel({ task: "binary", sizes, start: sizes.indexOf(width), seed })
  const step = STEPS[optimizer]
  const states = { user: new Map(), item: new Map() }
  const stateOf = (side, id) => {
    let state = states[side].get(id)
    if (!state) {
      state = { s: new Float64Array(2 * width), k: 0, steps: 0, rate: side === "item" ? itemRate : rate, most }
      if (optimizer === "row adagrad") state.s[0] = start
      states[side].set(id, state)
    }
    return state
  }
  const stepBias = (row, at, error) => {
    const gradient = error + 0.02 * row[at]
    row[at + 1] += gradient * gradient
    row[at] -= (0.3 / Math.sqrt(row[at + 1])) * gradient
  }
  const ofUser = new Float64Array(width)
  const ofItem = new Float64Array(width)
  const learn = (user, item, label) => {
    const { user: users, item: items } = model.tables
    const [p, q, a, b] = [users.numbersOf(user), items.numbersOf(item), users.placeOf(user), items.placeOf(item)]
    const [u, i] = [a + model.heads.user, b + model.heads.item]
    let z = model.global[0] + p[a] + q[b]
    for (let k = 0; k < width; k++) z += p[u + k] * q[i + k]
    const error = 1 / (1 + Math.exp(-z)) - label
    model.global[0] -= 0.002 * error
    stepBias(p, a, error)
    stepBias(q, b, error)
    const [mine, its] = [stateOf("user", user), stateOf("item", item)]
    mine.steps++
    its.steps++
    let [squares, others] = [0, 0]
    for (let k = 0; k < width; k++) {
      ofUser[k] = error * q[i + k] + 0.005 * shrink * p[u + k]
      ofItem[k] = error * p[u + k] + 0.01 * shrink * q[i + k]
      squares += ofUser[k] ** 2
      others += ofItem[k] ** 2
    }
    if (optimizer === "row adagrad") {
      mine.s[0] += squares / width ** power
      its.s[0] += others / width ** power
    }
    for (let k = 0; k < width; k++) {
      mine.k = its.k = 2 * k
      p[u + k] = step(p[u + k], ofUser[k], mine)
      q[i + k] = step(q[i + k], ofItem[k], its)
    }
    return error * error
  }
  model.train = ({ user, item, label }) => {
    model.meet({ user, item })
    const losses = user.map((_, r) => learn(user[r], item[r], label[r]))
    for (let pass = 1; pass < passes; pass++) for (let r = 0; r < user.length; r++) learn(user[r], item[r], label[r])
    return { logits: new Float64Array(0), losses }
  }
  return { options, learner: new SizedLearner(new CalibratedFamily(model)) }
}
