/**
 * DESS (CIKM '23) in one file: Algorithm 1 with NCF, LinUCB on frequency and diversity, and warm growth, in plain loops.
 * It computes what `dess run --recipe paper --method dess-cv` computes, and imports nothing of it. docs/method/method.md explains.
 *
 *   node dess-in-300-lines.mjs ratings.csv     rows of user,item,rating in time order; without a file a made-up stream
 */

const both = (of) => ({ user: of("user"), item: of("item") })
const SIDES = ["user", "item"]
const sigmoid = (z) => 1 / (1 + Math.exp(-z))
const zeros = (n) => new Float64Array(n)
const sum = (numbers) => numbers.reduce((all, x) => all + x, 0)

/** A generator of uniform numbers (sfc32) named by words: an id's first row does not depend on when it is met. */
function random(...name) {
  const hash = (salt) => {
    let h = 0x811c9dc5 ^ salt
    for (const part of name) {
      for (const c of typeof part === "number" ? `#${part}` : part) h = Math.imul(h ^ c.charCodeAt(0), 0x01000193)
      h = Math.imul(h ^ 0xff, 0x01000193)
    }
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
    return h ^ (h >>> 16)
  }
  let [a, b, c, counter] = [hash(1), hash(2), hash(3), 1]
  const bits = () => {
    const t = (a + b + counter++) | 0
    ;[a, b, c] = [b ^ (b >>> 9), (c + (c << 3)) | 0, (((c << 21) | (c >>> 11)) + t) | 0]
    return t >>> 0
  }
  for (let i = 0; i < 12; i++) bits()
  return () => (bits() * 2097152 + (bits() >>> 11)) / 9007199254740992
}

/** n numbers N(0, 1), by Marsaglia's polar method. */
function normals(next, n) {
  const out = []
  while (out.length < n) {
    const [u, v] = [2 * next() - 1, 2 * next() - 1]
    const s = u * u + v * v
    if (s < 1 && s > 0) out.push(...[u, v].map((x) => x * Math.sqrt((-2 * Math.log(s)) / s)))
  }
  return Float64Array.from(out.slice(0, n))
}

/** Numbers that Adam steps, with their moments: a matrix of the network, or an id's row with steps of its own. */
function parameter(value) {
  return { value, gradient: zeros(value.length), m: zeros(value.length), v: zeros(value.length), steps: 0 }
}

/** Adam 1e-3 with L2 1e-3 added to the gradient. */
function adam(p) {
  p.steps++
  const [first, second] = [1 - 0.9 ** p.steps, 1 - 0.999 ** p.steps]
  for (let i = 0; i < p.value.length; i++) {
    const g = p.gradient[i] + 1e-3 * p.value[i]
    p.m[i] = 0.9 * p.m[i] + 0.1 * g
    p.v[i] = 0.999 * p.v[i] + 0.001 * g * g
    p.value[i] -= (1e-3 * (p.m[i] / first)) / (Math.sqrt(p.v[i] / second) + 1e-8)
  }
}

// A layer takes the rows of a batch and returns its output and the way back, from the gradient there to that at the rows.

const tanh = (rows) => {
  const out = rows.map((row) => row.map(Math.tanh))
  return [out, (dOut) => dOut.map((row, r) => row.map((d, c) => d * (1 - out[r][c] ** 2)))]
}

/** Wx + b */
const affine = (weight, bias) => (rows) => {
  const out = rows.map((x) => bias.value.map((b, o) => b + dot(weight.value, o * x.length, x)))
  const back = (dOut) =>
    dOut.map((row, r) => {
      const dx = zeros(rows[r].length)
      for (let o = 0, at = 0; o < row.length; o++) {
        bias.gradient[o] += row[o]
        for (let i = 0; i < dx.length; i++, at++) {
          dx[i] += weight.value[at] * row[o]
          weight.gradient[at] += rows[r][i] * row[o]
        }
      }
      return dx
    })
  return [out, back]
}

function dot(weight, from, x) {
  let total = 0
  for (let i = 0; i < x.length; i++) total += weight[from + i] * x[i]
  return total
}

/** Batch norm, (x − μ)/√(σ² + ε)·γ + β: statistics of the batch to train, running ones for everything else. */
function norm(gamma, beta) {
  const [runningMean, runningVariance] = [zeros(gamma.value.length), zeros(gamma.value.length).fill(1)]
  return (rows, training) => {
    const n = rows.length
    const mean = runningMean.map((running, c) => (training ? sum(rows.map((row) => row[c])) / n : running))
    const spread = (c) => sum(rows.map((row) => (row[c] - mean[c]) ** 2)) / n
    const variance = runningVariance.map((running, c) => (training ? spread(c) : running))
    const scale = variance.map((v) => 1 / Math.sqrt(v + 1e-5))
    for (let c = 0; training && c < scale.length; c++) {
      runningMean[c] += 0.1 * (mean[c] - runningMean[c])
      runningVariance[c] += 0.1 * ((variance[c] * n) / Math.max(1, n - 1) - runningVariance[c])
    }
    const hat = rows.map((row) => row.map((x, c) => (x - mean[c]) * scale[c]))
    const back = (dOut) => {
      const dBeta = scale.map((_, c) => sum(dOut.map((row) => row[c])))
      const dGamma = scale.map((_, c) => sum(dOut.map((row, r) => row[c] * hat[r][c])))
      for (const [c, d] of dBeta.entries()) beta.gradient[c] += d
      for (const [c, d] of dGamma.entries()) gamma.gradient[c] += d
      const shared = (r, c) => (training ? (dBeta[c] + hat[r][c] * dGamma[c]) / n : 0)
      return dOut.map((row, r) => row.map((d, c) => gamma.value[c] * scale[c] * (d - shared(r, c))))
    }
    return [hat.map((row) => row.map((x, c) => x * gamma.value[c] + beta.value[c])), back]
  }
}

/** Layers one after the other. */
const chain = (layers) => (rows, training) => {
  const backs = []
  for (const layer of layers) {
    const [out, back] = layer(rows, training)
    backs.unshift(back)
    rows = out
  }
  return [rows, (dOut) => backs.reduce((d, back) => back(d), dOut)]
}

/** Rows of different sizes, lifted to one width by a ladder of affine maps, norm and tanh; then NCF. */
class Model {
  constructor({ sizes, hidden, seed }) {
    const draw = random(seed, "parameters")
    const width = sizes.at(-1)
    const dense = []
    const keep = (value) => dense[dense.push(parameter(value)) - 1]
    const uniform = (n, fanIn) => zeros(n).map(() => (2 * draw() - 1) / Math.sqrt(fanIn))
    const newNorm = (n) => norm(keep(zeros(n).fill(1)), keep(zeros(n)))
    const map = (from, to) => affine(keep(uniform(from * to, from)), keep(uniform(to, from)))
    const maps = () => sizes.slice(1).map((to, k) => map(sizes[k], to))
    Object.assign(this, { dense, sizes, seed, top: sizes.length - 1, rows: both(() => new Map()) })
    this.ladder = both(() => ({ maps: maps(), vectors: chain([newNorm(width), tanh]) }))
    const inputNorm = newNorm(2 * width)
    const halves = both(() => uniform(hidden * width, 2 * width))
    const joined = zeros(2 * hidden * width)
    for (const [s, side] of SIDES.entries())
      for (let h = 0; h < hidden; h++)
        joined.set(halves[side].subarray(h * width, (h + 1) * width), (2 * h + s) * width)
    const first = affine(keep(joined), keep(uniform(hidden, 2 * width)))
    const hiddenNorm = newNorm(hidden)
    this.head = chain([inputNorm, first, hiddenNorm, tanh, map(hidden, 1)])
  }

  /** An id's row and its step on the ladder; drawn when the id is first met. */
  row(side, id) {
    const draw = () => normals(random(`${this.seed} ${side}`, "row", id, 0), this.sizes[0])
    if (!this.rows[side].has(id)) this.rows[side].set(id, { step: 0, ...parameter(draw()) })
    return this.rows[side].get(id)
  }

  /** E_{k+1} = W_k E_k + b_k from a step up. */
  climb(side, step, to = this.top) {
    return chain(this.ladder[side].maps.slice(step, to))
  }

  /** Lifted rows, logits and losses of events, and the way back to the gradient of Σ loss at every lifted row. */
  pass(events, training = false) {
    const rows = both((side) => events.map((event) => this.row(side, event[side])))
    const climbs = both((side) => rows[side].map(({ step, value }) => this.climb(side, step)([value])))
    const lifted = both((side) => climbs[side].map(([[row]]) => row))
    const vectors = both((side) => this.ladder[side].vectors(lifted[side], training))
    const pairs = vectors.user[0].map((row, r) => Float64Array.of(...row, ...vectors.item[0][r]))
    const [logits, headBack] = this.head(pairs, training)
    const errors = logits.map(([z], r) => sigmoid(z) - events[r].like)
    const back = () => {
      const dPairs = headBack(errors.map((e, r) => [2 * e * sigmoid(logits[r][0]) * (1 - sigmoid(logits[r][0]))]))
      const half = (side, row) => (side === "user" ? row.slice(0, row.length / 2) : row.slice(row.length / 2))
      return both((side) => vectors[side][1](dPairs.map((row) => half(side, row))))
    }
    return { rows, climbs, lifted, vectors, back, logits: logits.flat(), losses: errors.map((e) => e * e) }
  }

  /** One step of Adam. A row that is met twice gets the sum of its gradients, once. */
  train(events) {
    const { rows, climbs, back } = this.pass(events, true)
    const stepped = [...new Set([...rows.user, ...rows.item]), ...this.dense]
    for (const { gradient } of stepped) gradient.fill(0)
    const dLifted = back()
    for (const side of SIDES)
      rows[side].forEach(({ gradient }, r) => {
        const [, climbBack] = climbs[side][r]
        for (const [i, d] of climbBack([dLifted[side][r]])[0].entries()) gradient[i] += d
      })
    stepped.forEach(adam)
  }

  /** Warm growth: a row becomes its own next level, so its lifted vector, and every prediction, stays as it is. */
  grow(side, id) {
    const row = this.row(side, id)
    const [[grown]] = this.climb(side, row.step, row.step + 1)([row.value])
    Object.assign(row, parameter(grown), { step: row.step + 1 })
  }

  /** Losses of an event with a side's row tuned by one step of SGD, at its size and one size up; g: at its lifted row. */
  probe(side, event, { g, other }) {
    const { step, value } = this.row(side, event[side])
    return [step, step + 1].map((s) => {
      const [[row]] = this.climb(side, step, s)([value])
      const [[d]] = [this.climb(side, s)([row])[1]([g])]
      const [[lifted]] = this.climb(side, s)([row.map((x, i) => x - 0.1 * d[i])])
      const [[own]] = this.ladder[side].vectors([lifted])
      const [[[z]]] = this.head([Float64Array.of(...(side === "user" ? [...own, ...other] : [...other, ...own]))])
      return (sigmoid(z) - event.like) ** 2
    })
  }
}

/** Context: how often an id is met (FRE), and how far apart lie a user's items (IND) and an item's raters (POD). */
class Indicators {
  #events = both(() => new Map())
  #items = new Map()
  #pod = new Map()

  constructor(features) {
    this.features = features
    this.columns = features.values().next().value.length
  }

  observe({ user, item }) {
    const push = (map, key, value) => map.set(key, [...(map.get(key) ?? []), value])
    push(this.#events.user, user, item)
    push(this.#events.item, item, user)
    if (this.features.has(item)) push(this.#items, user, this.features.get(item))
  }

  #mean = (vectors) => vectors[0].map((_, c) => sum(vectors.map((vector) => vector[c])) / vectors.length)

  /** The mean distance of vectors from their mean. */
  #spread(vectors) {
    if (vectors.length === 0) return 0
    const center = this.#mean(vectors)
    return sum(vectors.map((vector) => Math.hypot(...vector.map((x, c) => x - center[c])))) / vectors.length
  }

  /** POD is taken from the raters' means as they are now; above 32 raters only when there are a quarter more. */
  #diversity(side, id) {
    if (side === "user") return this.#spread(this.#items.get(id) ?? [])
    const [now, last] = [this.#events.item.get(id).length, this.#pod.get(id)]
    if (last && (now === last.at || (now > 32 && 4 * now < 5 * last.at))) return last.pod
    const users = this.#events.item.get(id).filter((user) => this.#items.has(user))
    this.#pod.set(id, { pod: this.#spread(users.map((user) => this.#mean(this.#items.get(user)))), at: now })
    return this.#pod.get(id).pod
  }

  /** [log(1 + FRE)/log(1 + 10,000), diversity/√columns]/√2 */
  context(side, id, isTop) {
    const frequency = Math.log(1 + this.#events[side].get(id).length) / Math.log(10_001)
    const diversity = isTop ? 0 : this.#diversity(side, id) / Math.sqrt(this.columns)
    return [frequency, diversity].map((x) => Math.min(1, x) / Math.SQRT2)
  }
}

/** Non-stationary LinUCB, arms keep and grow, d = 2, λ = 0.1, δ = 0.01, γ = 0.99, σ = 3; V and Ṽ as [11, 12, 22]. */
class Bandit {
  #arms = [0, 1].map(() => ({ V: [0.1, 0, 0.1], W: [0.1, 0, 0.1], b: [0, 0] }))
  #weight = 0

  /** xᵀθ + β·√(xᵀV⁻¹ṼV⁻¹x), θ = V⁻¹b */
  #bound({ V, W, b }, x) {
    const solve = ([p, q]) => [V[2] * p - V[1] * q, V[0] * q - V[1] * p].map((y) => y / (V[0] * V[2] - V[1] * V[1]))
    const [y, theta] = [solve(x), solve(b)]
    const beta = Math.sqrt(0.1) + 3 * Math.sqrt(2 * Math.log(100) + 2 * Math.log(1 + this.#weight / 0.2))
    const width = W[0] * y[0] ** 2 + 2 * W[1] * y[0] * y[1] + W[2] * y[1] ** 2
    return theta[0] * x[0] + theta[1] * x[1] + beta * Math.sqrt(width)
  }

  choose(x) {
    return this.#bound(this.#arms[1], x) > this.#bound(this.#arms[0], x) ? 1 : 0
  }

  update(x, arm, reward) {
    const { V, W, b } = this.#arms[arm]
    const outer = [x[0] * x[0], x[0] * x[1], x[1] * x[1]]
    const update = (matrix, discount) => {
      for (const k of [0, 1, 2]) matrix[k] = discount * matrix[k] + outer[k] + (1 - discount) * [0.1, 0, 0.1][k]
    }
    update(V, 0.99)
    update(W, 0.99 ** 2)
    for (const i of [0, 1]) b[i] = 0.99 * b[i] + reward * x[i]
    this.#weight = 0.99 ** 2 * this.#weight + 1
  }
}

/** Algorithm 1. events: { user, item, like } in time order; features: a vector by item. A report per segment of 500. */
export function* dess(events, features, { seed = 1, sizes = [2, 4, 8, 16, 64, 128], hidden = 512 } = {}) {
  const model = new Model({ sizes, hidden, seed })
  const indicators = new Indicators(features)
  const bandits = both(() => new Bandit())
  const isTop = (side, id) => model.rows[side].get(id)?.step === model.top
  let last
  for (let t = 1; 500 * (t - 1) < events.length; t++) {
    const segment = events.slice(500 * (t - 1), 500 * t)
    const cut = Math.floor(0.8 * segment.length)
    const [training, test] = [segment.slice(0, cut), segment.slice(cut)]
    // 1. The bandits learn on the last segment: what either arm would have earned, the model frozen.
    if (last) {
      const { vectors, back } = model.pass(last.segment)
      const gradients = back()
      for (const side of SIDES)
        last.segment.forEach((event, l) => {
          if (isTop(side, event[side])) return
          const [others] = vectors[side === "user" ? "item" : "user"]
          const [keep, grow] = model.probe(side, event, { g: gradients[side][l], other: others[l] })
          const x = last.contexts[side][l]
          const arm = bandits[side].choose(x)
          bandits[side].update(x, arm, arm === 1 && keep > grow ? 1 : 0)
        })
    }
    // 2. Each id of the training part is decided once, with its context at its last row there. 3. Rows grow.
    for (const side of SIDES) for (const event of training) model.row(side, event[side])
    const contexts = { user: [], item: [] }
    for (const event of segment) {
      indicators.observe(event)
      for (const side of SIDES) contexts[side].push(indicators.context(side, event[side], isTop(side, event[side])))
    }
    last = { segment, contexts }
    for (const side of SIDES)
      for (const [id, l] of new Map(training.map((event, row) => [event[side], row])))
        if (t > 1 && !isTop(side, id) && bandits[side].choose(contexts[side][l]) === 1) model.grow(side, id)
    // 4. One step of training. 5. The test.
    model.train(training)
    const { logits, losses } = model.pass(test)
    const accuracy = logits.filter((z, r) => (z > 0 ? 1 : 0) === test[r].like).length / test.length
    const numbers = (side) => [...model.rows[side].values()].map(({ value }) => value.length)
    const meanSize = both((side) => sum(numbers(side)) / model.rows[side].size)
    yield { segment: t, accuracy, loss: sum(losses) / test.length, meanSize }
  }
}

if (process.argv[1]?.endsWith("dess-in-300-lines.mjs")) {
  const { readFileSync } = await import("node:fs")
  const made = () => Array.from({ length: 3000 }, (_, i) => [(i * i) % 53, (i * 7) % 91, 1 + (i % 5)])
  const read = (path) =>
    readFileSync(path, "utf8")
      .split("\n")
      .map((line) => line.split(","))
  const rows = (process.argv[2] ? read(process.argv[2]) : made()).filter((row) => row[2] > 0)
  const events = rows.map(([user, item, rating]) => ({ user, item, like: rating > 3.5 ? 1 : 0 }))
  for (const report of dess(events, new Map([["none", [1]]]), { hidden: 64 })) console.log(JSON.stringify(report))
}
