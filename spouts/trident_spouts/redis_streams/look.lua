-- Look at a stream: what it says of itself at this moment, and which entries its next page has, without the entries.
--
-- KEYS[1]: the stream. ARGV: the id after which the page begins; the most entries; the bytes at which the page ends.
-- Returns {role} if there is no such key. Digests are compared with those of entries.py.

local key, after = KEYS[1], ARGV[1]
local most, enough = tonumber(ARGV[2]), tonumber(ARGV[3])
local GREATEST = '18446744073709551615-18446744073709551615'
local STEP = 20 -- the entries of one XRANGE; the last one stands for all of them where bytes are counted

local function content(entry) return entry[1] .. ' ' .. #entry[2] .. ' ' .. table.concat(entry[2], '\0') end
local function digest(entry) return string.sub(redis.sha1hex(content(entry)), 1, 16) end

-- The entries after an id. XRANGE refuses to begin after the greatest id, which no entry follows.
local function entries_after(id, most)
  if id == GREATEST then return {} end
  return redis.call('XRANGE', key, '(' .. id, '+', 'COUNT', most)
end

local role = string.match(redis.call('INFO', 'replication'), 'role:(%a+)')
if redis.call('EXISTS', key) == 0 then return {role} end

local info, about = redis.call('XINFO', 'STREAM', key), {}
for at = 1, #info, 2 do about[info[at]] = info[at + 1] end

local here = redis.call('XRANGE', key, after, after)[1]
local count, size, last = 0, 0, {after}
while count < most and size < enough do
  local entries = entries_after(last[1], math.min(STEP, most - count))
  if #entries == 0 then break end
  last = entries[#entries]
  count = count + #entries
  size = size + #entries * #content(last)
end
local following = entries_after(last[1], 1)[1]

return {
  role,
  about['length'], about['last-generated-id'], about['entries-added'],
  about['max-deleted-entry-id'], about['recorded-first-entry-id'],
  here and digest(here) or '',
  count, size, last[1], count > 0 and digest(last) or '',
  following and following[1] or '',
}
