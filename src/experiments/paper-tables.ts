/** The paper's tables, filled with whatever was run: top-k, rating prediction, base models, ablation. */

import { paperFigure } from "./paper.ts"
import { type Block, type Entry, MEASURES, type Measure, sampleOf, testEntries } from "./summary.ts"
import { formatMeasure, formatP, measureTable, measureTitle, type Row, STARS_NOTE, type Table } from "./tables.ts"
import { judgeControls } from "./verdict.ts"

const TASK_TITLES = { binary: "binary", multiclass: "multiclass", topk: "top-k" } as const

/** All tables that blocks of one setting give. The calibrated recipe has one model, which is its own and not a base model. */
export function paperTables(blocks: readonly Block[]): Table[] {
  const own = ({ model, setting }: Block) => model === "ncf" || setting.recipe === "calibrated"
  return [
    ...topkTable(blocks.filter((block) => block.task === "topk" && own(block))),
    ...ratingTables(blocks.filter((block) => block.task !== "topk" && own(block))),
    ...baseModelTables(blocks.filter((block) => !own(block))),
    ...ablationTable(blocks),
  ]
}

/** Table 1: Recall@k and NDCG@k per data set. */
function topkTable(blocks: readonly Block[]): Table[] {
  if (blocks.length === 0) return []
  const columns = blocks.flatMap((block) =>
    MEASURES.topk.map((measure) => ({
      group: block.data,
      title: measureTitle(measure, block.setting.k),
      block,
      measure,
    })),
  )
  const verdicts = blocks.flatMap((block) => MEASURES.topk.flatMap((m) => judgeControls(block, m)))
  const notes = [STARS_NOTE, ...blocks.flatMap(ceilingNote), ...verdicts]
  return [measureTable({ id: "topk", title: "Top-k recommendation", notes }, columns)]
}

/** The most that recall can be. Results kept from before it was measured lack it, and the next item has none. */
function ceilingNote({ data, entries, setting }: Block): string[] {
  const found = entries.flatMap(({ runs }) => runs.flatMap(({ result }) => result.recallCeiling ?? []))
  if (found.length === 0) return []
  return [
    `${data}: lists of ${setting.k} can reach a recall of ${formatMeasure("recall", Math.max(...found))} at most.`,
  ]
}

/** Tables 2 and 3: accuracy and loss of both rating tasks; MovieLens, Amazon and other data apart. */
function ratingTables(blocks: readonly Block[]): Table[] {
  const families = [
    { id: "rating-movielens", title: "Rating prediction, MovieLens", has: (name: string) => /^ml-/i.test(name) },
    { id: "rating-amazon", title: "Rating prediction, Amazon", has: (name: string) => /^amazon-/i.test(name) },
    { id: "rating", title: "Rating prediction", has: (name: string) => !/^(ml|amazon)-/i.test(name) },
  ]
  return families.flatMap(({ id, title, has }) => {
    const own = blocks.filter(({ data }) => has(data)).sort(byDataThenTask)
    if (own.length === 0) return []
    const columns = own.flatMap((block) =>
      MEASURES[block.task].map((measure) => ({
        group: `${block.data}, ${TASK_TITLES[block.task]}`,
        title: measureTitle(measure, block.setting.k),
        block,
        measure,
      })),
    )
    const notes = [STARS_NOTE, ...own.flatMap((block) => MEASURES[block.task].flatMap((m) => judgeControls(block, m)))]
    return [measureTable({ id, title, notes }, columns)]
  })
}

/** Table 4: the other base models, one table per task with its first measure. */
function baseModelTables(blocks: readonly Block[]): Table[] {
  return (["binary", "multiclass", "topk"] as const).flatMap((task) => {
    const own = blocks.filter((block) => block.task === task).sort((a, b) => modelPlace(a) - modelPlace(b))
    if (own.length === 0) return []
    const [measure] = MEASURES[task]
    const columns = own.map((block) => ({
      group: block.model === "mf" ? "Matrix factorisation" : "Distance",
      title: `${block.data} ${measureTitle(measure, block.setting.k)}`,
      block,
      measure,
    }))
    const notes = [STARS_NOTE, ...own.flatMap((block) => judgeControls(block, measure))]
    return [
      measureTable({ id: `base-models-${task}`, title: `Other base models, ${TASK_TITLES[task]}`, notes }, columns),
    ]
  })
}

/** Warm against cold initialisation of grown rows, with the paired test between them. */
function ablationTable(blocks: readonly Block[]): Table[] {
  const rows = blocks.flatMap((block) =>
    block.entries
      .filter(({ kind, method }) => kind === "dess" && !method.endsWith("-cold"))
      .flatMap((warm) => {
        const cold = block.entries.find(({ method }) => method === `${warm.method}-cold`)
        return cold ? MEASURES[block.task].flatMap((measure) => ablationRow(block, { warm, cold }, measure)) : []
      }),
  )
  if (rows.length === 0) return []
  const columns = [
    { title: "Method", text: true },
    { title: "Data", text: true },
    { title: "Task", text: true },
    { title: "Measure", text: true },
    { title: "cold (w/o EWI)" },
    { title: "warm (EWI)" },
    { title: "warm − cold" },
    { title: "p" },
    { title: "paper: warm − cold", paper: true },
  ]
  const notes = [
    "Cold: a grown row is drawn anew. Warm: it is the ladder's image of the old one. p: paired t-test over seeds.",
  ]
  return [{ id: "ablation", title: "Ablation: embedding warm initialisation", columns, rows, notes }]
}

function ablationRow(block: Block, pair: { warm: Entry; cold: Entry }, measure: Measure): Row[] {
  const [warm, cold] = [sampleOf(pair.warm, measure), sampleOf(pair.cold, measure)]
  if (warm === undefined || cold === undefined) return []
  const test = testEntries(pair.warm, pair.cold, measure)
  const paper = [pair.warm, pair.cold].map(({ method }) => paperFigure(block, method, measure))
  const gain = (value: number) => `${value < 0 ? "−" : "+"}${formatMeasure(measure, Math.abs(value))}`
  const texts = [
    pair.warm.label,
    block.data,
    `${TASK_TITLES[block.task]}${block.model === "ncf" || block.setting.recipe === "calibrated" ? "" : `, ${block.model}`}`,
    measureTitle(measure, block.setting.k),
    formatMeasure(measure, cold.mean),
    formatMeasure(measure, warm.mean),
    gain(warm.mean - cold.mean),
    test ? formatP(test.p) : "–",
    paper[0] === undefined || paper[1] === undefined ? "–" : gain(paper[0] - paper[1]),
  ]
  return [{ kind: "dess", cells: texts.map((text) => ({ text })) }]
}

function byDataThenTask(a: Block, b: Block): number {
  return a.data.localeCompare(b.data, "en") || a.task.localeCompare(b.task, "en")
}

const modelPlace = ({ model }: Block) => (model === "mf" ? 0 : 1)
