-- Delete a group. KEYS: meta, index of due times, buckets. ARGV: token, epoch, txid (unused), the uuid of the driver's
-- log.
local refused = newer_or_other(ARGV[4])
if refused then return refused end
for at = 1, #KEYS, 4000 do
  redis.call('UNLINK', unpack(KEYS, at, math.min(at + 3999, #KEYS)))
end
return answer('OK')
