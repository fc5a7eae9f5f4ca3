/** One sender, any number of listeners, each with its own pace. */

const MOST_BEHIND = 1000

interface Listener<T> {
  waiting: T[]
  wake: (() => void) | undefined
}

export class Broadcast<T> {
  readonly #listeners = new Set<Listener<T>>()
  #ended = false

  send(message: T): void {
    for (const listener of this.#listeners) {
      listener.waiting.push(message)
      if (listener.waiting.length > MOST_BEHIND) listener.waiting.shift()
      listener.wake?.()
    }
  }

  end(): void {
    this.#ended = true
    for (const listener of this.#listeners) listener.wake?.()
  }

  /** The given messages, then those from now on, until the end or the signal. */
  listen(signal?: AbortSignal, first: readonly T[] = []): AsyncIterableIterator<T> {
    const listener: Listener<T> = { waiting: [...first], wake: undefined }
    this.#listeners.add(listener)
    return this.#read(listener, signal)
  }

  async *#read(listener: Listener<T>, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
    const wake = () => listener.wake?.()
    signal?.addEventListener("abort", wake)
    try {
      while (!signal?.aborted) {
        const message = listener.waiting.shift()
        if (message !== undefined) yield message
        else if (this.#ended) return
        else
          await new Promise<void>((resolve) => {
            listener.wake = resolve
          })
        listener.wake = undefined
      }
    } finally {
      signal?.removeEventListener("abort", wake)
      this.#listeners.delete(listener)
    }
  }
}
