/** De-duplication, minimum ratings and k-core, on the table `rows(u, i, rating, timestamp, position)`. */

import type { Duck } from "./duck.ts"
import type { Filters, Manifest } from "./manifest.ts"

/** Filters rows and returns how many each filter dropped. */
export async function filterRows(duck: Duck, { dedupe, minRatings, kCore }: Filters): Promise<Manifest["dropped"]> {
  const dropped = { duplicates: 0, minRatings: 0, kCore: 0 }
  if (dedupe !== "none") {
    const before = await duck.number("SELECT count(*) FROM rows")
    const direction = dedupe === "last" ? "DESC" : "ASC"
    await duck.run(`CREATE TABLE single AS SELECT * FROM rows QUALIFY row_number() OVER
      (PARTITION BY u, i ORDER BY timestamp ${direction}, position ${direction}) = 1`)
    await duck.run("DROP TABLE rows")
    await duck.run("ALTER TABLE single RENAME TO rows")
    dropped.duplicates = before - (await duck.number("SELECT count(*) FROM rows"))
  }
  if (minRatings > 1) dropped.minRatings = await dropRare(duck, "u", minRatings)
  if (kCore > 1) {
    for (let taken = -1; taken !== 0; ) {
      taken = (await dropRare(duck, "u", kCore)) + (await dropRare(duck, "i", kCore))
      dropped.kCore += taken
    }
  }
  return dropped
}

/** Drops the rows of ids that have fewer than `least`. */
function dropRare(duck: Duck, column: "u" | "i", least: number): Promise<number> {
  return duck.change(
    `DELETE FROM rows WHERE ${column} IN (SELECT ${column} FROM rows GROUP BY ${column} HAVING count(*) < ${least})`,
  )
}
