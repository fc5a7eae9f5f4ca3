/** Every page of the site, by reader, in order, with its title and what it is about; tests/docs.test.ts fails when one is missing. */

export const SECTIONS = [
  {
    text: "Use",
    pages: {
      "guide/quick-start": { title: "Quick start", says: "Install it, use it in a program, run it as a service." },
      "guide/events": { title: "Events", says: "What an event is; types, weights and ratings." },
      "guide/items": {
        title: "Items and rules",
        says: "What is known of items; filters, boosts, caps and diversity of lists.",
      },
      "guide/lists": {
        title: "Lists",
        says: "What a list is made of, when a click counts, what a score means, guests.",
      },
      "guide/memory": { title: "Memory", says: "What a memory budget holds and what happens when it is full." },
      "guide/moving": {
        title: "Moving from disco-rec or Gorse",
        says: "What to change when you come from disco-rec or Gorse.",
      },
      "guide/questions": { title: "Questions of a newcomer", says: "Short answers, each with the page that has more." },
    },
  },
  {
    text: "Operate",
    pages: {
      "guide/service": {
        title: "Running a service",
        says: "Configuration, routes, figures, backups, systemd and Docker.",
      },
      "guide/cluster": { title: "A cluster of its own", says: "Trainers and readers around a Redis Cluster." },
      "guide/engine": { title: "How it keeps things", says: "Threads, files, starting, damage and forgetting." },
      "guide/troubleshooting": { title: "Troubleshooting", says: "Symptoms, causes and what to do." },
    },
  },
  {
    text: "Understand",
    pages: {
      "method/method": {
        title: "The method, from zero",
        says: "The method explained step by step, with its equations.",
      },
      "method/glossary": { title: "Glossary", says: "The words of these pages." },
      "method/paper-notes": {
        title: "Notes on the paper",
        says: "Where the paper errs or is silent, and what was done.",
      },
      "method/regret": { title: "Regret", says: "What regret curves show and what they do not." },
      architecture: { title: "Architecture", says: "The folders of the sources and what imports what." },
    },
  },
  {
    text: "Reproduce",
    pages: {
      "lab/data": { title: "Data", says: "Data sets and file formats that are read." },
      "lab/calibration": { title: "Calibration", says: "The default recipe beside its controls." },
      "lab/calibration-notebook": {
        title: "Calibration, the notebook",
        says: "All that was tried for the default recipe.",
      },
      "lab/lists": { title: "Lists, measured", says: "How good lists are, by two measures, beside controls." },
      "lab/lists-notebook": { title: "Lists: the notebook", says: "What was tried on the way, and earlier builds." },
      "lab/results": { title: "The paper's results", says: "The paper's experiments, repeated." },
      "lab/benchmarks": { title: "Benchmarks", says: "Speed and bytes, and how they are measured." },
      "lab/scaling": { title: "Scaling", says: "What a million events per second would take, on paper." },
      "lab/own-methods": { title: "Your own method", says: "How to add a method of your own." },
      "lab/tutorial-own-policy": {
        title: "Tutorial: your own policy",
        says: "From an empty folder to a table and a figure.",
      },
    },
  },
  {
    text: "Reference",
    pages: {
      "reference/library": { title: "Library", says: "Methods of the recommender." },
      "reference/commands": { title: "Commands", says: "Commands with their options." },
      "reference/options": { title: "Options", says: "Settings of the service and options of a run." },
      "reference/http": { title: "HTTP API", says: "Routes of the service." },
    },
  },
]
