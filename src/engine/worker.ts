/** The program of the training thread. */

import { parentPort, workerData } from "node:worker_threads"
import { DessError } from "../errors.ts"
import { type Answer, type Order, Trainer, type TrainerOptions } from "./trainer.ts"

const port = parentPort
if (!port) throw new DessError("UNSUPPORTED", "training: expected to run in a thread of its own")

const say = (answer: Answer): void => {
  port.postMessage(answer)
}

/** Not every runtime has ports that close. */
const end = (): void => {
  if (typeof port.close === "function") port.close()
  else process.exit(0)
}

try {
  const trainer = new Trainer(workerData as TrainerOptions, say)
  port.on("message", (order: Order | "close") => {
    if (order !== "close") return trainer.take(order)
    trainer.close()
    end()
  })
  say({ kind: "ready" })
} catch (error) {
  const code = error instanceof DessError ? error.code : "UNSUPPORTED"
  say({ kind: "failed", id: undefined, code, message: error instanceof Error ? error.message : String(error) })
  end()
}
