-- Delete expired values from a part of a bucket: no read can see them any more, and no update would combine with them.
-- KEYS: meta, bucket. ARGV: token, epoch, the marker that the cutoff was read with (on a server that has fallen back
-- since, values up to the cutoff are needed again), cutoff, cursor, number of fields to look at, 'json' or 'packed'.
-- Answers OK, the next cursor, number of deleted fields.
local refused = fenced()
if refused then return refused end
if tonumber(marker) < tonumber(ARGV[3]) then return answer('BEHIND') end
local cutoff, json = tonumber(ARGV[4]), ARGV[7] == 'json'
local found = redis.call('HSCAN', KEYS[2], ARGV[5], 'COUNT', ARGV[6])
local entries, gone, seen = found[2], {}, {}
for i = 1, #entries, 2 do
  local record, t = entries[i + 1], nil
  if json then t = tonumber(string.match(record, '^{"txid":(%d+)') or '')
  elseif #record > 8 then t = struct.unpack('<I8', record, 2) end
  if t and t <= cutoff and entries[i] ~= '' and not seen[entries[i]] then -- not the legend
    seen[entries[i]] = true
    gone[#gone + 1] = entries[i]
  end
end
for from = 1, #gone, 1000 do
  redis.call('HDEL', KEYS[2], unpack(gone, from, math.min(from + 999, #gone)))
end
if #gone > 0 then
  drop_legend(KEYS[2])
  redis.call('HINCRBY', KEYS[1], 'keys', -#gone)
end
return {'OK', found[1], #gone}
