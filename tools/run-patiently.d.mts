export interface Patience {
  /** What is being done, in a word or two. */
  what: string
  say?: (line: string) => void
  /** Of a try; the command is ended then. Default 900. */
  seconds?: number
  /** Seconds between two lines. Default 30. */
  every?: number
  /** Default 2. */
  tries?: number
  /** Before it is tried again. Default 5. */
  waitSeconds?: number
  env?: NodeJS.ProcessEnv
}

/** Resolves to undefined when the command has ended well, otherwise to why it did not. */
export function runPatiently(command: string, words: readonly string[], options: Patience): Promise<string | undefined>
