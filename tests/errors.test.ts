import { expect, test } from "vitest"
import { missingPackage } from "../src/errors.ts"

test("a missing package and one without its binary are distinguished, each with what to install", () => {
  const missing = Object.assign(new Error("Cannot find package 'lmdb'"), { code: "ERR_MODULE_NOT_FOUND" })
  expect(missingPackage("directory", "lmdb", missing).message).toBe(
    "directory: expected lmdb, got none; npm install lmdb",
  )
  expect(missingPackage("directory", "lmdb", new Error("No native build was found")).message).toBe(
    'directory: expected lmdb, got "No native build was found"; npm install --include=optional lmdb',
  )
})
