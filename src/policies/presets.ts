/** The two presets of method.md §7: what a probe is worth, and how boldly the bandit explores. */

export interface Preset {
  name: "paper" | "calibrated"
  /** η of the probe's SGD step. */
  probeRate: number
  /** Where a tuned row is judged: on the interaction itself, or on the id's next one (none: no choice, no update). */
  evaluate: "same" | "next"
  /** grow earns 1 when Δ > price·(numbers added), else 0. */
  price: number
  /** What keep earns: nothing, or 1 where grow earns 0. */
  keepReward: "none" | "complement"
  subgaussian: number
  discount: number
  constant: boolean
  forget: "selected" | "all"
}

export const PRESETS: Record<Preset["name"], Preset> = {
  paper: {
    name: "paper",
    probeRate: 0.1,
    evaluate: "same",
    price: 0,
    keepReward: "none",
    subgaussian: 3,
    discount: 0.99,
    constant: false,
    forget: "selected",
  },
  calibrated: {
    name: "calibrated",
    probeRate: 0.1,
    evaluate: "next",
    price: 0,
    keepReward: "complement",
    subgaussian: 0.5,
    discount: 0.999,
    constant: true,
    forget: "all",
  },
}
