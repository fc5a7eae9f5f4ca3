/** Other optimizers for the vectors of src/models/factor.ts, one output: its training written down again around a step. */

import { FactorModel } from "../../dist/models/factor.js"
import { Factor } from "../../dist/run/factor.js"
import { withDefaults } from "../../dist/run/options.js"

const WIDTH = 8

/** Row optimizers and the rates tried, of users; items have a quarter, as in the default. */
const RATES = {
  sgd: [0.2, 0.4, 0.6],
  adagrad: [0.1, 0.2, 0.4],
  "row adagrad": [0.15, 0.2, 0.3],
  adam: [0.003, 0.01, 0.03],
  ftrl: [0.1, 0.2, 0.4],
}

/** Every optimizer at every rate, by name. */
export const ROW_VARIANTS = Object.entries(RATES).flatMap(([optimizer, rates]) =>
  rates.map((rate) => ({ name: `${optimizer} ${rate}`, optimizer, rate })),
)

/** One step of a number w on its gradient g; s holds two numbers of its own. */
const STEPS = {
  sgd: (w, g, { rate }) => w - rate * g,
  adagrad: (w, g, { rate, s, k }) => {
    s[k] += g * g
    return w - (rate * g) / Math.sqrt(0.1 + s[k])
  },
  "row adagrad": (w, g, { rate, s }) => {
    s[0] += (g * g) / WIDTH
    return w - (rate * g) / Math.sqrt(0.1 + s[0])
  },
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

/** Eight numbers for everybody, their vectors learned by another optimizer; the biases as in the default. */
export function uniformLearner({ optimizer, rate }, seed) {
  const options = { method: `uniform-${WIDTH}`, task: "binary", seed }
  const sizes = [0, ...withDefaults(options).sizes]
  const model = new FactorModel({ task: "binary", sizes, start: sizes.indexOf(WIDTH), seed })
  const step = STEPS[optimizer]
  const states = { user: new Map(), item: new Map() }
  const stateOf = (side, id) => {
    const there = states[side].get(id) ?? { s: new Float64Array(2 * WIDTH), k: 0, steps: 0, rate }
    if (!states[side].has(id)) states[side].set(id, side === "item" ? { ...there, rate: rate / 4 } : there)
    return states[side].get(id)
  }
  const stepBias = (row, at, error) => {
    const gradient = error + 0.02 * row[at]
    row[at + 1] += gradient * gradient
    row[at] -= (0.3 / Math.sqrt(row[at + 1])) * gradient
  }
  const learn = (user, item, label) => {
    const { user: users, item: items } = model.tables
    const [p, q, a, b] = [users.numbersOf(user), items.numbersOf(item), users.placeOf(user), items.placeOf(item)]
    let z = model.global[0] + p[a] + q[b]
    for (let k = 2; k < 2 + WIDTH; k++) z += p[a + k] * q[b + k]
    const error = 1 / (1 + Math.exp(-z)) - label
    model.global[0] -= 0.002 * error
    stepBias(p, a, error)
    stepBias(q, b, error)
    const [mine, its] = [stateOf("user", user), stateOf("item", item)]
    mine.steps++
    its.steps++
    for (let k = 2; k < 2 + WIDTH; k++) {
      const [pk, qk] = [p[a + k], q[b + k]]
      mine.k = its.k = 2 * (k - 2)
      p[a + k] = step(pk, error * qk + 0.005 * pk, mine)
      q[b + k] = step(qk, error * pk + 0.01 * qk, its)
    }
    return error * error
  }
  model.train = ({ user, item, label }) => {
    model.meet({ user, item })
    const losses = user.map((_, r) => learn(user[r], item[r], label[r]))
    for (let r = 0; r < user.length; r++) learn(user[r], item[r], label[r])
    return { logits: new Float64Array(0), losses }
  }
  return { options, learner: new Factor(model) }
}
