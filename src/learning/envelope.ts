/** Bytes that travel between processes begin with a version, what they are, and a mark of the options both ends must share. */

import { DessError, show } from "../errors.ts"
import { Packer, Unpacker } from "../kernels/packing.ts"

/** Written by this release, and the only one read. */
const VERSION = 2

const KINDS = ["user row", "item row", "item change", "evidence", "global state"] as const
type Kind = (typeof KINDS)[number]

export class Envelope {
  readonly #mark: number

  constructor(shape: string) {
    let hash = 0x811c9dc5
    for (let c = 0; c < shape.length; c++) hash = Math.imul(hash ^ shape.charCodeAt(c), 0x01000193)
    this.#mark = (hash ^ (hash >>> 16)) & 0xffff
  }

  seal(kind: Kind, write: (out: Packer) => void): Uint8Array {
    const out = new Packer()
    out.byte(VERSION)
    out.byte(KINDS.indexOf(kind))
    out.short(this.#mark)
    write(out)
    return out.done()
  }

  /** Reads all before anything is applied. */
  open(kind: Kind, bytes: Uint8Array, read: (from: Unpacker) => () => void): void {
    const from = new Unpacker(bytes, kind)
    checkHead(from, kind)
    if (from.short() !== this.#mark)
      throw new DessError(
        "INVALID_DATA",
        `${kind}: expected one of a learner with the same options, got another's; every process needs the same method, task, sizes, features and seed`,
      )
    const apply = read(from)
    from.end()
    apply()
  }
}

function checkHead(from: Unpacker, kind: Kind): void {
  const version = from.byte()
  if (version !== VERSION)
    throw new DessError(
      "INVALID_DATA",
      `${kind}: expected version ${VERSION}, got ${version}; it was written by another release`,
    )
  const found = from.byte()
  if (KINDS[found] !== kind) throw from.damaged(show(kind), KINDS[found] ?? found)
}
