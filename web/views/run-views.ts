/** Every picture of a run, kept up to date from its reports. The replay and the dashboard show the same ones. */

import type { Figure } from "../../src/figures/figure.ts"
import type { SegmentReport } from "../../src/learning/report.ts"
import type { Outlook } from "../../src/policies/outlook.ts"
import type { Task } from "../../src/types.ts"
import { FigureView } from "../components/figure-view.ts"
import { fold } from "../components/fold.ts"
import { learningFigure } from "./learning.ts"
import { decisionsFigure, outlookFigure, regretFigure } from "./policy.ts"
import { bytesFigure, sizesFigure } from "./sizes.ts"

export interface RunState {
  task: Task
  reports: readonly SegmentReport[]
  outlook?: Outlook | undefined
  /** Bytes the run may hold. */
  budget?: number | undefined
}

function figuresOf({ task, reports, outlook, budget }: RunState): Figure[] {
  return [
    learningFigure(reports, task),
    sizesFigure(reports),
    bytesFigure(reports, budget),
    outlookFigure({ reports, outlook }),
    decisionsFigure(reports),
    regretFigure(reports),
  ]
}

/** Draws at most this often. */
const INTERVAL = 200

export class RunViews {
  readonly #views: FigureView[]
  #state: RunState
  #due: ReturnType<typeof setTimeout> | undefined

  constructor(holder: HTMLElement, state: RunState) {
    this.#state = state
    this.#views = figuresOf(state).map((figure, i) => {
      const view = new FigureView(figure)
      view.element.id = figure.id
      holder.append(i === 0 ? view.element : fold(view.element, figure.title))
      return view
    })
    // Drawn empty before anything is painted: what comes later fills the same places.
    this.flush()
  }

  /** Shows a state soon; of several that come quickly, the last. */
  show(state: RunState): void {
    this.#state = state
    this.#due ??= setTimeout(() => this.flush(), INTERVAL)
  }

  flush(): void {
    clearTimeout(this.#due)
    this.#due = undefined
    figuresOf(this.#state).forEach((figure, i) => {
      this.#views[i].update(figure)
    })
  }
}
