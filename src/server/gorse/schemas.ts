/** The records of Gorse's API, as its clients send and expect them. Fields that are not named here pass. */

import { type TSchema, Type } from "typebox"
import { LIMITS } from "../schemas.ts"

const Id = Type.String({ minLength: 1, maxLength: LIMITS.idCharacters })
const Category = Type.String({ minLength: 1, maxLength: LIMITS.categoryCharacters })
const Categories = Type.Array(Category, { maxItems: LIMITS.categories })
const orNull = <S extends TSchema>(schema: S) => Type.Optional(Type.Union([schema, Type.Null()]))

const userFields = { Labels: Type.Optional(Type.Unknown()), Comment: orNull(Type.String()) }
export const UserPatch = Type.Object(userFields)
export const User = Type.Object({ UserId: Id, ...userFields })
export const Users = Type.Array(User, { maxItems: LIMITS.batch })

const itemFields = {
  ...userFields,
  IsHidden: orNull(Type.Boolean()),
  Categories: orNull(Categories),
  Timestamp: orNull(Type.String({ maxLength: 64 })),
}
export const ItemPatch = Type.Object(itemFields)
export const Item = Type.Object({ ItemId: Id, ...itemFields })
export const Items = Type.Array(Item, { maxItems: LIMITS.batch })

const FeedbackType = Type.String({ minLength: 1, maxLength: 128 })
export const Feedback = Type.Object({
  FeedbackType,
  UserId: Id,
  ItemId: Id,
  Timestamp: orNull(Type.String({ maxLength: 64 })),
  Comment: orNull(Type.String({ maxLength: 4096 })),
  Value: orNull(Type.Number()),
  Labels: Type.Optional(Type.Unknown()),
})
export const Feedbacks = Type.Array(Feedback, { maxItems: LIMITS.batch })

export const Health = Type.Object({
  Ready: Type.Boolean(),
  DataStoreError: Type.Null(),
  CacheStoreError: Type.Null(),
  DataStoreConnected: Type.Boolean(),
  CacheStoreConnected: Type.Boolean(),
})

export const RowAffected = Type.Object({ RowAffected: Type.Integer() })
const Score = Type.Object({ Id: Type.String(), Score: Type.Number() })
export const Scores = Type.Array(Score)
/** Of a second version of the API: ids, or ids with scores where the header X-API-Version is 2. */
export const IdsOrScores = Type.Array(Type.Union([Type.String(), Score]))

export const TypePath = Type.Object({ type: FeedbackType })
export const PairPath = Type.Object({ user: Id, item: Id })
export const TypedPairPath = Type.Object({ type: FeedbackType, user: Id, item: Id })
export const IdPath = Type.Object({ id: Id })
export const IdTypePath = Type.Object({ id: Id, type: FeedbackType })
export const UserPath = Type.Object({ user: Id })
export const ItemPath = Type.Object({ item: Id })
export const ItemCategoryPath = Type.Object({ item: Id, category: Category })
export const ItemMaybeCategoryPath = Type.Object({ item: Id, category: Type.Optional(Category) })
export const UserCategoryPath = Type.Object({ user: Id, category: Type.Optional(Category) })
export const NamePath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) })
export const NamedItemPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }), item: Id })
export const NamedUserPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }), user: Id })
export const CategoryPath = Type.Object({ category: Type.Optional(Category) })

const n = Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default 10." }))
export const PageQuery = Type.Object({ n, cursor: Type.Optional(Type.String()), Cursor: Type.Optional(Type.String()) })
export const ItemsQuery = Type.Object({
  ...PageQuery.properties,
  q: Type.Optional(Type.String({ minLength: 1, maxLength: 512, description: "Searches ids, titles and categories." })),
})

const listFields = {
  n,
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  category: Type.Optional(Type.Union([Category, Categories])),
}
export const ListQuery = Type.Object({
  ...listFields,
  "user-id": Type.Optional(
    Type.String({ minLength: 1, maxLength: LIMITS.idCharacters, description: "Leaves out what this user has met." }),
  ),
})
export const RecommendQuery = Type.Object({
  ...listFields,
  "write-back-type": Type.Optional(Type.String({ maxLength: 128 })),
  "write-back-delay": Type.Optional(
    Type.String({ maxLength: 32, pattern: "^(\\d+(\\.\\d+)?(ms|s|m|h))*$", description: "As 10m or 1h30m0s." }),
  ),
})

export const FeedbackPage = Type.Object({ Cursor: Type.String(), Feedback: Type.Array(Feedback) })
export const UserPage = Type.Object({ Cursor: Type.String(), Users: Type.Array(Type.Unknown()) })
export const ItemPage = Type.Object({ Cursor: Type.String(), Items: Type.Array(Type.Unknown()) })
