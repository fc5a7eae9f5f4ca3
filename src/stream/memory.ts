/** A stream over interactions held in memory, each validated first. */

import type { Interaction } from "../types.ts"
import { type Columns, type ColumnsOptions, type NamedStream, streamFromColumns } from "./columns.ts"
import { IdMap } from "./id-map.ts"
import { checkInteraction, DEFAULT_SCALE, type RatingScale } from "./interaction.ts"

export interface MemoryOptions extends Omit<ColumnsOptions, "name" | "columns"> {
  name?: string
  interactions: Iterable<Interaction>
  /** The scale the ratings come on. */
  scale?: RatingScale
}

/** Checks, orders and numbers the interactions. */
export function streamFromInteractions(options: MemoryOptions): NamedStream {
  const { interactions, scale = DEFAULT_SCALE, name = "memory", ...rest } = options
  const builder = new ColumnsBuilder()
  let row = 0
  for (const interaction of interactions) {
    builder.add(checkInteraction(interaction, `interaction ${row++}`, scale))
  }
  return streamFromColumns({ ...rest, name, columns: builder.columns() })
}

/** Columns that grow row by row. */
export class ColumnsBuilder {
  readonly #users = new IdMap()
  readonly #items = new IdMap()
  #length = 0
  #user = new Int32Array(1024)
  #item = new Int32Array(1024)
  #rating = new Float32Array(1024)
  #timestamp = new Float64Array(1024)

  get length(): number {
    return this.#length
  }

  /** Takes an interaction that has been checked. */
  add(interaction: Interaction): void {
    const row = this.#length++
    if (row === this.#user.length) this.#grow()
    this.#user[row] = this.#users.index(interaction.user)
    this.#item[row] = this.#items.index(interaction.item)
    this.#rating[row] = interaction.rating
    this.#timestamp[row] = interaction.timestamp
  }

  /** Views of the rows so far. */
  columns(): Columns {
    return {
      user: this.#user.subarray(0, this.#length),
      item: this.#item.subarray(0, this.#length),
      rating: this.#rating.subarray(0, this.#length),
      timestamp: this.#timestamp.subarray(0, this.#length),
      userNames: this.#users.names,
      itemNames: this.#items.names,
    }
  }

  #grow(): void {
    const length = 2 * this.#user.length
    const user = new Int32Array(length)
    const item = new Int32Array(length)
    const rating = new Float32Array(length)
    const timestamp = new Float64Array(length)
    user.set(this.#user)
    item.set(this.#item)
    rating.set(this.#rating)
    timestamp.set(this.#timestamp)
    this.#user = user
    this.#item = item
    this.#rating = rating
    this.#timestamp = timestamp
  }
}
