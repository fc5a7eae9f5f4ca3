// A size policy of your own in 30 lines: an id grows to the next size when it has been met often enough for it.
// Run it:     dess run --plugin ./grow-by-count.mjs --method grow-by-count:least=20
// Compare it: dess compare --plugin ./grow-by-count.mjs --methods grow-by-count,dess-fre --seeds 3

export const policies = {
  "grow-by-count": {
    /** Events for the step up from the smallest size; each further step asks for twice as many. */
    options: { least: 10 },
    create({ options }) {
      if (!(options.least > 0)) throw new Error(`least: expected more than 0, got ${options.least}`)

      /** 1 grows, 0 keeps: one arm for each of the rows. */
      const arms = ({ length, frequencies, steps }) => {
        const out = new Uint8Array(length)
        for (let i = 0; i < length; i++) out[i] = frequencies[i] >= options.least * 2 ** steps[i] ? 1 : 0
        return out
      }

      return {
        context: "fre", // it reads how often an id was met
        firstSegment: 2, // and decides from the second segment on
        learn: (_side, round) => arms(round), // a rule learns nothing: it says what it would have done
        decide: (_side, choices) => arms(choices),
      }
    },
  },
}
