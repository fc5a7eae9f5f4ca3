/** SIGINT and SIGTERM: the first asks the work to stop, the second ends the process. */

const SIGNALS = ["SIGINT", "SIGTERM"] as const

/** Runs work with a signal that aborts when it should stop. */
export async function untilStopped<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const stop = () => {
    if (controller.signal.aborted) process.exit(130)
    controller.abort()
  }
  for (const name of SIGNALS) process.on(name, stop)
  try {
    return await work(controller.signal)
  } finally {
    for (const name of SIGNALS) process.removeListener(name, stop)
  }
}
