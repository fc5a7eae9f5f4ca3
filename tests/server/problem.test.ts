/** Which errors a caller is told of, and how. */

import { expect, test } from "vitest"
import { DessError } from "../../src/errors.ts"
import { describeError, PartlyAccepted, withoutPaths } from "../../src/server/problem.ts"
import { openService, removeFolder, temporaryFolder } from "../support/service.ts"

const failed = (code: string) =>
  Object.assign(new Error(`${code}: it failed, open '/var/lib/dess/data.mdb'`), {
    code,
    path: "/var/lib/dess/data.mdb",
  })

test.each([
  ["ENOSPC", "disk: expected room, got ENOSPC; writing is refused until there is some"],
  ["EDQUOT", "disk: expected room, got EDQUOT; writing is refused until there is some"],
  ["EROFS", "disk: expected to be allowed to write, got EROFS; writing is refused until it is allowed"],
  ["EACCES", "disk: expected to be allowed to write, got EACCES; writing is refused until it is allowed"],
  ["EIO", "disk: expected it to read and write, got EIO; it may be failing"],
  ["EMFILE", "open files: expected room for one more, got EMFILE; try again later"],
  ["ENFILE", "open files: expected room for one more, got ENFILE; try again later"],
])("%s is the service's own trouble: 503, its kind, no path, and a line in the log", (code, message) => {
  const answer = { status: 503, error: "UNAVAILABLE", message, log: true }
  expect(describeError(failed(code))).toEqual(answer)
  const wrapped = new DessError("INVALID_DATA", "snapshot /var/lib/dess: expected …", { cause: failed(code) })
  expect(describeError(wrapped)).toEqual(answer)
  const partly = new PartlyAccepted(wrapped, { accepted: 3, duplicates: 1 })
  expect(describeError(partly)).toEqual({ ...answer, more: { accepted: 3, duplicates: 1 } })
})

test("an internal error is answered without paths, and logged where something was left out", () => {
  const of = (code: "UNAVAILABLE" | "CLOSED" | "INVALID_DATA", text: string) => describeError(new DessError(code, text))
  expect(of("UNAVAILABLE", 'journal: expected room, got none ("/var/lib/dess a/x.mdb")')).toMatchObject({
    status: 503,
    message: expect.not.stringContaining("/var"),
    log: true,
  })
  expect(of("CLOSED", "recommender: expected an open one")).toMatchObject({ status: 503, log: false })
  expect(of("INVALID_DATA", "user: expected a text, got /a/b")).toMatchObject({
    status: 400,
    message: "user: expected a text, got /a/b",
  })
})

test.each([
  ["got /var/lib/dess/x.mdb (17)", "got … (17)"],
  ["open '/srv/a' failed", "open '…' failed"],
  ['in "C:\\data\\dess"; stop', 'in "…"; stop'],
  ["1/2 of it, expected and/or", "1/2 of it, expected and/or"],
  ["see https://example.com/a/b", "see https://example.com/a/b"],
])("paths are left out of %j", (text, told) => {
  expect(withoutPaths(text)).toBe(told)
})

test("no answer names the data directory", async () => {
  const folder = temporaryFolder()
  const service = await openService({ flags: { directory: folder } })
  const status = await service.call("GET", "/v1/status")
  expect(status.body).toMatchObject({ directory: true, journal: { events: 0 } })
  expect(JSON.stringify(status.body)).not.toContain(folder)
  expect((await service.call("POST", "/v1/snapshots")).status).toBe(200)
  await service.stop()
  removeFolder(folder)
})

test("a service without a directory says so", async () => {
  const service = await openService()
  expect((await service.call("GET", "/v1/status")).body).toMatchObject({ directory: false })
  await service.stop()
})
