/** Every page of the site, by reader, in order; tests/docs.test.ts fails when one is missing. */

export const SECTIONS = [
  {
    text: "Use",
    pages: {
      "guide/quick-start": "Quick start",
      "guide/events": "Events",
      "guide/items": "Items and rules",
      "guide/lists": "Lists",
      "guide/memory": "Memory",
      "guide/moving": "Moving from disco-rec or Gorse",
      "guide/questions": "Questions of a newcomer",
    },
  },
  {
    text: "Operate",
    pages: {
      "guide/service": "Running a service",
      "guide/cluster": "A cluster of its own",
      "guide/engine": "How it keeps things",
      "guide/troubleshooting": "Troubleshooting",
    },
  },
  {
    text: "Understand",
    pages: {
      "method/method": "The method, from zero",
      "method/glossary": "Glossary",
      "method/paper-notes": "Notes on the paper",
      "method/regret": "Regret",
      architecture: "Architecture",
    },
  },
  {
    text: "Reproduce",
    pages: {
      "lab/data": "Data",
      "lab/calibration": "Calibration",
      "lab/calibration-notebook": "Calibration, the notebook",
      "lab/lists": "Lists, measured",
      "lab/results": "The paper's results",
      "lab/benchmarks": "Benchmarks",
      "lab/scaling": "Scaling",
      "lab/own-methods": "Your own method",
      "lab/tutorial-own-policy": "Tutorial: your own policy",
    },
  },
  {
    text: "Reference",
    pages: {
      "reference/library": "Library",
      "reference/commands": "Commands",
      "reference/options": "Options",
      "reference/http": "HTTP API",
    },
  },
]
