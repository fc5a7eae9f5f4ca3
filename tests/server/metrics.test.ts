/** What Prometheus reads. */

import { expect, test } from "vitest"
import { openService } from "../support/service.ts"

test("counts and rates of lists by variant, with their intervals and differences", async () => {
  const variants = { model: { share: 0.5 }, popular: { share: 0.5, list: "popular" } }
  const service = await openService({ flags: { variants: JSON.stringify(variants) } })
  const events = Array.from({ length: 200 }, (_, n) => ({ user: `u${n}`, item: `i${n % 20}` }))
  await service.call("POST", "/v1/interactions", { body: events })
  for (let n = 0; n < 40; n++) {
    const answer = await service.call("GET", `/v1/users/u${n}/recommendations`)
    const [{ item }] = answer.body as { item: string }[]
    const list = answer.headers.get("dess-list")
    if (n % 4 === 0) await service.call("POST", "/v1/interactions", { body: { user: `u${n}`, item, list, place: 1 } })
  }
  const answer = await service.call("GET", "/v1/experiments")
  const { variants: counted, differences } = answer.body as {
    variants: { name: string; lists: { clickRate: Record<"estimate" | "low" | "high", number> }[] }[]
    differences: Record<"estimate" | "low" | "high", number>[]
  }
  const text = await (await fetch(`${service.url}/metrics`)).text()
  await service.stop()
  for (const { name, lists } of counted) {
    const labels = `{list="recommend",variant="${name}",rate="click"}`
    const { estimate, low, high } = lists[0].clickRate
    expect(low).toBeLessThan(high)
    expect(text).toContain(`\ndess_list_rate${labels} ${estimate}\n`)
    expect(text).toContain(`\ndess_list_rate_low${labels} ${low}\n`)
    expect(text).toContain(`\ndess_list_rate_high${labels} ${high}\n`)
  }
  const labels = `{variant="popular",against="model",rate="click"}`
  expect(text).toContain(`\ndess_list_rate_difference${labels} ${differences[0].estimate}\n`)
  expect(text).toContain(`\ndess_list_rate_difference_low${labels} ${differences[0].low}\n`)
  expect(text).toContain(`\ndess_list_rate_difference_high${labels} ${differences[0].high}\n`)
})
