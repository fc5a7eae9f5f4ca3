/**
 * A small shop. Before the first start, import its products and earlier purchases. In a project these files are in
 * node_modules/dess/examples/shop.
 *
 *   npx dess import examples/shop/products.ndjson --items --directory shop-data
 *   npx dess import examples/shop/purchases.csv --directory shop-data --types '{"view":0.2,"cart":0.5,"purchase":1}'
 *   node examples/shop/shop.mjs shop-data        # then http://127.0.0.1:3000
 *
 * It embeds the recommender; the page is page.html. What belongs to a real shop and not to lists (passwords, payment) is
 * left out.
 */

import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { pathToFileURL } from "node:url"
import { Recommender } from "dess"

const read = (name) => readFileSync(new URL(name, import.meta.url), "utf8")

/** What events weigh. A list leaves out what was bought, not what was looked at. */
const TYPES = { view: 0.2, cart: 0.5, purchase: 1 }

/** Rules of every list of the page: what is in stock, below a price, one brand first, two of a kind. */
function rulesOf({ stock, price, boost, cap, count }) {
  const filter = { ...(stock && { inStock: true }), ...(price && { price: { lte: Number(price) } }) }
  return {
    count: Number(count ?? 6),
    filter,
    include: ["title", "categories", "properties"],
    ...(boost && { boost: [{ filter: { brand: boost }, by: 5 }] }),
    ...(cap && { cap: { category: Number(cap) } }),
  }
}

/** Names the items that speak for one. */
function nameReasons(recommender, list) {
  for (const { why } of list) for (const one of why.items) one.title = recommender.item(one.item)?.title ?? one.item
  return list
}

/** What the page asks for, by method and first words of the path. */
const ROUTES = {
  // The last of `forYou` is something new that may please, where the page asks for it.
  "GET /api/home": async ({ recommender, query: { visitor, fresh: places = 0, ...query } }) => {
    const rules = rulesOf(query)
    const [forYou, popular, fresh] = await Promise.all([
      recommender.recommend(visitor, { ...rules, why: true, fresh: Number(places) }),
      recommender.popular(rules),
      recommender.newest(rules),
    ])
    return { forYou: nameReasons(recommender, forYou), popular, fresh }
  },
  "POST /api/guest": ({ recommender, body: { items, ...query } }) =>
    recommender.recommend({ items, ...rulesOf(query) }),
  "GET /api/product": async ({ recommender, query: { id, ...query } }) => ({
    ...recommender.item(id),
    similar: await recommender.similar(id, rulesOf(query)),
  }),
  "GET /api/search": ({ recommender, query: { query } }) => recommender.search(query, { count: 20 }),
  // An event would make an item of whatever it names.
  "POST /api/event": ({ recommender, body }) => {
    if (recommender.has("item", body.item)) return recommender.observe({ ...body, timestamp: Date.now() })
    throw Object.assign(new Error(`${body.item}: there is no such product`), { code: "NOT_FOUND" })
  },
  "POST /api/sign-in": ({ recommender, body: { guest, user } }) => recommender.merge(guest, user),
  "PUT /api/product": ({ recommender, body }) => recommender.putItems(body),
  "DELETE /api/product": ({ recommender, query: { id } }) => recommender.deleteItems(id),
  "DELETE /api/user": ({ recommender, query: { id } }) => recommender.forget(id),
}

async function bodyOf(request) {
  let text = ""
  for await (const part of request) text += part
  return text === "" ? {} : JSON.parse(text)
}

async function answer(recommender, request, response) {
  const { pathname, searchParams } = new URL(request.url, "http://shop")
  if (pathname === "/") return response.setHeader("content-type", "text/html; charset=utf-8").end(read("page.html"))
  const route = ROUTES[`${request.method} ${pathname}`]
  response.setHeader("content-type", "application/json")
  try {
    if (!route)
      throw Object.assign(new Error(`${request.method} ${pathname}: there is no such page`), { code: "NOT_FOUND" })
    const query = Object.fromEntries(searchParams)
    response.end(JSON.stringify(await route({ recommender, query, body: await bodyOf(request) })))
  } catch (error) {
    response.statusCode = error.code === "NOT_FOUND" ? 404 : error.code === "BUSY" ? 503 : 400
    response.end(JSON.stringify({ error: error.message }))
  }
}

/** Opens the shop; port 0 is any that is free. */
export async function openShop({ directory, port = 3000 }) {
  const recommender = await Recommender.open({ directory, types: TYPES, memoryBudget: "256MB" })
  const server = createServer((request, response) => answer(recommender, request, response))
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    recommender,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await recommender.close()
    },
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [directory = "shop-data", port = "3000"] = process.argv.slice(2)
  const shop = await openShop({ directory, port: Number(port) })
  console.log(`The shop is open: ${shop.url}`)
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => shop.close())
}
