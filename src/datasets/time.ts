/** Times of interactions as files write them. Inside, a time is in seconds since 1970. */

/** Seconds, milliseconds, microseconds or nanoseconds → seconds, or NaN past the year 5138 (1e11 s; 1e11 ms are 1973). */
export function toSeconds(value: number): number {
  return value < 1e11
    ? value
    : value < 1e14
      ? value / 1e3
      : value < 1e17
        ? value / 1e6
        : value < 1e20
          ? value / 1e9
          : Number.NaN
}

const DATE = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?)?$/

/** `Tue Apr 03 18:00:09 +0000 2012`, as Twitter and Foursquare write. */
const WEEKDAY = /^[A-Z][a-z]{2} ([A-Z][a-z]{2}) (\d\d) (\d\d:\d\d:\d\d) \+0000 (\d{4})$/

/** Seconds of a date such as 2013-02-28 or 2013-02-28 14:38:27 (UTC where no zone is given), or NaN. */
export function parseTime(text: string): number {
  const named = WEEKDAY.exec(text)
  if (named) return Date.parse(`${named[2]} ${named[1]} ${named[4]} ${named[3]} UTC`) / 1000
  const match = DATE.exec(text)
  if (match === null) return Number.NaN
  const [, day, clock = "00:00", zone = "Z"] = match
  return Date.parse(`${day}T${clock}${zone}`) / 1000
}
