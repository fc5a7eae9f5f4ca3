/**
 * A simulated film shop for the demo: titled items with genres, and customers who have a taste. Most films a
 * customer takes are of their two genres, and within a genre the well-known ones come first, so that there is something
 * to learn beyond what is popular. Seeded: every start has the same films, customers and events.
 */

import type { Event, ItemEntry } from "../engine/types.ts"
import { Random } from "../kernels/random.ts"

/** Words of a genre's titles: any of the first with any of the second. */
const WORDS: Readonly<Record<string, readonly [string, string]>> = {
  Adventure: ["Lost Hidden Golden Sunken Emerald Forgotten Jade", "Island Temple River Compass Expedition Map Canyon"],
  Animation: ["Little Paper Clever Wooden Tiny Brave Magic", "Fox Robot Dragon Owl Penguin Teapot Balloon"],
  Comedy: [
    "My Awkward|Two Lazy|The Wrong|An Honest|Meet the|One Clumsy|Almost a",
    "Neighbour Waiter Wedding Landlord Uncle Dentist Twin",
  ],
  Crime: ["Midnight Crooked Silent Cold Double Dirty Broken", "Alibi Witness Heist Ledger Harbour Verdict Ransom"],
  Documentary: [
    "Inside the|A Year in the|Saving the|Voices of the|Beneath the|Mapping the|Leaving the",
    "Desert Reef Arctic Orchestra Factory Rainforest City",
  ],
  Drama: [
    "Quiet Borrowed Fading Unspoken Winter Distant Bitter",
    "Letters Daughters Seasons Promises Fathers Houses Mornings",
  ],
  Fantasy: [
    "Crown|Sword|Oracle|Tower|Song|Gate|Throne",
    "of Ash|of Thorns|of Frost|of Ravens|of Amber|of Mist|of Stars",
  ],
  Horror: ["Whispering Hollow Crimson Empty Buried Restless Pale", "Attic Cellar Orchard Mirror Chapel Nursery Marsh"],
  Musical: [
    "Dancing Singing Swinging Summer Broadway Velvet Starlight",
    "Avenue Rooftops Sisters Café Parade Nights Shoes",
  ],
  Romance: [
    "Love|A Kiss|Letters|Spring|Goodbye|Strangers|Waiting",
    "in Lisbon|in Paris|by the Sea|at Noon|in the Rain|in Vienna|on the Train",
  ],
  "Science fiction": [
    "Last Quantum Orbital Silent Binary Distant Frozen",
    "Colony Signal Horizon Android Station Planet Voyager",
  ],
  Western: ["Dusty Lonesome Red Iron Bitter Copper Wild", "Trail Creek Saddle Sheriff Mesa Spurs Frontier"],
}
const NAMES =
  "Ada Ben Cleo Dev Eva Finn Gia Hugo Ines Jon Kim Leo Mia Nils Ola Pia Quinn Rosa Sam Tom Uma Vera Will Yara".split(
    " ",
  )

export const GENRES = Object.keys(WORDS)
const FILMS_PER_GENRE = 49
/** Customers who are in the shop at a time; one who leaves makes room for the next. */
const AT_ONCE = 400
/** The share of films that are of the customer's own genres, and of these of the first. */
const OWN = 0.85
const FIRST = 0.65
/** The share of events after which a customer leaves for good: 40 films each. */
const LEAVING = 1 / 40

const split = (words: string) => words.split(words.includes("|") ? "|" : " ")

function titleOf(genre: string, film: number): string {
  const [first, second] = WORDS[genre].map(split)
  const article = first[0].includes(" ") || /^(of|in|by|at|on) /.test(second[0]) || genre === "Drama" ? "" : "The "
  // Neighbours differ in both words.
  return `${article}${first[film % 7]} ${second[(film + Math.floor(film / 7)) % 7]}`
}

/** All films, those of a genre one after the other. */
export function listFilms(): ItemEntry[] {
  const random = new Random(1, "films")
  return GENRES.flatMap((genre, g) =>
    Array.from({ length: FILMS_PER_GENRE }, (_, film) => ({
      item: `film-${g * FILMS_PER_GENRE + film + 1}`,
      title: titleOf(genre, film),
      features: GENRES.map((other) => Number(other === genre)),
      categories: [genre],
      properties: { year: 1960 + random.integer(65) },
    })),
  )
}

interface Customer {
  name: string
  genres: [number, number]
  seen: Set<number>
}

/** What happens in the shop, without an end. */
export function* happenings(): Generator<Event, never> {
  const random = new Random(1, "customers")
  let count = 0
  const enter = (): Customer => {
    const genres: [number, number] = [random.integer(GENRES.length), random.integer(GENRES.length)]
    const name = `${NAMES[random.integer(NAMES.length)].toLowerCase()}-${++count}`
    return { name, genres, seen: new Set() }
  }
  const inside = Array.from({ length: AT_ONCE }, enter)
  for (;;) {
    const place = random.integer(AT_ONCE)
    const customer = inside[place]
    const film = choose(customer, random)
    customer.seen.add(film)
    yield { user: customer.name, item: `film-${film + 1}` }
    if (random.next() < LEAVING) inside[place] = enter()
  }
}

/** A film the customer has not seen: of a genre, the earlier the better known. */
function choose({ genres, seen }: Customer, random: Random): number {
  for (;;) {
    const isOwn = random.next() < OWN
    const genre = isOwn ? genres[random.next() < FIRST ? 0 : 1] : random.integer(GENRES.length)
    // Half of the events are of a genre's best-known seventh.
    const film = Math.floor(FILMS_PER_GENRE * random.next() ** 2.8)
    const index = genre * FILMS_PER_GENRE + film
    if (!seen.has(index)) return index
  }
}
