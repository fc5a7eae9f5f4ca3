/**
 * Spares LMDB's own opening of a file, which ends the process where it fails by a bug of that package (it frees its
 * environment twice). For processes under tools/faults: `node --import`.
 */

import { nativeAddon, open } from "lmdb"
import { Faults } from "../faults/faults.mjs"

const faults = Faults.own()
// The service refuses variables of that beginning that it does not know.
if (process.argv.includes("serve")) delete process.env.DESS_FAULTS

function openCalmly(...args) {
  faults.setCalm(true)
  nativeAddon.open = open
  try {
    return open(...args)
  } finally {
    nativeAddon.open = openCalmly
    faults.setCalm(false)
  }
}

if (faults) {
  open({})
  nativeAddon.open = openCalmly
}
