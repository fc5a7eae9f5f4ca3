/** Data sets in the form their publishers give them, small: each is recognised without a flag. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { openDuck } from "../../src/datasets/duck.ts"
import { openEventFiles } from "../../src/datasets/event-files.ts"
import { EventMaker } from "../../src/datasets/live-events.ts"
import { type DataStream, type OpenOptions, openData, peekData } from "../../src/datasets/open.ts"
import { describePublished, PUBLISHED } from "../../src/datasets/publishers.ts"
import { newTally } from "../../src/datasets/ratings.ts"
import { DEFAULT_SCALE } from "../../src/stream/interaction.ts"
import type { InteractionBatch } from "../../src/types.ts"
import { buildCommand, dess } from "../support/command.ts"

const home = mkdtempSync(join(tmpdir(), "dess-forms-"))
beforeAll(buildCommand)
afterAll(() => rmSync(home, { recursive: true }))
let made = 0

/** Writes files into a folder of their own; returns the folder. */
function folder(files: Record<string, string | Uint8Array>): string {
  const path = join(home, String(made++))
  mkdirSync(path)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  return path
}

/** user, item, time and rating of every row. */
function rowsOf(stream: DataStream): string[] {
  return [...(stream.batches() as Iterable<InteractionBatch>)].flatMap((batch) =>
    Array.from({ length: batch.length }, (_, i) =>
      [stream.userName(batch.user[i]), stream.itemName(batch.item[i]), batch.timestamp[i], batch.rating[i]].join(" "),
    ),
  )
}

/** The same of what dess import reads, in order of time. */
async function liveRowsOf(path: string, { ratingScale = DEFAULT_SCALE, columns = {} }: OpenOptions = {}) {
  const maker = new EventMaker()
  const { blocks } = await openEventFiles(path, {
    ...{ choice: columns, live: true, scale: ratingScale, names: maker.names, tally: newTally() },
  })
  const events = []
  for await (const block of blocks) for (let row = 0; row < block.length; row++) events.push(maker.make(block, row))
  return events
    .map((event, place) => ({ place, ...event }))
    .sort((a, b) => (a.timestamp ?? a.place) - (b.timestamp ?? b.place))
    .map(({ user, item, timestamp, rating, place }) =>
      [user, item, timestamp ?? place, rating === undefined ? 5 : (rating * 5) / ratingScale.max].join(" "),
    )
}

interface Form {
  name: string
  files: Record<string, string | Uint8Array>
  options?: OpenOptions
  rows: string[]
  implicit?: boolean
  notes?: RegExp[]
}

const AMAZON_HEAD = "user_id,parent_asin,rating,timestamp"
const A = "AGKASBHYZPGTEPO6LWZPVJWB2BVA"
const KUAI =
  "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"

const FORMS: Form[] = [
  {
    name: "Amazon Reviews 2023, ratings only",
    files: {
      "Video_Games.csv.gz": gzipSync(
        `${AMAZON_HEAD}\n${A},B00V6R3R3S,5.0,1452647102000\n${A},B00PA7VMD2,3.0,1452648690000\n`,
      ),
    },
    rows: [`${A} B00V6R3R3S 1452647102 5`, `${A} B00PA7VMD2 1452648690 3`],
  },
  {
    name: "Amazon Reviews 2023, the 5-core benchmark cut by time into three files",
    files: {
      "Video_Games.train.csv": `${AMAZON_HEAD}\n${A},B1,5.0,1000000000000\n`,
      "Video_Games.valid.csv": `${AMAZON_HEAD}\n${A},B2,4.0,1100000000000\n`,
      "Video_Games.test.csv": `${AMAZON_HEAD}\n${A},B3,2.0,1200000000000\n`,
    },
    rows: [`${A} B1 1000000000 5`, `${A} B2 1100000000 4`, `${A} B3 1200000000 2`],
    notes: [/read as one: Video_Games.train.csv, Video_Games.valid.csv, Video_Games.test.csv/],
  },
  {
    name: "Amazon Reviews 2023, by time with histories, which are ignored",
    files: { "Books.train.csv": `${AMAZON_HEAD},history\n${A},B1,5.0,1000000000000,\n${A},B2,4.0,1100000000000,B1\n` },
    rows: [`${A} B1 1000000000 5`, `${A} B2 1100000000 4`],
  },
  {
    name: "Gowalla and Brightkite check-ins",
    files: {
      "loc-gowalla_totalCheckins.txt":
        "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n",
    },
    rows: ["0 420315 1287440263 5", "0 22847 1287532527 5"],
    implicit: true,
    notes: [/no ratings: every row is a positive/],
  },
  {
    name: "Foursquare check-ins of New York and Tokyo",
    files: {
      "dataset_TSMC2014_NYC.txt":
        "470\t49bbd6c0f964a520f4531fe3\t4bf58dd8d48988d127951735\tArts & Crafts Store\t40.719810375488535\t-74.00258103213994\t-240\tTue Apr 03 18:00:09 +0000 2012\n",
    },
    rows: ["470 49bbd6c0f964a520f4531fe3 1333476009 5"],
    implicit: true,
  },
  {
    name: "Steam-200k, without times, purchases and plays",
    files: {
      "steam-200k.csv":
        '151603712,"The Elder Scrolls V Skyrim",purchase,1.0,0\n151603712,"The Elder Scrolls V Skyrim",play,273.0,0\n',
    },
    options: { types: ["play"] },
    rows: ["151603712 The Elder Scrolls V Skyrim 0 5"],
    implicit: true,
    notes: [/no times: rows are taken in the order of the file/, /purchase 1, play 1; 1 rows are left out/],
  },
  {
    name: "Steam reviews as JSON lines",
    files: {
      "steam.jsonl":
        '{"username": "Chaos Syren", "hours": 0.1, "product_id": "725280", "date": "2017-12-17", "text": "x"}\n',
    },
    rows: ["Chaos Syren 725280 1513468800 5"],
    implicit: true,
  },
  {
    name: "Yelp reviews",
    files: {
      "yelp_academic_dataset_review.json":
        '{"review_id":"r","user_id":"u1","business_id":"b1","stars":3.0,"useful":0,"text":"ok","date":"2018-07-07 22:09:11"}\n',
    },
    rows: ["u1 b1 1531001351 3"],
  },
  {
    name: "Yelp tips, which have no stars",
    files: {
      "tips.json": '{"user_id":"u1","business_id":"b1","text":"x","date":"2012-05-18 02:17:21","compliment_count":0}\n',
    },
    rows: ["u1 b1 1337307441 5"],
    implicit: true,
  },
  {
    name: "RecBole with ratings",
    files: { "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n196\t242\t3\t881250949\n" },
    rows: ["196 242 881250949 3"],
  },
  {
    name: "RecBole without ratings",
    files: {
      "gowalla.inter": "user_id:token\titem_id:token\ttimestamp:float\tlatitude:float\n0\t22847\t1287532527\t30.2\n",
    },
    rows: ["0 22847 1287532527 5"],
    implicit: true,
  },
  {
    name: "KuaiRand: of what was shown, what was clicked",
    files: {
      "log_standard_4_08_to_4_21_pure.csv": `${KUAI}\n0,3824,20220408,1900,1649415860279,1,0,0,0,0,0,1,12000,11000,0,0,0,0,1\n0,23,20220408,1900,1649415861000,0,0,0,0,0,0,0,0,11000,0,0,0,0,1\n`,
    },
    rows: ["0 3824 1649415860.279 5"],
    implicit: true,
    notes: [/is_click: rows from 1 on count, 1 others are left out/],
  },
  {
    name: "RetailRocket events",
    files: {
      "events.csv":
        "timestamp,visitorid,event,itemid,transactionid\n1433221332117,257597,view,355908,\n1433224214164,992329,addtocart,248676,\n",
    },
    options: { types: ["addtocart"] },
    rows: ["992329 248676 1433224214.164 5"],
    implicit: true,
  },
  {
    name: "a click log as a shop writes it",
    files: {
      "log.csv":
        'user_id,session_id,item_id,type,timestamp,city\nu,s,i,clickout item,1541548939,"Zurich, Switzerland"\n',
    },
    rows: ["u i 1541548939 5"],
    implicit: true,
    notes: [
      /columns: user from "user_id", item from "item_id", timestamp, type; not read: "session_id", "city"/,
      /clickout item 1; all count/,
    ],
  },
]

describe.each(FORMS)("$name", ({ files, options, rows, implicit = false, notes = [] }) => {
  test("is recognised", async () => {
    const names = Object.keys(files)
    const path = folder(files)
    const stream = await openData(names.length > 1 ? path : join(path, names[0]), options)
    expect(rowsOf(stream)).toEqual(rows)
    expect(stream.implicit ?? false).toBe(implicit)
    for (const note of notes) expect((stream.notes ?? []).join("\n")).toMatch(note)
    expect((await peekData(join(path, names[0]))).implicit).toBe(implicit)
  })

  test("gives a live recommender the same events", async () => {
    const names = Object.keys(files)
    const path = folder(files)
    const data = names.length > 1 ? path : join(path, names[0])
    if (options?.types !== undefined || options?.implicit) return
    expect(await liveRowsOf(data, options)).toEqual(rows)
  })
})

describe("a folder as it is published, with other files beside the interactions", () => {
  const shown = (time: number) => `0,3824,20220408,1900,${time},1,0,0,0,0,0,1,12000,11000,0,0,0,0,1`
  test.each([
    [
      "KuaiRand, whose two logs follow each other",
      {
        "log_random_4_22_to_5_08_pure.csv": `${KUAI}\n${shown(9e12)}\n`,
        "log_standard_4_08_to_4_21_pure.csv": `${KUAI}\n${shown(1649415860000)}\n`,
        "log_standard_4_22_to_5_08_pure.csv": `${KUAI}\n${shown(1650600000000)}\n`,
        "user_features_pure.csv": "user_id,user_active_degree\n0,full_active\n",
        "video_features_basic_pure.csv": "video_id,author_id\n3824,1\n",
      },
      ["0 3824 1649415860 5", "0 3824 1650600000 5"],
    ],
    [
      "Yelp",
      {
        "yelp_academic_dataset_business.json": '{"business_id":"b1","stars":3.5}\n',
        "yelp_academic_dataset_review.json":
          '{"user_id":"u1","business_id":"b1","stars":3.0,"date":"2018-07-07 22:09:11"}\n',
        "yelp_academic_dataset_user.json": '{"user_id":"u1","review_count":3}\n',
      },
      ["u1 b1 1531001351 3"],
    ],
    [
      "Gowalla",
      {
        "loc-gowalla_edges.txt": "0\t1\n",
        "loc-gowalla_totalCheckins.txt": "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n",
      },
      ["0 22847 1287532527 5"],
    ],
    [
      "RetailRocket",
      {
        "category_tree.csv": "categoryid,parentid\n1016,213\n",
        "events.csv": "timestamp,visitorid,event,itemid,transactionid\n1433221332117,257597,view,355908,\n",
        "item_properties_part1.csv": "timestamp,itemid,property,value\n1435460400000,460429,categoryid,1338\n",
      },
      ["257597 355908 1433221332.117 5"],
    ],
  ])("%s", async (_, files, rows) => {
    expect(rowsOf(await openData(folder(files)))).toEqual(rows)
  })

  test("files that could all be it are refused by their names", async () => {
    await expect(openData(folder({ "a.csv": "user,item\n1,2\n", "b.csv": "user,item\n1,2\n" }))).rejects.toThrow(
      /one data file, got a\.csv, b\.csv/,
    )
  })
})

async function parquet(sql: string, name: string): Promise<string> {
  const path = join(folder({}), name)
  const duck = await openDuck({ memoryBytes: 2 ** 28, threads: 1, temporary: home })
  try {
    await duck.run(`COPY (${sql}) TO '${path}' (FORMAT parquet)`)
  } finally {
    duck.close()
  }
  return path
}

describe("Yambda", () => {
  test("likes are Parquet without ratings", async () => {
    const sql =
      "SELECT 100::UINTEGER AS uid, 5::UINTEGER AS timestamp, 77::UINTEGER AS item_id, 1::UTINYINT AS is_organic"
    const stream = await openData(await parquet(sql, "likes.parquet"))
    expect(rowsOf(stream)).toEqual(["100 77 5 5"])
    expect(stream.implicit).toBe(true)
  })

  test("of the listens those count of which half was played", async () => {
    const sql = `SELECT * FROM (VALUES (100::UINTEGER, 0::UINTEGER, 1::UINTEGER, 1::UTINYINT, 100::USMALLINT, 200::UINTEGER), (100, 5, 2, 0, 49, 180), (100, 10, 3, 0, 50, 180))
      t(uid, timestamp, item_id, is_organic, played_ratio_pct, track_length_seconds)`
    const stream = await openData(await parquet(sql, "listens.parquet"))
    expect(rowsOf(stream)).toEqual(["100 1 0 5", "100 3 10 5"])
    expect(stream.notes?.join()).toMatch(/played_ratio_pct: rows from 50 on count, 1 others are left out/)
    expect(await liveRowsOf(await parquet(sql, "listens.parquet"))).toEqual(rowsOf(stream))
  })

  test("all kinds of events in one file are told apart", async () => {
    const sql = `SELECT * FROM (VALUES (1, 0, 7, 'listen'), (1, 5, 8, 'like'), (2, 5, 8, 'unlike')) t(uid, timestamp, item_id, event_type)`
    const stream = await openData(await parquet(sql, "multi_event.parquet"), { types: ["like", "listen"] })
    expect(rowsOf(stream)).toEqual(["1 7 0 5", "1 8 5 5"])
  })
})

describe("without ratings", () => {
  const log = () =>
    join(
      folder({
        "log.csv": `user,item,time\n${Array.from({ length: 300 }, (_, i) => `u${i % 7},i${(i * i) % 23},${i}`).join("\n")}\n`,
      }),
      "log.csv",
    )

  test("dess run ranks by default, says so, and refuses a task that needs ratings", async () => {
    const path = log()
    const done = await dess(["run", "--data", path, "--method", "plain-popular", "--segment", "50", "--json"])
    expect(JSON.parse(done.stdout)).toMatchObject({ task: "topk", interactions: 300 })
    expect(done.stderr).toMatch(/log: no ratings: every row is a positive, and the task is ranking/)
    const refused = await dess(["run", "--data", path, "--task", "binary"])
    expect(refused.stderr).toMatch(/task: expected topk with data without ratings \(log\), got binary/)
  })

  test("dess compare ranks by default", async () => {
    const words = [
      "compare",
      "--data",
      log(),
      "--methods",
      "plain-popular",
      "--no-controls",
      "--seeds",
      "1",
      "--segment",
      "50",
    ]
    const done = await dess([...words, "--out", join(home, "compared"), "--json"])
    expect(JSON.parse(done.stdout)).toMatchObject({ cells: 1, failed: [], unsupported: [] })
  })

  test("--implicit leaves ratings aside", async () => {
    const path = join(folder({ "r.csv": "user,item,rating,time\na,b,1,5\n" }), "r.csv")
    expect(rowsOf(await openData(path, { implicit: true }))).toEqual(["a b 5 5"])
    await expect(openData(path, { implicit: true, columns: { rating: "rating" } })).rejects.toThrow(
      /expected no rating/,
    )
  })

  test("a kind of event that no row has is refused, and so are kinds without a column", async () => {
    const path = join(folder({ "e.csv": "user,item,event,time\na,b,view,5\n" }), "e.csv")
    await expect(openData(path, { types: ["viwe"] })).rejects.toThrow(/types: expected some of "view", got "viwe"/)
    await expect(openData(log(), { types: ["view"] })).rejects.toThrow(/types: expected a column/)
  })
})

test("before a set is fetched its address, terms, size and checksum are told", () => {
  for (const name of Object.keys(PUBLISHED)) expect(describePublished(name)).toMatch(/^https:\/\/\S+ \(.+; .+; .+\)$/)
  expect(describePublished("yambda-5b-likes")).toMatch(/Apache 2.0; 768 MB; SHA-256 c1778832/)
})
