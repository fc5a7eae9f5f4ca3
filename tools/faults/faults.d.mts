export type FaultClass =
  | "open"
  | "create"
  | "write"
  | "sync"
  | "truncate"
  | "rename"
  | "unlink"
  | "mkdir"
  | "bind"
  | "read"
  | "mmap"

export interface ArmOptions {
  folder?: string
  classes?: readonly FaultClass[]
  failAt?: number
  failCount?: number
  code?: "ENOSPC" | "EROFS" | "EIO" | "EMFILE" | "EDQUOT" | "EACCES" | (string & {}) | number
  shortWrite?: boolean
}

export interface FaultCounts {
  operations: number
  failed: number
  matchedByClass: Record<FaultClass, number>
  failedByClass: Record<FaultClass, number>
  processes: number
  freeBytes: number | null
}

export const CLASSES: readonly FaultClass[]
export const CHANGES: readonly FaultClass[]

export function buildFaults(): { library: string; reason?: undefined } | { library?: undefined; reason: string }

export class Faults {
  constructor(p?: { folder?: string; library?: string; control?: string })
  static own(): Faults | undefined
  env(): { LD_PRELOAD: string; FAULTS_CONTROL: string; UV_USE_IO_URING: string }
  arm(options?: ArmOptions): void
  disarm(): void
  setCalm(isCalm: boolean): void
  limit(bytes: number | null): void
  setClock(milliseconds: number): void
  counts(): FaultCounts
  close(): void
}
