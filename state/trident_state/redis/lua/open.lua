-- Open a txid in a group. ARGV: token, epoch, txid, number of buckets, '1' if the count of moved keys begins anew (a
-- non-transactional state puts them again). Else the count goes on when the same txid is opened again, because keys
-- that have the txid already are not put again. Answers OK and, as detail, this count.
local refused = fenced()
if refused then return refused end
local txid, done = tonumber(ARGV[3]), tonumber(marker)
if done >= txid then return answer('DONE') end
if done < txid - 1 then return answer('BEHIND') end
local stored = redis.call('HMGET', KEYS[1], 'buckets', 'moving', 'moved')
if stored[1] ~= ARGV[4] then return answer('SHAPE') end
local moved = stored[3]
if stored[2] ~= ARGV[3] or ARGV[5] == '1' then
  moved = '0'
  redis.call('HSET', KEYS[1], 'moving', ARGV[3], 'moved', moved)
end
if open ~= ARGV[3] then redis.call('HSET', KEYS[1], 'open', ARGV[3]) end
return answer('OK', moved)
