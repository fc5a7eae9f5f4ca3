/** Gorse's items: dess has categories and hidden items itself, the rest is kept as a note. Deleted items are hidden and not found. */

import type { Static } from "typebox"
import type { ItemView, Recommender } from "../../engine/types.ts"
import { DessError, show } from "../../errors.ts"
import type { RouteContext } from "../native.ts"
import { type Route, route } from "../route.ts"
import * as schema from "./schemas.ts"
import { addNotes, readCursor, userNote } from "./users.ts"

/** Go's zero time. */
const NO_TIME = "0001-01-01T00:00:00Z"

export function itemRoutes({ recommender }: RouteContext<Recommender>): Route[] {
  const tag = "gorse"
  const find = (item: string): ItemView => {
    const view = recommender().item(item)
    if (view) return view
    throw new DessError("NOT_FOUND", `item: expected one that has been met or inserted, got ${show(item)}`)
  }
  const view = ({ item, hidden, categories }: ItemView) => {
    const { labels = null, comment = "", timestamp = NO_TIME } = recommender().note("item", item) ?? {}
    return {
      ItemId: item,
      IsHidden: hidden,
      Categories: categories,
      Timestamp: timestamp,
      Labels: labels,
      Comment: comment,
    }
  }
  const put = async (items: Static<typeof schema.Items>) => {
    const live = recommender()
    // First, since they may be refused.
    await addNotes(
      live,
      "item",
      items.map((item) => ({
        id: item.ItemId,
        note: { ...userNote(item), ...(item.Timestamp ? { timestamp: item.Timestamp } : {}) },
      })),
    )
    await live.putItems(
      items.map(({ ItemId, IsHidden, Categories }) => ({
        item: ItemId,
        ...(typeof IsHidden === "boolean" ? { hidden: IsHidden } : {}),
        ...(Categories ? { categories: Categories } : {}),
      })),
    )
    return { RowAffected: items.length }
  }
  /** Inserting overwrites: fields that are left out are reset. */
  const whole = (items: Static<typeof schema.Items>) =>
    put(
      items.map((item) => ({
        Labels: null,
        Comment: "",
        ...item,
        IsHidden: item.IsHidden ?? false,
        Categories: item.Categories ?? [],
      })),
    )
  const setCategories = async (item: string, categories: string[]) => {
    await recommender().putItems({ item, categories })
    return { RowAffected: 1 }
  }
  return [
    route({
      method: "POST",
      path: "/api/item",
      tag,
      summary: "Insert an item, or overwrite it",
      access: "write",
      body: schema.Item,
      gives: schema.RowAffected,
      handle: ({ body }) => whole([body]),
    }),
    route({
      method: "POST",
      path: "/api/items",
      tag,
      summary: "Insert items, or overwrite them",
      access: "write",
      body: schema.Items,
      gives: schema.RowAffected,
      handle: ({ body }) => whole(body),
    }),
    route({
      method: "PATCH",
      path: "/api/item/:item",
      tag,
      summary: "Change an item",
      access: "write",
      params: schema.ItemPath,
      body: schema.ItemPatch,
      gives: schema.RowAffected,
      handle: ({ params, body }) => put([{ ...body, ItemId: params.item }]),
    }),
    route({
      method: "GET",
      path: "/api/item/:item",
      tag,
      summary: "An item",
      access: "read",
      params: schema.ItemPath,
      gives: schema.Item,
      handle: ({ params }) => view(find(params.item)),
    }),
    route({
      method: "GET",
      path: "/api/items",
      tag,
      summary: "Items, a page at a time",
      access: "read",
      slow: true,
      query: schema.ItemsQuery,
      gives: schema.ItemPage,
      handle: async ({ query: { n: count = 10, cursor, Cursor, q } }) => {
        const offset = readCursor(cursor ?? Cursor)
        const ids =
          q === undefined
            ? recommender().ids("item", { offset, count })
            : (await recommender().search(q, { offset, count })).map(({ item }) => item)
        return { Cursor: ids.length < count ? "" : String(offset + count), Items: ids.map((id) => view(find(id))) }
      },
    }),
    route({
      method: "DELETE",
      path: "/api/item/:item",
      tag,
      summary: "Delete an item",
      access: "write",
      params: schema.ItemPath,
      gives: schema.RowAffected,
      handle: async ({ params: { item } }) => {
        find(item)
        await recommender().putNotes("item", [{ id: item, note: null }])
        await recommender().deleteItems(item)
        return { RowAffected: 1 }
      },
    }),
    route({
      method: "PUT",
      path: "/api/item/:item/category/:category",
      tag,
      summary: "Put an item into a category",
      access: "write",
      params: schema.ItemCategoryPath,
      gives: schema.RowAffected,
      handle: ({ params: { item, category } }) => setCategories(item, [...find(item).categories, category]),
    }),
    route({
      method: "DELETE",
      path: "/api/item/:item/category/:category",
      tag,
      summary: "Take an item out of a category",
      access: "write",
      params: schema.ItemCategoryPath,
      gives: schema.RowAffected,
      handle: ({ params: { item, category } }) =>
        setCategories(
          item,
          find(item).categories.filter((name) => name !== category),
        ),
    }),
  ]
}
