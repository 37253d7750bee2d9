-- Put whole records. KEYS: meta, buckets. ARGV: token, epoch, txid, number of fields per bucket (4 bytes each), fields and
-- records in turn (each with its length before it, 4 bytes), then why the writer may put them, then 'json' or 'packed'.
-- In a state that keeps due times the last of KEYS is their index, and ARGV[9] has the due time of each field (8 bytes, a
-- double; NaN for none).
-- ARGV[6] has for each field the txid (t) that the writer read (8 bytes, -1 for no record): the key must still have it; a
-- key that has this batch's txid already stays as it is. Where ARGV[6] is '', ARGV[7] is the number of keys that the batch
-- has moved in this group before: no other put has come since the writer read the keys ('': put them in any case).
-- Answers OK, number of moved keys; any other answer means that nothing was written.
local refused = closed()
if refused then return refused end
if ARGV[7] ~= '' and redis.call('HGET', KEYS[1], 'moved') ~= ARGV[7] then return answer('CONFLICT') end
local unpk, rep = struct.unpack, string.rep
local txid, asks, json, dues = tonumber(ARGV[3]), ARGV[6] ~= '', ARGV[8] == 'json', ARGV[9]

-- Return the pairs that are not put yet; nil and a status if one cannot be put.
local function missing(bucket, names, pairs, n)
  local found, out, k = redis.call('HMGET', bucket, unpack(names)), {}, 0
  for i = 1, #names do
    local stored, t = found[i], -1
    if stored then
      if json then t = tonumber(string.match(stored, '^{"txid":(%d+)') or '')
      else t = #stored > 8 and unpk('<I8', stored, 2) end
      if not t then return nil, 'CORRUPT' end
      if t > txid then return nil, 'AHEAD' end
    end
    if t < txid then
      if t ~= unpk('<i8', ARGV[6], 8 * (n + i) - 7) then return nil, 'CONFLICT' end
      out[k + 1], out[k + 2] = names[i], pairs[2 * i]
      k = k + 2
    end
  end
  return out
end

local buckets = dues and #KEYS - 1 or #KEYS
local counts = {unpk(rep('<I4', buckets - 1), ARGV[4])}
local writes, all, n, at, moved, created = {}, {}, 0, 1, 0, 0
for b = 2, buckets do
  local count = counts[b - 1]
  local pairs = {unpk(rep('<I4c0', 2 * count), ARGV[5], at)}
  at, pairs[2 * count + 1] = pairs[2 * count + 1], nil
  local names = {}
  if asks or dues then
    for i = 1, count do
      names[i], all[n + i] = pairs[2 * i - 1], pairs[2 * i - 1]
    end
  end
  if asks then
    local out, status = missing(KEYS[b], names, pairs, n)
    if not out then return answer(status) end
    pairs = out
  else
    redis.call('HLEN', KEYS[b]) -- a foreign key in the place of a bucket must be noticed before the first write
  end
  n, moved, writes[b] = n + count, moved + #pairs / 2, pairs
end
probe()
-- first, because a script that is stopped by its first write (memory, a foreign key) has written nothing
if dues then note_dues(KEYS[#KEYS], all, dues) end
for b = 2, buckets do
  if #writes[b] > 0 then
    local fresh = redis.call('HSET', KEYS[b], unpack(writes[b]))
    if fresh > 0 then add_legend(KEYS[b], fresh) end
    created = created + fresh
  end
end
if moved > 0 then redis.call('HINCRBY', KEYS[1], 'moved', moved) end
if created > 0 then redis.call('HINCRBY', KEYS[1], 'keys', created) end
return {'OK', moved}
