-- Put whole records, each only if its key still has the txid (t) that the writer has read. KEYS: meta, buckets. ARGV:
-- token, epoch, txid, number of fields per bucket (4 bytes each), fields (each with its length before it, 4 bytes), the
-- t that was read for each (8 bytes, -1 for no record; '' puts all without a check), records (like fields), 'json' or
-- 'packed'. In a state that keeps due times the last of KEYS is their index, and ARGV[9] has the due time of each field
-- (8 bytes, a double; NaN for none).
-- A key that has this txid already stays as it is. Answers OK, number of moved keys; any other answer means that
-- nothing was written.
local refused = closed()
if refused then return refused end
local unpk, rep = struct.unpack, string.rep
local txid, asks, json, dues = tonumber(ARGV[3]), ARGV[6] ~= '', ARGV[8] == 'json', ARGV[9]
local buckets = dues and #KEYS - 1 or #KEYS
local counts = {unpk(rep('<I4', buckets - 1), ARGV[4])}
local writes, fresh, names, n, moved, created = {}, {}, {}, 0, 0, 0
local at, from = 1, 1
for b = 2, buckets do
  local count = counts[b - 1]
  local fields = {unpk(rep('<I4c0', count), ARGV[5], at)}
  local records = {unpk(rep('<I4c0', count), ARGV[7], from)}
  at, from = fields[count + 1], records[count + 1]
  local found = redis.call('HMGET', KEYS[b], unpack(fields, 1, count))
  fresh[b] = 0
  local out, k = {}, 0
  for i = 1, count do
    local stored, t = found[i], -1
    names[n + i] = fields[i]
    if stored and asks then
      if json then t = tonumber(string.match(stored, '^{"txid":(%d+)') or '')
      else t = #stored > 8 and unpk('<I8', stored, 2) end
      if not t then return answer('CORRUPT') end
      if t > txid then return answer('AHEAD') end
    end
    if not stored then fresh[b] = fresh[b] + 1 end
    if not asks or t < txid then
      if asks and t ~= unpk('<i8', ARGV[6], 8 * (n + i) - 7) then return answer('CONFLICT') end
      out[k + 1], out[k + 2] = fields[i], records[i]
      k = k + 2
    end
  end
  n, moved = n + count, moved + k / 2
  writes[b] = out
end
probe()
-- first, because a script that is stopped by its first write (memory, a foreign key) has written nothing
if dues then note_dues(KEYS[#KEYS], names, dues) end
for b = 2, buckets do
  if #writes[b] > 0 then redis.call('HSET', KEYS[b], unpack(writes[b])) end
  if fresh[b] > 0 then add_legend(KEYS[b], fresh[b]) end
  created = created + fresh[b]
end
if moved > 0 then redis.call('HINCRBY', KEYS[1], 'moved', moved) end
if created > 0 then redis.call('HINCRBY', KEYS[1], 'keys', created) end
return {'OK', moved}
