/**
 * Everything that must happen at once, as Lua scripts of one slot each. A write of a trainer names the lease it holds
 * (owner and fence) and the number of the write before it: a late one, or one whose predecessor was lost with a master,
 * changes nothing. The nonce tells a retry whose answer got lost from the write of another process.
 */

import { createHash } from "node:crypto"
import type { Argument, Redis, Reply } from "./redis.ts"

interface Script {
  text: string
  sha: string
  readonly: boolean
}

function script(text: string, readonly = false): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex"), readonly }
}

/** Goes through when Redis is full: it takes the place of what was there, and who owns what must stay so. */
const ALWAYS = "#!lua flags=allow-oom\n"

const NOW = `local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

/** What a fenced write begins with: KEYS lease, counters; ARGV owner, fence, number expected, nonce, lease in ms. */
const FENCED = `${NOW}local l = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if l[1] ~= ARGV[1] or l[2] ~= ARGV[2] then return {-1} end
local s = redis.call('HMGET', KEYS[2], 'seq', 'nonce')
local seq = tonumber(s[1] or '0')
if seq ~= tonumber(ARGV[3]) then
  if s[2] == ARGV[4] then return {seq} end
  return {-2, seq}
end
seq = seq + 1
redis.call('HSET', KEYS[1], 'until', now + tonumber(ARGV[5]))
redis.call('HSET', KEYS[2], 'seq', seq, 'nonce', ARGV[4])
local at = 6
local function take() at = at + 1 return ARGV[at - 1] end
`

/** Rows in one argument: number of the key, place, length and record of each. A row past the end of its list is appended. */
const ROWS = `local rows, from = take(), 1
while from <= #rows do
  local k, place, length = struct.unpack('<I2BI4', rows, from)
  local key, record = KEYS[k], string.sub(rows, from + 7, from + 6 + length)
  from = from + 7 + length
  if place < redis.call('LLEN', key) then redis.call('LSET', key, place, record)
  else
    for _ = redis.call('LLEN', key) + 1, place do redis.call('RPUSH', key, '') end
    redis.call('RPUSH', key, record)
  end
end
`

const SCRIPTS = {
  /** KEYS counts, this call. ARGV seconds to remember the call, seconds to keep the counts, then field and number, each. */
  addCounts: script(`if not redis.call('SET', KEYS[2], '1', 'NX', 'EX', ARGV[1]) then return 0 end
for i = 3, #ARGV, 2 do redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1`),
  /**
   * KEYS events, keys of now, keys of before, state, this call. ARGV milliseconds to remember the call, keys to
   * remember, unlearned events above which none are taken, then key hash ('' for none) and event, each.
   * → [taken, last id, events ever, first id]; −1: done before; −2: too many waiting. The ids of a call follow each other,
   * also where the clock goes on meanwhile.
   */
  append: script(`local function known(k)
  return redis.call('SISMEMBER', KEYS[2], k) == 1 or redis.call('SISMEMBER', KEYS[3], k) == 1
end
local s = redis.call('HMGET', KEYS[4], 'last', 'appended', 'applied')
local appended = tonumber(s[2] or '0')
if redis.call('EXISTS', KEYS[5]) == 1 then return {-1, s[1] or '0-0', appended} end
if appended - tonumber(s[3] or '0') >= tonumber(ARGV[3]) then return {-2, s[1] or '0-0', appended} end
redis.call('SET', KEYS[5], '', 'PX', ARGV[1])
local taken, last, first = 0, s[1] or '0-0', '0-0'
local time, from
for i = 4, #ARGV, 2 do
  local k = ARGV[i]
  if k == '' or not known(k) then
    if k ~= '' then redis.call('SADD', KEYS[2], k) end
    local id = '*'
    if taken > 0 then id = string.format('%s-%.0f', time, from + taken) end
    last = redis.call('XADD', KEYS[1], id, 'e', ARGV[i + 1])
    if taken == 0 then
      first = last
      time, from = string.match(last, '(%d+)-(%d+)')
    end
    taken = taken + 1
  end
end
redis.call('HSET', KEYS[4], 'last', last, 'appended', appended + taken)
if redis.call('SCARD', KEYS[2]) > tonumber(ARGV[2]) then redis.call('RENAME', KEYS[2], KEYS[3]) end
return {taken, last, appended + taken, first}`),

  /** KEYS lease. ARGV owner, milliseconds. → [fence, owner]; fence 0 where another holds it. */
  acquire: script(`${ALWAYS}${NOW}local l = redis.call('HMGET', KEYS[1], 'owner', 'until')
if l[1] and l[1] ~= '' and l[1] ~= ARGV[1] and tonumber(l[2]) > now then return {0, l[1]} end
local fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', now + tonumber(ARGV[2]))
return {fence, ARGV[1]}`),

  /** KEYS lease. ARGV owner, fence, milliseconds (0 gives it back). → 1, or 0 where it is lost. */
  renew: script(`${ALWAYS}${NOW}local l = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if l[1] ~= ARGV[1] or l[2] ~= ARGV[2] then return 0 end
if ARGV[3] == '0' then redis.call('HSET', KEYS[1], 'owner', '', 'until', 0)
else redis.call('HSET', KEYS[1], 'until', now + tonumber(ARGV[3])) end
return 1`),

  /** KEYS members. ARGV own id, own note ('' leaves), milliseconds others may be silent. → ids and notes of the living. */
  members: script(`${ALWAYS}${NOW}if ARGV[2] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
elseif ARGV[1] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[2]) end
local all, living = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local seen, note = string.match(all[i + 1], '^(%d+) (.*)$')
  if tonumber(seen) + tonumber(ARGV[3]) < now then redis.call('HDEL', KEYS[1], all[i])
  else living[#living + 1] = all[i] living[#living + 1] = note end
end
return living`),

  /**
   * One segment. Its last event's id is the offset, and its place in outbox and evidence.
   * KEYS lease, state, outbox, evidence, events, then lists of rows and hashes of names. ARGV fence …, offset, counters to add (name, by), evidence, entries of evidence kept, outbox position all have
   * applied, events to keep, changes (owner, bytes), rows, names (key, name, number), users. → [number].
   */
  segment: script(`${FENCED}local function before(a, b)
  local at, an = string.match(a, '(%d+)-(%d+)')
  local bt, bn = string.match(b, '(%d+)-(%d+)')
  if at ~= bt then return tonumber(at) < tonumber(bt) end
  return tonumber(an) < tonumber(bn)
end
local offset = take()
redis.call('HSET', KEYS[2], 'offset', offset)
for _ = 1, tonumber(take()) do redis.call('HINCRBY', KEYS[2], take(), take()) end
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[at + 1], offset, 'e', ARGV[at])
at = at + 2
local done, keep = take(), tonumber(take())
redis.call('XTRIM', KEYS[3], 'MINID', '~', done)
local kept = redis.call('HGET', KEYS[2], 'snapshot') or '0-0'
-- Not where a replica took over that had learned less than the snapshot has.
if before(kept, offset) then redis.call('XTRIM', KEYS[5], 'MINID', '~', kept) end
if redis.call('XLEN', KEYS[5]) > keep then
  local behind = tonumber(redis.call('HGET', KEYS[2], 'appended')) - tonumber(redis.call('HGET', KEYS[2], 'applied'))
  redis.call('XTRIM', KEYS[5], 'MAXLEN', '~', math.max(keep, behind))
end
local entry = {}
for _ = 1, tonumber(take()) do entry[#entry + 1] = take() entry[#entry + 1] = take() end
if #entry > 0 then redis.call('XADD', KEYS[3], offset, unpack(entry)) end
${ROWS}for _ = 1, tonumber(take()) do redis.call('HSET', KEYS[tonumber(take())], take(), take()) end
redis.call('HSET', KEYS[2], 'users', take())
return {seq}`),

  /**
   * A user forgotten, by its entry in the log; its events there go by and by. KEYS lease, state, outbox, hash of names,
   * users being forgotten. ARGV fence …, offset, name, prefix of lists, rows in one. → [number].
   */
  forget: script(`${FENCED}local offset, name, lists, size = take(), take(), take(), take()
redis.call('HSET', KEYS[2], 'offset', offset)
redis.call('HINCRBY', KEYS[2], 'applied', 1)
redis.call('XADD', KEYS[3], offset, 'forgot', '')
local number = redis.call('HGET', KEYS[4], name)
if number then
  redis.call('HDEL', KEYS[4], name)
  redis.call('HINCRBY', KEYS[2], 'gone', 1)
  local list = lists .. math.floor(number / size)
  if number % size < redis.call('LLEN', list) then redis.call('LSET', list, number % size, '') end
end
redis.call('HSET', KEYS[5], offset, name)
return {seq}`),

  /**
   * Takes events of a forgotten user out of the log. KEYS users being forgotten, events, the answer. ARGV entry that
   * asked for it, '1' when these are the last, milliseconds to keep the answer (how many there were), then ids. → 1, or
   * 0 where there is no request: Redis is in another state than the caller left it.
   */
  scrub: script(`if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local gone = 0
for i = 4, #ARGV do gone = gone + redis.call('XDEL', KEYS[2], ARGV[i]) end
local all = redis.call('HINCRBY', KEYS[1], 'events ' .. ARGV[1], gone)
if ARGV[2] == '1' then
  redis.call('HDEL', KEYS[1], ARGV[1], 'events ' .. ARGV[1])
  redis.call('SET', KEYS[3], all, 'PX', ARGV[3])
end
return 1`),

  /**
   * Item rows of an owner. KEYS lease, the owner's key, changes, then lists of rows. ARGV fence …, outbox positions applied
   * (partition, position), change, entries of changes kept, clock, rows. → [number].
   */
  owner: script(`${FENCED}for _ = 1, tonumber(take()) do redis.call('HSET', KEYS[2], take(), take()) end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[at + 1], seq .. '-0', 'r', ARGV[at])
at = at + 2
redis.call('HSET', KEYS[2], 'clock', take(), 'fence', ARGV[2])
${ROWS}return {seq}`),

  /**
   * A version of the global state. KEYS lease, its head, its bytes. ARGV owner, fence, version before, version,
   * positions, bytes. → 1, or 0 where the lease is lost, −1 where another version was the last.
   * `pieces` and `contained` are there for older releases, which read them.
   */
  store: script(`${ALWAYS}local l = redis.call('HMGET', KEYS[1], 'owner', 'fence')
if l[1] ~= ARGV[1] or l[2] ~= ARGV[2] then return 0 end
if (redis.call('HGET', KEYS[2], 'version') or '0') ~= ARGV[3] then return -1 end
redis.call('SET', KEYS[3], ARGV[6])
redis.call('HSET', KEYS[2], 'version', ARGV[4], 'pieces', 1, 'positions', ARGV[5], 'contained', '{}')
return 1`),

  /**
   * The last version of the global state, which older releases cut into pieces. KEYS its head. ARGV prefix of its bytes.
   * → [version, positions, bytes]; version 0 for none.
   */
  stored: script(
    `local head = redis.call('HMGET', KEYS[1], 'version', 'pieces', 'positions')
if not head[1] then return {0, '', ''} end
local bytes = {}
for n = 0, tonumber(head[2]) - 1 do
  bytes[#bytes + 1] = string.sub(redis.call('GET', ARGV[1] .. head[1] % 2 .. ':' .. n), 9)
end
return {tonumber(head[1]), head[3], table.concat(bytes)}`,
    true,
  ),

  /**
   * Numbers of item names, given to new ones. KEYS owner's key, hash of names each. ARGV prefix of lists, rows in one, then name,
   * when a new one became known, and its record, each. → "number when" each.
   */
  meet: script(`local all = {}
for i = 2, #KEYS do
  local name, born, record = ARGV[3 * i - 3], ARGV[3 * i - 2], ARGV[3 * i - 1]
  local known = redis.call('HGET', KEYS[i], name)
  if not known then
    local number = redis.call('HINCRBY', KEYS[1], 'items', 1) - 1
    known = number .. ' ' .. born
    redis.call('HSET', KEYS[i], name, known)
    local list, place = ARGV[1] .. math.floor(number / ARGV[2]), number % ARGV[2]
    local length = redis.call('LLEN', list)
    for _ = length + 1, place do redis.call('RPUSH', list, '') end
    if length > place then redis.call('LSET', list, place, record) else redis.call('RPUSH', list, record) end
  end
  all[#all + 1] = known
end
return all`),

  /** Users by name. KEYS state, hash of names each. ARGV prefix of lists, rows in one, names. → [offset, number or −1, record, …]. */
  users: script(
    `local found = {redis.call('HGET', KEYS[1], 'offset') or '0-0'}
for i = 2, #KEYS do
  local number = redis.call('HGET', KEYS[i], ARGV[i + 1])
  found[#found + 1] = number and tonumber(number) or -1
  found[#found + 1] = number and redis.call('LINDEX', ARGV[1] .. math.floor(number / ARGV[2]), number % ARGV[2]) or ''
end
return found`,
    true,
  ),

  /**
   * What is new in a partition. KEYS outbox, evidence, changes, owner's key, entries put. ARGV last outbox position, last
   * evidence, last change, last entry ('' for what is not wanted), then the owners' keys wanted.
   * → [outbox, evidence, changes, entries, number and fence of the owner's key, number of the last entry].
   */
  updates: script(
    `local wanted, out = {}, {}
for i = 5, #ARGV do wanted[ARGV[i]] = true end
local function since(key, id)
  local found = {}
  if id == '' then return found end
  for _, e in ipairs(redis.call('XRANGE', key, '(' .. id, '+', 'COUNT', 200)) do
    found[#found + 1] = e[1]
    found[#found + 1] = e[2][2]
  end
  return found
end
if #ARGV > 4 then
  for _, e in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 200)) do
    local f, mine = e[2], {e[1]}
    for i = 1, #f, 2 do if wanted[f[i]] then mine[#mine + 1] = f[i] mine[#mine + 1] = f[i + 1] end end
    out[#out + 1] = mine
  end
end
local owner = redis.call('HMGET', KEYS[4], 'seq', 'fence', 'puts')
return {out, since(KEYS[2], ARGV[2]), since(KEYS[3], ARGV[3]), since(KEYS[5], ARGV[4]),
  tonumber(owner[1] or '0'), owner[2] or '', tonumber(owner[3] or '0')}`,
    true,
  ),

  /**
   * Entries of the catalogue. KEYS owner's key, their log, hashes. ARGV entries of the log kept, then hash, number, entry and what it
   * was made from, each. → 1, or 0 where one has changed since: nothing is put then.
   */
  put: script(`for i = 2, #ARGV, 4 do
  if (redis.call('HGET', KEYS[tonumber(ARGV[i])], ARGV[i + 1]) or '') ~= ARGV[i + 3] then return 0 end
end
for i = 2, #ARGV, 4 do
  redis.call('HSET', KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2])
  local n = redis.call('HINCRBY', KEYS[1], 'puts', 1)
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], n .. '-0', 'e', ARGV[i + 1] .. ' ' .. ARGV[i + 2])
end
return 1`),

  /**
   * Takes items away: name, row and entry, null in the log of entries. KEYS owner's key, that log, hash of names each. ARGV
   * entries of the log kept, prefix of lists of rows, rows in one, prefix of hashes of entries, entries in one, then names.
   * → numbers of those that were there.
   */
  remove: script(`local gone = {}
for i = 3, #KEYS do
  local name = ARGV[i + 3]
  local known = redis.call('HGET', KEYS[i], name)
  if known then
    local number = tonumber(string.match(known, '^%d+'))
    redis.call('HDEL', KEYS[i], name)
    local list, place = ARGV[2] .. math.floor(number / ARGV[3]), number % ARGV[3]
    if redis.call('LLEN', list) > place then redis.call('LSET', list, place, '') end
    redis.call('HDEL', ARGV[4] .. math.floor(number / ARGV[5]), number)
    redis.call('HINCRBY', KEYS[1], 'gone', 1)
    local n = redis.call('HINCRBY', KEYS[1], 'puts', 1)
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], n .. '-0', 'e', number .. ' null')
    gone[#gone + 1] = number
  end
end
return gone`),
} satisfies Record<string, Script>

export type ScriptName = keyof typeof SCRIPTS

/** Sends a script's call in the slot of its first key; one that the node does not know goes as its text. */
async function sendScript<T>(
  name: ScriptName,
  p: { keys: string[]; args: Argument[] },
  send: (key: string, args: Argument[], readonly: boolean) => Promise<T>,
): Promise<T> {
  const { text, sha, readonly } = SCRIPTS[name]
  const rest = [String(p.keys.length), ...p.keys, ...p.args]
  const [bySha, byText] = readonly ? ["EVALSHA_RO", "EVAL_RO"] : ["EVALSHA", "EVAL"]
  try {
    return await send(p.keys[0], [bySha, sha, ...rest], readonly)
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error
    return send(p.keys[0], [byText, text, ...rest], readonly)
  }
}

export function runScript(redis: Redis, name: ScriptName, keys: string[], args: Argument[]): Promise<Reply> {
  return sendScript(name, { keys, args }, (key, all, readonly) => redis.send(key, all, readonly))
}

/** Runs a script, and says how many replicas have what it wrote within a second. */
export function runAndWait(
  redis: Redis,
  name: ScriptName,
  p: { keys: string[]; args: Argument[]; replicas: number },
): Promise<{ reply: Reply; reached: number }> {
  const wait = { replicas: p.replicas, milliseconds: 1000 }
  return sendScript(name, p, (key, all) => redis.sendAndWait(key, all, wait))
}
