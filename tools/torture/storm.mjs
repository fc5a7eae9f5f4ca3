/** Faults of a disk, one after the other, at moments that a seed decides. */

import { CLASSES } from "../faults/faults.mjs"

const DAY = 86_400_000
/** Nothing of ours is mapped, and the socket of the lock is bound before anything is taken. */
const ALL = CLASSES.filter((name) => name !== "mmap" && name !== "bind")
const FULL = ["create", "write", "truncate", "mkdir"]
const READ_ONLY = ["create", "write", "truncate", "rename", "unlink", "mkdir", "bind"]

/** Every kind: what it does, by random numbers. `lasts` is shorter where it is more than a fault of the disk. */
const KINDS = {
  full: (random) => ({ bytes: random.integer(200_000) }),
  noSpace: (random) => ({ code: "ENOSPC", classes: FULL, failAt: 1 + random.integer(20), failCount: -1 }),
  noSpaceHalfway: (random) => ({
    ...{ code: "ENOSPC", classes: ["write"], shortWrite: true },
    ...{ failAt: 1 + random.integer(40), failCount: 2 + random.integer(3) },
  }),
  once: (random) => ({
    code: pick(random, ["EIO", "EMFILE"]),
    classes: ALL,
    failAt: 1 + random.integer(120),
    failCount: 1,
  }),
  broken: (random) => ({
    ...{ code: "EIO", classes: [pick(random, ALL)] },
    ...{ failAt: 1 + random.integer(10), failCount: pick(random, [-1, 1, 2, 5]) },
  }),
  readOnly: (random) => ({ code: "EROFS", classes: READ_ONLY, failAt: 1 + random.integer(10), failCount: -1 }),
  noDescriptors: (random) => ({
    ...{ code: "EMFILE", classes: ["open", "create"] },
    ...{ failAt: 1 + random.integer(10), failCount: pick(random, [-1, 1, 3]) },
  }),
}

function pick(random, list) {
  return list[random.integer(list.length)]
}

/** What happens in this many milliseconds, in order. */
export function planStorm(random, milliseconds, { isEarly, movesClock }) {
  const names = Object.keys(KINDS)
  const plan = []
  let at = isEarly ? 0 : random.integer(Math.min(300, milliseconds))
  while (at < milliseconds) {
    if (movesClock && random.next() < 0.2) {
      const lasts = 5 + random.integer(200)
      plan.push({ at, lasts, kind: "clock", offset: (random.next() < 0.5 ? -1 : 1) * random.integer(10 * DAY) })
      at += lasts
    } else {
      const kind = pick(random, names)
      const lasts = 20 + random.integer(Math.min(1000, milliseconds))
      plan.push({ at, lasts, kind, ...KINDS[kind](random) })
      at += lasts + random.integer(Math.min(700, milliseconds))
    }
  }
  return plan
}

/** Begins a storm; the function that is returned ends it, and the disk is as good as new. */
export function beginStorm(faults, plan) {
  calmDown(faults)
  const timers = plan.flatMap((one) => [
    setTimeout(() => begin(faults, one), one.at),
    setTimeout(() => end(faults, one), one.at + one.lasts),
  ])
  // Those that begin at once must not wait for a timer: the process may be faster.
  for (const one of plan) if (one.at === 0) begin(faults, one)
  return () => {
    for (const timer of timers) clearTimeout(timer)
    calmDown(faults)
  }
}

function begin(faults, { kind, bytes, offset, code, classes, failAt, failCount, shortWrite = false }) {
  if (kind === "full") faults.limit(bytes)
  else if (kind === "clock") faults.setClock(offset)
  else faults.arm({ code, classes, failAt, failCount, shortWrite })
}

function end(faults, { kind }) {
  if (kind === "full") faults.limit(null)
  else if (kind === "clock") faults.setClock(0)
  else faults.disarm()
}

export function calmDown(faults) {
  faults.disarm()
  faults.limit(null)
  faults.setClock(0)
  faults.setCalm(false)
}
